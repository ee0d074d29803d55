//! The recipe whose types a model has.

use super::facts;
use super::model_types::ModelTypes;
use crate::architecture::TensorSpecs;
use crate::registry::Registry;
use apr_sdk::{ErrorKind, Model, Options, Result, TensorFacts};
use serde::Serialize;

/// The recipe that gives a model's tensors the types of another most often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearestRecipe {
    /// The recipe's name.
    pub recipe: String,
    /// True if it gives these types where there is an importance matrix.
    pub with_importance: bool,
    /// Number of tensors compared: those that both models have.
    pub compared: usize,
    /// Number of these to which it gives another type.
    pub differing: usize,
}

/// Finds the recipe that gives the tensors of `model`, as it is before it is quantized, the types of another model; of
/// several, the one that the other names, else the one that is called like its only block type, else the first. `None` if
/// no recipe applies.
///
/// # Errors
/// Any error from the quantizers, except that a recipe does not apply.
pub fn nearest_recipe(
    registry: &Registry,
    model: &Model,
    specs: &TensorSpecs,
    types: &ModelTypes,
) -> Result<Option<NearestRecipe>> {
    let mut tensors = Vec::with_capacity(model.tensors.len());
    for (number, tensor) in model.tensors.iter().enumerate() {
        tensors.push(facts::of_tensor(tensor, specs.of(number)));
    }
    let only = only_block_type(&tensors, types);
    let mut known = facts::of_model(model);
    let mut nearest: Option<NearestRecipe> = None;
    for with_importance in [false, true] {
        known.has_importance = with_importance;
        tensors.iter_mut().for_each(|facts| facts.has_importance = with_importance);
        for quantizer in registry.quantizers() {
            for recipe in quantizer.recipes()? {
                let assigned = match quantizer.assign(&recipe.name, &tensors, &known, &Options::new()) {
                    Ok(assigned) => assigned,
                    Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                    Err(_) => continue,
                };
                let mut found =
                    NearestRecipe { recipe: recipe.name, with_importance, compared: 0, differing: 0 };
                for (facts, assignment) in tensors.iter().zip(assigned) {
                    let Some(dtype) = types.of_tensor(facts) else { continue };
                    found.compared += 1;
                    found.differing += usize::from(assignment.dtype.or(facts.dtype) != Some(dtype));
                }
                let rank = |one: &NearestRecipe| {
                    let is_named = types.recipe() == Some(one.recipe.as_str());
                    (one.differing, !is_named, only.as_deref() != Some(one.recipe.as_str()))
                };
                let is_nearer = nearest.as_ref().is_none_or(|nearest| rank(&found) < rank(nearest));
                if found.compared > 0 && is_nearer {
                    nearest = Some(found);
                }
            }
        }
    }
    Ok(nearest)
}

/// The name of the type of all blocks, if there is only one.
fn only_block_type(tensors: &[TensorFacts], types: &ModelTypes) -> Option<String> {
    let mut blocks =
        tensors.iter().filter_map(|facts| types.of_tensor(facts)).filter(|dtype| dtype.is_block());
    let only = blocks.next()?;
    blocks.all(|dtype| dtype == only).then(|| only.name().to_owned())
}
