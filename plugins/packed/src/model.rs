//! A model as schemes look at it, and what they find in it.

use crate::scaled;
use apr_sdk::{
    DERIVED, DType, Derived, Error, FactoredType, PackedTensor, RECIPE, Result, StoredModel, StoredTensor,
    Understood, strict_json,
};
use serde_json::Value as Json;
use std::collections::HashMap;

/// An object that announces packed weights.
pub struct Config<'a> {
    /// The file it is in.
    pub file: &'a str,
    /// The object's key there.
    pub key: &'a str,
    /// Its members.
    pub json: Json,
}

impl Config<'_> {
    /// A member that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.json.get(key)?.as_str()
    }

    /// A member that is a whole number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.json.get(key)?.as_i64()
    }

    /// How many columns share a scale, under the first of these keys that is there: `None` if none is, or for -1, all columns.
    ///
    /// # Errors
    /// Malformed for a number that is neither positive nor -1.
    pub fn group_size(&self, keys: &[&str]) -> Result<Option<u64>> {
        let stated = keys.iter().find_map(|key| Some((*key, self.number(key)?)));
        stated.map_or(Ok(None), |(key, size)| self.columns(key, size))
    }

    /// How many columns a size of groups stands for, stated under `key`: `None` for -1, all columns.
    ///
    /// # Errors
    /// Malformed for a number that is neither positive nor -1.
    pub fn columns(&self, key: &str, size: i64) -> Result<Option<u64>> {
        match u64::try_from(size) {
            Ok(size) if size > 0 => Ok(Some(size)),
            _ if size == -1 => Ok(None),
            _ => Err(self.wrong(key, &format!("is {size}, expected a number of columns or -1 for all"))),
        }
    }

    /// What it calls the way to pack, for messages; where it has no name for it, the key.
    pub fn method(&self) -> String {
        const NAMES: [&str; 4] = ["quant_method", "quant_algo", "qformat_weight", "format"];
        let inner = self.json.get("quantization");
        let of = |name: &str| self.text(name).or_else(|| inner?.get(name)?.as_str());
        let named = NAMES.iter().find_map(|name| of(name));
        let method: String = named.unwrap_or(self.key).chars().take(80).collect();
        format!("`{}`", method.escape_debug())
    }

    /// Whether its `quant_method` is one of these.
    pub fn is_method(&self, methods: &[&str]) -> bool {
        self.text("quant_method").is_some_and(|method| methods.contains(&method))
    }

    /// A member, or one of the object that ModelOpt's own file has its settings in.
    pub fn setting(&self, key: &str) -> Option<&Json> {
        self.json.get(key).or_else(|| self.json.get("quantization")?.get(key))
    }

    /// An error about a member.
    pub fn wrong(&self, key: &str, what: &str) -> Error {
        Error::malformed(format!("{} {what}", self.path(key))).in_file(self.file)
    }

    /// A member in messages that name another file too.
    pub fn place(&self, key: &str) -> String {
        format!("{} in {}", self.path(key), self.file)
    }

    fn path(&self, key: &str) -> String {
        let of = if self.key.is_empty() { String::new() } else { format!("{}.", self.key) };
        format!("`{of}{key}`")
    }
}

/// A model as schemes look at it.
pub struct Model<'a> {
    /// What the host told.
    pub stored: &'a StoredModel,
    /// What announces packed weights.
    pub configs: Vec<Config<'a>>,
    /// What its format says of derived weights.
    pub derived: Option<Derived>,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Model<'a> {
    /// Looks at a model.
    ///
    /// # Errors
    /// Malformed for an announcement that is no JSON.
    pub fn new(stored: &'a StoredModel) -> Result<Model<'a>> {
        let numbered = stored.tensors.iter().enumerate();
        let by_name = numbered.map(|(number, tensor)| (tensor.name.as_str(), number)).collect();
        let config = |announced: &'a apr_sdk::Announced| {
            let text =
                strict_json::text(announced.json.as_bytes()).map_err(|e| e.in_file(&announced.file))?;
            let json = serde_json::from_str(text).map_err(|error| {
                Error::malformed(format!("its description of packed weights is not valid JSON: {error}"))
                    .in_file(&announced.file)
            })?;
            Ok(Config { file: &announced.file, key: &announced.key, json })
        };
        let (own, others): (Vec<_>, Vec<_>) = stored.announced.iter().partition(|one| one.key == DERIVED);
        let derived = own.first().map(|one| Derived::from_json(one.json.as_bytes())).transpose()?;
        let configs = others.into_iter().map(config).collect::<Result<_>>()?;
        Ok(Model { stored, configs, derived, by_name })
    }

    /// The recipe that apr quantized the model by, if it did.
    pub fn recipe(&self) -> Option<&str> {
        self.configs.iter().find(|config| config.key == RECIPE)?.text(RECIPE)
    }

    /// The first announcement whose `quant_method` is one of these.
    pub fn config(&self, methods: &[&str]) -> Option<&Config<'a>> {
        self.configs.iter().find(|config| config.is_method(methods))
    }

    /// The tensors with their numbers.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, &'a StoredTensor)> {
        self.stored.tensors.iter().enumerate()
    }

    /// Tensor number `number`.
    pub fn tensor(&self, number: usize) -> &'a StoredTensor {
        &self.stored.tensors[number]
    }

    /// The number of the tensor called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The tensors whose names end so, each with its number and the name before that.
    pub fn ending(&self, suffix: &'a str) -> impl Iterator<Item = (usize, &'a StoredTensor, &'a str)> {
        self.tensors()
            .filter_map(move |(number, tensor)| Some((number, tensor, tensor.name.strip_suffix(suffix)?)))
    }

    /// The type of weights before they were packed: as the configuration states it; otherwise that of `other`, such as the
    /// scales, if it is a float of 16 bits or more; otherwise BF16.
    pub fn dtype(&self, other: DType) -> DType {
        let usual = [DType::BF16, DType::F16, DType::F32];
        self.stored.dtype.or(Some(other)).filter(|dtype| usual.contains(dtype)).unwrap_or(DType::BF16)
    }
}

