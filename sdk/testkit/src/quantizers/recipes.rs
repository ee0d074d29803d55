//! Recipes answer for every tensor, with types that there are.

use super::Subject;
use crate::Verdict;
use crate::subject::guarded;
use apr_sdk::{DType, Error, ErrorKind, ModelFacts, Options, Result, TensorFacts};

/// Checks that each recipe gives each tensor of a small model a known type, and that an unknown recipe is refused.
pub(super) fn recipes(subject: &Subject<'_>) -> Result<Verdict> {
    let quantizer = subject.quantizer;
    let recipes = guarded(|| quantizer.recipes())??;
    let tensors = tensors();
    let facts = ModelFacts::default();
    let assign = |recipe: &str, tensors: &[TensorFacts]| {
        guarded(|| quantizer.assign(recipe, tensors, &facts, &Options::new()))
    };
    if assign("no-such-recipe", &tensors)?.is_ok() {
        return Err(Error::failed("it applies a recipe that it does not list"));
    }
    for recipe in &recipes {
        let name = &recipe.name;
        if name.trim().is_empty() || recipe.about.trim().is_empty() {
            return Err(Error::failed(format!("recipe `{name}` has no name or no description")));
        }
        guarded(|| quantizer.records(name))??;
        for tensors in [&tensors[..], &[]] {
            let assigned = match assign(name, tensors)? {
                Ok(assigned) => assigned,
                // It has no type for one of these tensors.
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                Err(error) => return Err(Error::failed(format!("recipe `{name}`: {error}"))),
            };
            if assigned.len() != tensors.len() {
                let message =
                    format!("recipe `{name}` answers {} times for {} tensors", assigned.len(), tensors.len());
                return Err(Error::failed(message));
            }
            let unknown = assigned.iter().filter_map(|one| one.dtype).find(|dtype| dtype.info().is_none());
            if let Some(unknown) = unknown {
                return Err(Error::failed(format!(
                    "recipe `{name}` assigns the unknown dtype number {}",
                    unknown.0
                )));
            }
        }
    }
    match recipes.len() {
        0 => Verdict::skipped("it has no recipes; each block type of its own is one"),
        n => Verdict::passed(format!("{n} recipes")),
    }
}

/// A matrix, an embedding, a vector, a scalar, and an empty one.
fn tensors() -> Vec<TensorFacts> {
    let shapes: [(&str, &[u64]); 5] = [
        ("blk.0.attn_q.weight", &[512, 512]),
        ("token_embd.weight", &[1024, 512]),
        ("blk.0.attn_norm.weight", &[512]),
        ("scale", &[]),
        ("nothing.weight", &[0, 512]),
    ];
    let facts = shapes.map(|(name, shape)| {
        let mut facts = TensorFacts::default();
        facts.name = name.to_owned();
        facts.shape = shape.to_vec();
        facts.dtype = Some(DType::F32);
        facts
    });
    facts.to_vec()
}
