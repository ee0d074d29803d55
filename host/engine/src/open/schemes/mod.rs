//! Packed weights understood: the tensors of a scheme give way to the weights that they store.

pub mod announcements;
pub mod companions;
pub mod descriptions;
mod renamed;
pub mod scales;
pub mod signs;

use super::OpenedModel;
use crate::engine::Engine;
use announcements::{Announcement, announcements};
use apr_sdk::{
    Announced, DType, Error, ExactType, Factored, FactoredType, MOST_CONTENTS, Model, PackedTensor,
    PackedWeight, Payload, Quantizer, RECIPE, Result, StoredModel, StoredTensor, Tensor, Understood,
    checked_elements, escape,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Limit on a plugin's requests for contents before it must know: a scheme asks once, for all it needs.
const ROUNDS: usize = 4;

/// A weight that a plugin's schemes know.
struct KnownWeight {
    by: Arc<dyn Quantizer>,
    weight: PackedTensor,
    factored: Option<Factored>,
    wide_activations: bool,
}

/// The outcome for a model's packed weights.
#[derive(Clone, Debug, Default)]
pub struct Unpacked {
    /// Number of weights packed in each way, in words, with the tensors they were stored in.
    pub kinds: Vec<(String, usize)>,
    /// Tensors that no weight depends on, with what they are.
    pub unused: Vec<(String, String)>,
    /// Notes from plugins.
    pub notes: Vec<String>,
}

impl Unpacked {
    /// `224 weights of GPTQ, 4 bits, groups of 128; 2 of FP8`.
    pub fn words(&self) -> String {
        let words = self.kinds.iter().map(|(about, n)| format!("{n} x {}", escape(about, 160)));
        words.collect::<Vec<_>>().join("; ")
    }

    /// Lines for a summary.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("packed weights: {}", self.words())];
        let mut unused: Vec<(&str, usize, &str)> = Vec::new();
        for (name, what) in &self.unused {
            match unused.iter_mut().find(|(known, ..)| known == what) {
                Some((_, n, _)) => *n += 1,
                None => unused.push((what, 1, name)),
            }
        }
        lines.extend(unused.into_iter().map(|(what, n, name)| match n {
            1 => format!("not carried over: `{}`, {what}", escape(name, 120)),
            _ => format!("not carried over: {n} tensors such as `{}`, each {what}", escape(name, 120)),
        }));
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

impl OpenedModel {
    /// Replaces packed tensors by the weights they store, and takes out what announces them. Returns whether a plugin
    /// knows any; if not, nothing is changed.
    ///
    /// # Errors
    /// Malformed for parts that are missing or do not fit; Unsupported for schemes that are known by name only,
    /// and for payload that cannot be read at any offset; Plugin for an answer that makes no sense.
    pub fn unpack(&mut self, engine: &Engine) -> Result<bool> {
        let announced = announcements(self);
        let mut stored = self.stored(engine, &announced)?;
        let mut known: Vec<KnownWeight> = Vec::new();
        let mut unpacked = Unpacked::default();
        let mut owned = HashSet::new();
        for quantizer in engine.registry.quantizers() {
            let understood = self.ask(quantizer.as_ref(), &mut stored, &|number| number)?;
            unpacked.notes.extend(understood.notes);
            let before = owned.clone();
            // Weights of one plugin may share a part, such as a zero point.
            let mut take = |number: usize| match self.model.tensors.get(number) {
                Some(tensor) if owned.insert(number) || !before.contains(&number) => Ok(tensor),
                Some(tensor) => {
                    Err(Error::malformed("two packing schemes claim this tensor").tensor(&tensor.name))
                }
                None => Err(Error::plugin(format!("refers to tensor {number}, which does not exist"))),
            };
            let first = known.len();
            for weight in understood.packed {
                weight.parts.iter().try_for_each(|(number, _)| take(*number).map(drop))?;
                check(&weight).map_err(|error| error.tensor(&weight.name))?;
                let by = Arc::clone(&quantizer);
                known.push(KnownWeight { by, weight, factored: None, wide_activations: false });
            }
            for factored in understood.factored {
                let at = first.saturating_add(factored.weight);
                let factored = self.factored(&factored)?;
                let Some(weight) = known.get_mut(at) else {
                    return Err(Error::plugin("assigns a factor to a weight that does not exist"));
                };
                weight.factored = factored;
            }
            for number in understood.wide_activations {
                let Some(weight) = known.get_mut(first.saturating_add(number)) else {
                    return Err(Error::plugin("describes activations of a weight that does not exist"));
                };
                weight.wide_activations = true;
            }
            for (number, what) in understood.unused {
                unpacked.unused.push((take(number)?.name.clone(), what));
            }
        }
        if known.is_empty() {
            return Ok(false);
        }
        for KnownWeight { weight, .. } in &known {
            match unpacked.kinds.iter_mut().find(|(about, _)| *about == weight.about) {
                Some((_, n)) => *n += 1,
                None => unpacked.kinds.push((weight.about.clone(), 1)),
            }
        }
        let names: HashSet<String> = known.iter().map(|known| known.weight.name.clone()).collect();
        self.replace(known, &owned)?;
        descriptions::forget(&mut self.model, &engine.registry, &|name| names.contains(name));
        // What is still packed stays announced.
        let over: Vec<&Announcement> =
            announced.iter().filter(|announcement| announcement.is_over(&self.model, &names)).collect();
        announcements::remove(&over, &mut self.model);
        self.unpacked = Some(unpacked);
        Ok(true)
    }

    /// The model as schemes see it, before they have asked for any contents.
    fn stored(&self, engine: &Engine, announced: &[Announcement]) -> Result<StoredModel> {
        let mut stored = StoredModel::default();
        for tensor in &self.model.tensors {
            let name = tensor.name.clone();
            stored.tensors.push(StoredTensor { name, dtype: tensor.dtype, shape: tensor.shape.clone() });
        }
        let jsons = announcements::jsons(announced, self).map_err(|error| self.files.show(error))?;
        for (announcement, json) in announced.iter().zip(jsons) {
            let key = announcement.key.clone().unwrap_or_default();
            stored.announced.push(Announced { file: announcement.file.clone(), key, json });
        }
        if let Some(recipe) = &self.model.recipe {
            let json = serde_json::json!({ RECIPE: recipe }).to_string();
            let key = RECIPE.to_owned();
            stored.announced.push(Announced { file: self.model.format.clone(), key, json });
        }
        stored.dtype = self.stated_dtype(engine);
        Ok(stored)
    }

    /// Asks a quantizer's schemes about tensors that have the numbers `of_source` here, and reads what they want to look at.
    fn ask(
        &self,
        quantizer: &dyn Quantizer,
        stored: &mut StoredModel,
        of_source: &dyn Fn(usize) -> usize,
    ) -> Result<Understood> {
        let Some(schemes) = quantizer.schemes() else { return Ok(Understood::default()) };
        for _ in 0..ROUNDS {
            let mut understood = schemes.understand(stored).map_err(|e| self.files.show(e))?;
            if understood.wanted.is_empty() {
                return Ok(understood);
            }
            understood.wanted.sort_unstable();
            understood.wanted.dedup();
            for number in understood.wanted {
                if stored.contents_of(number).is_none() {
                    let bytes = self.contents(of_source(number))?;
                    stored.contents.push((number, bytes));
                }
            }
            stored.contents.sort_by_key(|(number, _)| *number);
        }
        Err(Error::plugin("keeps requesting the contents of more tensors"))
    }

    /// The values of a factored type's tensors; `None` for numbers that cannot be multiplied by.
    fn factored(&self, of: &FactoredType) -> Result<Option<Factored>> {
        let (tensor, is_divisor) = of.factor;
        let factor = self.factor(tensor, is_divisor)?;
        let input = of.input.map(|(tensor, is_divisor)| self.factor(tensor, is_divisor)).transpose()?;
        let is_sound = factor.is_normal() && input.is_none_or(f32::is_normal);
        let evidence = of.evidence.clone();
        Ok(is_sound.then_some(Factored { dtype: of.dtype, rows: of.rows.clone(), evidence, factor, input }))
    }

    fn factor(&self, tensor: usize, is_divisor: bool) -> Result<f32> {
        let bytes = self.contents(tensor)?;
        let Ok(bytes) = bytes.as_slice().try_into() else {
            return Err(Error::plugin("assigns a factor that is not a single F32"));
        };
        let value = f32::from_le_bytes(bytes);
        Ok(if is_divisor { 1.0 / value } else { value })
    }

    /// The bytes of a small tensor.
    fn contents(&self, number: usize) -> Result<Vec<u8>> {
        let Some(tensor) = self.model.tensors.get(number) else {
            return Err(Error::plugin(format!("requests tensor {number}, which does not exist")));
        };
        let is_small = tensor.payload_len()? <= MOST_CONTENTS;
        let extent = match &tensor.payload {
            Payload::Extent { extent, view: None } if is_small => extent,
            _ => {
                let message = "it was expected to be a small tensor in one piece";
                return Err(Error::unsupported(message).tensor(&tensor.name));
            }
        };
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap_or(0)];
        let read = self.files.read_at(extent.file, extent.offset, &mut bytes);
        read.map_err(|e| self.files.show(e.tensor(&tensor.name)))?;
        Ok(bytes)
    }

    /// The type that the model's own format states for its weights.
    fn stated_dtype(&self, engine: &Engine) -> Option<DType> {
        self.model.foreign.iter().find_map(|foreign| {
            let manifest = &engine.registry.format(&foreign.format).ok()?.manifest;
            let typed = foreign.files.iter().flat_map(|file| &file.typed);
            let mut named = typed.filter(|(key, _)| {
                let last = key.rsplit('.').next().unwrap_or(key);
                manifest.type_keys.iter().any(|own| own == last)
            });
            named.find_map(|(_, value)| {
                let stated = value.as_str()?;
                let (dtype, _) = manifest.type_names.iter().find(|(_, name)| name == stated)?;
                DType::from_name(dtype)
            })
        })
    }

    /// Puts each weight in the place of its first part; `owned` are the numbers of all tensors that go.
    fn replace(&mut self, known: Vec<KnownWeight>, owned: &HashSet<usize>) -> Result<()> {
        let before = std::mem::take(&mut self.model.tensors);
        let mut places: Vec<Option<Tensor>> = vec![None; before.len()];
        let mut names: HashSet<&str> = HashSet::new();
        let stays = before.iter().enumerate().filter(|(number, _)| !owned.contains(number));
        names.extend(stays.map(|(_, tensor)| tensor.name.as_str()));
        for KnownWeight { by, weight, factored, wide_activations } in known {
            let parts: Vec<Tensor> = weight.parts.iter().map(|(number, _)| before[*number].clone()).collect();
            for part in &parts {
                if !matches!(part.payload, Payload::Extent { .. }) {
                    let message = "it is compressed, but packed weights are read in random order";
                    let error = Error::unsupported(message).tensor(&part.name);
                    return Err(error.hint("write an uncompressed copy of the model first"));
                }
            }
            // Its first part, which may not be one that it shares.
            let free = weight.parts.iter().map(|(number, _)| *number).filter(|n| places[*n].is_none());
            let first = free
                .min()
                .ok_or_else(|| Error::plugin("returned a weight that shares all its parts with others"))?;
            let name = weight.name.clone();
            let dtype = weight.dtype;
            let shape = weight.shape.clone();
            let payload = Payload::Packed(Arc::new(PackedWeight {
                tensor: weight,
                parts,
                factored,
                wide_activations,
                by,
            }));
            places[first] = Some(Tensor { name, dtype, shape, payload });
        }
        let new = places.iter().flatten().map(|tensor| tensor.name.as_str());
        if let Some(twice) = new.into_iter().find(|name| !names.insert(name)) {
            let message = "the model has this weight twice: packed and unpacked";
            return Err(Error::malformed(message).tensor(twice));
        }
        self.opened_as.clear();
        for (number, (stored, weight)) in before.into_iter().zip(places).enumerate() {
            let stored = if owned.contains(&number) { None } else { Some(stored) };
            // Its reader still knows it by the number that it had.
            if let Some(tensor) = weight.or(stored) {
                self.model.tensors.push(tensor);
                self.opened_as.push(number);
            }
        }
        void_splits(&mut self.model);
        Ok(())
    }
}

/// Tensor counts of files no longer describe the model.
fn void_splits(model: &mut Model) {
    let n_tensors = model.tensors.len();
    for foreign in &mut model.foreign {
        if !foreign.describes(n_tensors) {
            foreign.files.iter_mut().for_each(|file| file.n_tensors = 0);
        }
    }
}

/// Checks that what a plugin says about a weight makes sense.
fn check(weight: &PackedTensor) -> Result<()> {
    weight.dtype.require()?;
    let elements = checked_elements(&weight.shape)?;
    let Some(of_rows) = weight.rows.rows.checked_mul(weight.rows.row_len) else {
        return wrong("its element count overflows");
    };
    if weight.strides.is_empty() && elements != of_rows {
        return wrong("the element counts of its rows and its shape differ");
    }
    if !weight.strides.is_empty() {
        let reach = weight.shape.iter().zip(&weight.strides).try_fold(0u64, |at, (size, stride)| {
            at.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
        });
        let is_inside = elements == 0 || reach.is_some_and(|reach| reach < of_rows);
        if weight.strides.len() != weight.shape.len() || !is_inside {
            return wrong("its elements extend past the end of its rows");
        }
    }
    let mut evidence = weight.exact.iter().flat_map(|ExactType { evidence, .. }| evidence);
    if evidence.any(|part| *part >= weight.parts.len()) {
        return wrong("a part given as evidence does not exist");
    }
    Ok(())
}

fn wrong(what: &str) -> Result<()> {
    Err(Error::plugin(format!("returned an invalid packed weight: {what}")))
}
