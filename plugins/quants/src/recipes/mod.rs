//! Which type each tensor gets: llama-quantize's mixtures, by the names that tensors have in GGUF.
//!
//! ```text
//! allowed?            category.rs   no: it stays
//! asked for?          wishes.rs     --token-embedding-type, --output-tensor-type, --leave-output-tensor, --tensor-type
//! the mixture's rules table.rs      on what model.rs knows and on how many came before, unless --pure
//! whole blocks?       choice.rs     no: a type of smaller blocks, with a note
//! ```
//!
//! The order in which tensors are looked at counts: those outside of layers first, then layer by layer, by their names.

mod category;
mod choice;
mod model;
mod records;
mod table;
mod wishes;

use crate::types::block_type;
use apr_sdk::{
    Assignment, DType, Error, ModelFacts, Options, RecipeDecl, Result, TensorFacts, Value, escape,
};
use category::Category;
use choice::Choice;
use model::Model;
use table::{ALIASES, MIXTURES, Mixture};
use wishes::Wishes;

/// Every recipe.
pub fn recipes() -> Vec<RecipeDecl> {
    let mixtures = MIXTURES.iter().map(|mixture| (mixture.name, mixture.about.to_owned()));
    let aliases = ALIASES.iter().map(|(name, of)| (*name, format!("the same as {of}")));
    mixtures.chain(aliases).map(|(name, about)| RecipeDecl { name: name.to_owned(), about }).collect()
}

/// What becomes of each tensor.
///
/// # Errors
/// InvalidArgument for a recipe or an option that there is not, or that a tensor's shape does not allow; Unsupported for a
/// tensor that the recipe has no type for.
pub fn assign(
    recipe: &str,
    tensors: &[TensorFacts],
    facts: &ModelFacts,
    options: &Options,
) -> Result<Vec<Assignment>> {
    let mixture = mixture(recipe)?;
    let wishes = Wishes::of(options)?;
    if !wishes.patterns.is_empty() && !mixture.base.is_block() {
        let message =
            format!("--tensor-type has no effect with {}, which uses one type for all tensors", mixture.name);
        return Err(Error::invalid_argument(message));
    }
    let model = Model::of(facts, tensors)?;
    let names: Vec<_> = tensors.iter().map(|tensor| tensor.name_in("gguf")).collect();
    wishes.refuse_unmatched(&names)?;
    let mut choice = Choice::new(mixture, &wishes, &model, names.iter().map(|name| Category::of(name)));

    let mut order: Vec<_> = (0..tensors.len()).collect();
    order.sort_by_cached_key(|&n| (category::layer(names[n]).unwrap_or(-1), names[n]));
    let mut assignments = vec![Assignment::KEEP; tensors.len()];
    for n in order {
        let (name, tensor) = (names[n], &tensors[n]);
        let is_left = wishes.leave_output && name == "output.weight";
        if is_left || !category::is_quantized(name, tensor, &model.architecture) {
            continue;
        }
        let chosen = choice.of(name, Category::of(name), tensor);
        let (dtype, note) = chosen.map_err(|error| error.tensor(tensor.name.as_str()))?;
        assignments[n] = Assignment::to(dtype);
        assignments[n].note = note;
        let is_made = tensor.dtype != Some(dtype);
        assignments[n].needs_importance = is_made && needs_importance(name, dtype, mixture);
        if is_made && !tensor.has_importance && wants_importance(dtype) && assignments[n].note.is_none() {
            let note = format!(
                "{dtype} is designed for use with an importance matrix: pass one with --imatrix FILE"
            );
            assignments[n].note = Some(note);
        }
    }
    Ok(assignments)
}

/// What a model quantized by a recipe records of it.
pub fn records(recipe: &str) -> Vec<(String, String, Value)> {
    mixture(recipe).map(|mixture| records::records(mixture.name)).unwrap_or_default()
}

/// The mixture of a name, in any case.
fn mixture(recipe: &str) -> Result<&'static Mixture> {
    let alias = ALIASES.iter().find(|(name, _)| name.eq_ignore_ascii_case(recipe));
    let name = alias.map_or(recipe, |(_, of)| *of);
    MIXTURES.iter().find(|mixture| mixture.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names: Vec<_> = MIXTURES.iter().map(|mixture| mixture.name).collect();
        Error::invalid_argument(format!("unknown recipe `{}`", escape(recipe, 80)))
            .hint(format!("use one of {}", names.join(", ")))
    })
}

/// Whether a type of so few bits loses much more without importance.
fn wants_importance(dtype: DType) -> bool {
    let codebooks = [
        DType::IQ1_S,
        DType::IQ1_M,
        DType::IQ2_XXS,
        DType::IQ2_XS,
        DType::IQ2_S,
        DType::IQ3_XXS,
        DType::IQ3_S,
    ];
    codebooks.contains(&dtype) || dtype == DType::Q2_K
}

/// Whether a tensor would be worthless without importance (`tensor_requires_imatrix`), or cannot be written at all.
fn needs_importance(name: &str, dtype: DType, mixture: &Mixture) -> bool {
    if block_type(dtype).is_ok_and(|block_type| block_type.needs_importance) {
        return true;
    }
    let at_an_end = matches!(Category::of(name), Category::Output | Category::Embedding);
    !at_an_end
        && match dtype {
            DType::IQ1_S | DType::IQ1_M | DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S | DType::IQ3_XXS => {
                true
            }
            // Otherwise k types do without.
            DType::Q2_K => mixture.name == "Q2_K_S",
            _ => false,
        }
}