/// A tensor as a matrix: how many matrices are stacked, and the rows and columns of each.
///
/// # Errors
/// Malformed for a tensor that has not two or three dimensions.
pub fn matrices(tensor: &StoredTensor) -> Result<(u64, u64, u64)> {
    /// The most codes that a stored element holds: bits of a word.
    const MOST_CODES: u64 = 32;
    // A side of 0 does not make the others smaller.
    let all = tensor.shape.iter().try_fold(MOST_CODES, |all, size| all.checked_mul((*size).max(1)));
    match tensor.shape[..] {
        [rows, columns] if all.is_some() => Ok((1, rows, columns)),
        [stacked, rows, columns] if all.is_some() => Ok((stacked, rows, columns)),
        _ => Err(Error::malformed(format!("its shape {:?} is not that of a matrix", tensor.shape))
            .tensor(&tensor.name)),
    }
}

/// What was found in a model.
pub struct Found {
    understood: Understood,
    /// For each tensor the scheme that has it.
    owners: Vec<Option<&'static str>>,
    scheme: &'static str,
    /// How many weights other schemes have.
    before: usize,
}

impl Found {
    /// Nothing yet.
    pub fn new(model: &Model<'_>) -> Found {
        let owners = vec![None; model.stored.tensors.len()];
        Found { understood: Understood::default(), owners, scheme: "", before: 0 }
    }

    /// Names the scheme that is asked now.
    pub fn by(&mut self, scheme: &'static str) {
        self.scheme = scheme;
        self.before = self.understood.packed.len();
    }

    /// The weights of the scheme that is asked now.
    pub fn own(&self) -> &[PackedTensor] {
        self.understood.packed.get(self.before..).unwrap_or_default()
    }

    /// The weights of all schemes so far.
    pub fn weights(&self) -> &[PackedTensor] {
        &self.understood.packed
    }

    /// Whether no scheme has a tensor yet.
    pub fn is_free(&self, tensor: usize) -> bool {
        self.owners.get(tensor).is_some_and(Option::is_none)
    }

    /// Adds a weight.
    ///
    /// # Errors
    /// Malformed if one of its parts belongs to another weight, or its name to another tensor.
    pub fn add(&mut self, model: &Model<'_>, weight: PackedTensor) -> Result<()> {
        for (number, what) in &weight.parts {
            self.take(model, *number, what)?;
        }
        self.push(model, weight)
    }

    /// Adds a weight whose scales and zero points, all parts but the first, others of the scheme may have too.
    ///
    /// # Errors
    /// As [`Found::add`].
    pub fn add_sharing(&mut self, model: &Model<'_>, weight: PackedTensor) -> Result<()> {
        for (at, (number, what)) in weight.parts.iter().enumerate() {
            let is_shared = at > 0 && self.owners.get(*number).copied().flatten() == Some(self.scheme);
            if !is_shared {
                self.take(model, *number, what)?;
            }
        }
        self.push(model, weight)
    }

    fn push(&mut self, model: &Model<'_>, weight: PackedTensor) -> Result<()> {
        let is_part = |number: usize| weight.parts.iter().any(|(part, _)| *part == number);
        if model.find(&weight.name).is_some_and(|number| !is_part(number)) {
            let message = "the model has this weight twice: packed and unpacked";
            return Err(Error::malformed(message).tensor(weight.name));
        }
        self.understood.packed.push(weight);
        Ok(())
    }

