//! `--recipe-from`: another model's types, tensor by tensor.

use crate::architecture::recipe_of;
use crate::engine::Engine;
use crate::open::{OpenOptions, OpenedModel, open};
use crate::wording::n_of;
use apr_sdk::{
    Assignment, DType, Error, Payload, Quantizer, Result, TensorFacts, checked_payload_len, escape,
};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The types of a model's tensors, and the recipe that chose them, if the model names one.
#[derive(Debug)]
pub struct ModelTypes {
    /// The model's path, as typed.
    shown: String,
    dialect: String,
    types: HashMap<String, DType>,
    recipe: Option<String>,
}

/// Another model's types for the tensors of this one.
#[derive(Debug)]
pub struct TypesTaken {
    /// An assignment for each tensor.
    pub assigned: Vec<Assignment>,
    /// Number of tensors that the other model lacks, which keep their types.
    pub n_missing: usize,
}

impl ModelTypes {
    /// Opens a model and takes its types; returns it too.
    ///
    /// # Errors
    /// Any error from opening; Unsupported for packed weights, whose types no recipe can give.
    pub fn read(engine: &Engine, path: &Path) -> Result<(OpenedModel, ModelTypes)> {
        let mut opened = open(engine, path, &OpenOptions::default())?;
        let shown = path.display().to_string();
        opened.unpack(engine)?;
        let types = ModelTypes::of(engine, &opened).map_err(|error| error.in_file(shown))?;
        Ok((opened, types))
    }

    /// The types of an opened model whose packed weights are understood.
    ///
    /// # Errors
    /// As [`ModelTypes::read`].
    fn of(engine: &Engine, opened: &OpenedModel) -> Result<ModelTypes> {
        let model = &opened.model;
        if let Some(packed) = model.tensors.iter().find(|tensor| matches!(tensor.payload, Payload::Packed(_)))
        {
            let error = Error::unsupported("its weights are packed, in types that cannot be chosen");
            return Err(error.tensor(&packed.name).hint("use a model whose weights are blocks or floats"));
        }
        Ok(ModelTypes {
            shown: opened.path.display().to_string(),
            dialect: model.dialect.clone(),
            types: model.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dtype)).collect(),
            recipe: recipe_of(&engine.registry, model),
        })
    }

    /// The recipe that the model names, if any.
    pub fn recipe(&self) -> Option<&str> {
        self.recipe.as_deref()
    }

    /// The type of a tensor under its name in the model's dialect.
    pub fn of_tensor(&self, facts: &TensorFacts) -> Option<DType> {
        let translated = self.types.get(facts.name_in(&self.dialect));
        translated.or_else(|| self.types.get(&facts.name)).copied()
    }

    /// Assigns these types to tensors; one that the model lacks keeps its type, and with `keep_impossible` also one whose
    /// type no plugin writes, or whose rows do not consist of its blocks.
    ///
    /// # Errors
    /// InvalidArgument if the models have no tensor in common, and for rows that do not consist of blocks; Unsupported for
    /// types that no plugin writes; any error from the quantizers.
    pub fn assign(
        &self,
        quantizers: &[Arc<dyn Quantizer>],
        tensors: &[TensorFacts],
        keep_impossible: bool,
    ) -> Result<TypesTaken> {
        let mut needy: BTreeMap<DType, Option<bool>> = BTreeMap::new();
        let mut assigned = Vec::with_capacity(tensors.len());
        for facts in tensors {
            let Some(dtype) = self.of_tensor(facts) else {
                assigned.push(Assignment::KEEP);
                continue;
            };
            // Nothing is encoded.
            if facts.dtype == Some(dtype) {
                assigned.push(Assignment::to(dtype));
                continue;
            }
            let known = match needy.get(&dtype) {
                Some(known) => *known,
                None => *needy.entry(dtype).or_insert(needs_importance(quantizers, dtype)?),
            };
            let is_whole = checked_payload_len(dtype, &facts.shape).is_ok();
            let assignment = match known {
                Some(is_needy) if is_whole => {
                    let assignment = Assignment::to(dtype);
                    if is_needy { assignment.needing_importance() } else { assignment }
                }
                _ if keep_impossible => Assignment::KEEP,
                Some(_) => return Err(self.not_whole(facts, dtype)),
                None => return Err(self.not_written(facts, dtype)),
            };
            assigned.push(assignment);
        }
        let n_missing = tensors.iter().filter(|facts| self.of_tensor(facts).is_none()).count();
        if n_missing == tensors.len() {
            let file = escape(&self.shown, 200);
            let mut names: Vec<&str> = self.types.keys().map(String::as_str).collect();
            names.sort_unstable();
            let theirs =
                names.first().map_or(String::new(), |name| format!(" (such as `{}`)", escape(name, 120)));
            let message =
                format!("no tensor is also in {file}, which has {}{theirs}", n_of(names.len(), "tensor"));
            return Err(Error::invalid_argument(message).hint("use a model of the same architecture"));
        }
        Ok(TypesTaken { assigned, n_missing })
    }

    fn not_whole(&self, facts: &TensorFacts, dtype: DType) -> Error {
        let file = escape(&self.shown, 200);
        let message = format!("its rows do not consist of whole blocks of {dtype}, its type in {file}");
        let error = Error::invalid_argument(message).tensor(&facts.name);
        error.hint("use a model of the same shapes, or name a recipe with --quantize")
    }

    fn not_written(&self, facts: &TensorFacts, dtype: DType) -> Error {
        let file = escape(&self.shown, 200);
        let message = format!("no plugin writes {dtype}, its type in {file}");
        Error::unsupported(message).tensor(&facts.name).hint("name a recipe with --quantize")
    }

    /// `the types of FILE`, for notes.
    pub fn shown(&self) -> String {
        format!("the types of {}", escape(&self.shown, 200))
    }
}

/// Returns whether a type is written only with importance: a quantizer refuses a block of zeros without it, and takes it
/// with. `None` if no quantizer writes the type.
fn needs_importance(quantizers: &[Arc<dyn Quantizer>], dtype: DType) -> Result<Option<bool>> {
    let Some(info) = dtype.info().filter(|info| info.block_elements > 1) else { return Ok(Some(false)) };
    let n = u64::from(info.block_elements);
    let zeros = vec![0.0; info.block_elements as usize];
    let ones = vec![1.0; info.block_elements as usize];
    let mut block = vec![0; info.block_bytes as usize];
    for quantizer in quantizers {
        if !quantizer.dtypes()?.contains(&dtype) {
            continue;
        }
        for (importance, is_needy) in [(None, false), (Some(&ones[..]), true)] {
            if quantizer.encode(dtype, &zeros, n, importance, &mut block).is_ok() {
                return Ok(Some(is_needy));
            }
        }
    }
    Ok(None)
}