    /// Adds a weight that blocks may hold but for its global scale. `input` is the tensor that scales its activations, and whether
    /// it divides.
    ///
    /// # Errors
    /// As [`Found::add`].
    pub fn add_factored(
        &mut self,
        model: &Model<'_>,
        weight: PackedTensor,
        input: Option<(usize, bool)>,
    ) -> Result<()> {
        let factored = scaled::factored(&weight);
        self.add(model, weight)?;
        let of_one = |(number, _): &(usize, bool)| {
            let tensor = model.tensor(*number);
            tensor.dtype == DType::F32 && tensor.shape.iter().all(|size| *size == 1)
        };
        // Without the other scale, blocks would mean something else.
        if let Some(factored) = factored.filter(|_| input.as_ref().is_none_or(of_one)) {
            let weight = self.understood.packed.len() - 1;
            self.understood.factored.push(FactoredType { weight, input, ..factored });
        }
        Ok(())
    }

    /// Says of the weight that was added last that its activations are not to be narrowed with it.
    pub fn wide_activations(&mut self) {
        self.understood.wide_activations.extend(self.understood.packed.len().checked_sub(1));
    }

    /// Adds a tensor that values do not depend on.
    ///
    /// # Errors
    /// Malformed if it belongs to a weight.
    pub fn unused(&mut self, model: &Model<'_>, number: usize, what: &str) -> Result<()> {
        self.take(model, number, what)?;
        self.understood.unused.push((number, what.to_owned()));
        Ok(())
    }

    fn take(&mut self, model: &Model<'_>, number: usize, what: &str) -> Result<()> {
        let Some(owner) = self.owners.get_mut(number) else {
            return Err(Error::plugin("a tensor that does not exist"));
        };
        if let Some(owner) = owner.replace(self.scheme) {
            let message = match owner == self.scheme {
                true => format!("it is part of two weights of {owner}, here as {what}"),
                false => format!("it belongs to two schemes: {owner} and {}", self.scheme),
            };
            return Err(Error::malformed(message).tensor(&model.tensor(number).name));
        }
        Ok(())
    }

    /// The contents of a small tensor; asks for them if they are not there yet.
    pub fn contents<'m>(&mut self, model: &Model<'m>, number: usize) -> Option<&'m [u8]> {
        let held = model.stored.contents_of(number);
        if held.is_none() {
            self.understood.wanted.push(number);
        }
        held
    }

    /// Whether contents are asked for, without which the rest does not count.
    pub fn is_waiting(&self) -> bool {
        !self.understood.wanted.is_empty()
    }

    /// Fails for scales that no weight has: a type that holds nothing but them tells.
    ///
    /// # Errors
    /// Malformed, with the tensor.
    pub fn lost_scales(&self, model: &Model<'_>) -> Result<()> {
        // What waits for contents has no parts yet.
        if self.is_waiting() {
            return Ok(());
        }
        let is_lost = |(number, tensor): &(usize, &StoredTensor)| {
            tensor.dtype == DType::F8_E8M0 && self.is_free(*number)
        };
        match model.tensors().find(is_lost) {
            Some((_, tensor)) => {
                let message =
                    "its scales belong to no weight: the codes are missing, or have the wrong type or shape";
                Err(Error::malformed(message).tensor(&tensor.name))
            }
            None => Ok(()),
        }
    }

    /// Fails for parts of GPTQ or AWQ whose codes are missing.
    ///
    /// # Errors
    /// Malformed, with the tensor.
    pub fn lost_beside_words(&self, model: &Model<'_>) -> Result<()> {
        const PARTS: [&str; 4] = [".scales", ".qzeros", ".g_idx", ".scaled_zeros"];
        self.lost(model, &PARTS, ".qweight")
    }

    /// Fails for a tensor with one of these endings that no weight has.
    ///
    /// # Errors
    /// Malformed, with the tensor, and what the codes beside it should be called.
    pub fn lost(&self, model: &Model<'_>, endings: &[&str], codes: &str) -> Result<()> {
        for (number, tensor) in model.tensors().filter(|(number, _)| self.is_free(*number)) {
            let name = endings.iter().find_map(|ending| tensor.name.strip_suffix(ending));
            // With its codes beside it, it is for another scheme.
            if let Some(name) = name.filter(|name| model.find(&format!("{name}{codes}")).is_none()) {
                let message = format!("its codes are missing: expected `{name}{codes}`");
                return Err(Error::malformed(message).tensor(&model.tensor(number).name));
            }
        }
        Ok(())
    }

    /// Adds a line for the user, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.understood.notes.contains(&note) {
            self.understood.notes.push(note);
        }
    }

    /// What was found.
    pub fn finish(self) -> Understood {
        self.understood
    }
}
