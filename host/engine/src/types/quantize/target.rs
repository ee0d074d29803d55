//! `--target-size` and `--target-bpw`: finds the recipe that makes the best use of the available size.

use crate::expression::scales_len;
use crate::planned::quantization::SizeTarget;
use apr_sdk::{
    Assignment, Error, ErrorKind, Quantizer, Result, Tensor, checked_elements, checked_payload_len,
};
use std::sync::Arc;

/// A recipe and the size it would give.
struct Candidate {
    recipe: String,
    assigned: Vec<Assignment>,
    bytes: u64,
}

/// The model to fit, and the constraints.
pub struct Room<'a> {
    /// The planned tensors.
    pub tensors: &'a [Tensor],
    /// True if there is an importance matrix.
    pub has_importance: bool,
    /// True if the target can hold integers with one scale per row.
    pub row_scales: bool,
}

/// Asks a quantizer for a recipe's assignments.
type Assign<'a> = dyn Fn(&dyn Quantizer, &str) -> Result<Vec<Assignment>> + 'a;

impl SizeTarget {
    /// The largest recipe that fits. One that needs importance is only considered if there is a matrix.
    ///
    /// # Errors
    /// InvalidArgument if none fits, naming the smallest.
    pub fn choose(
        self,
        quantizers: &[Arc<dyn Quantizer>],
        room: &Room<'_>,
        assign: &Assign<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(String, Vec<Assignment>)> {
        let Room { tensors, has_importance, row_scales } = *room;
        let mut weights = 0u64;
        for tensor in tensors {
            weights = weights.saturating_add(checked_elements(&tensor.shape)?);
        }
        let most = match self {
            SizeTarget::Bytes(bytes) => bytes,
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a bound that the user gave as a fraction"
            )]
            SizeTarget::BitsPerWeight(bits) => (bits * weights as f64 / 8.0) as u64,
        };
        let mut best: Option<Candidate> = None;
        let mut least: Option<(u64, String)> = None;
        for quantizer in quantizers {
            for recipe in quantizer.recipes()? {
                let assigned = match assign(quantizer.as_ref(), &recipe.name) {
                    Ok(assigned) => assigned,
                    // This recipe has no type for some tensor; others may.
                    Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                    Err(error) => return Err(error),
                };
                // A type that only some machines can read is written only if it is named.
                if assigned.iter().filter_map(|a| a.dtype?.block_type()).next().is_some() {
                    continue;
                }
                let has_integers = assigned.iter().filter_map(|a| a.dtype).any(super::is_integer);
                if !has_importance && assigned.iter().any(|a| a.needs_importance)
                    || has_integers && !row_scales
                {
                    continue;
                }
                let bytes = bytes_of(tensors, &assigned)?;
                if least.as_ref().is_none_or(|(few, _)| bytes < *few) {
                    least = Some((bytes, recipe.name.clone()));
                }
                if bytes <= most && best.as_ref().is_none_or(|best| bytes > best.bytes) {
                    best = Some(Candidate { recipe: recipe.name, assigned, bytes });
                }
            }
        }
        match (best, least) {
            (Some(best), _) => {
                let Candidate { recipe, assigned, bytes } = best;
                #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
                let bits = bytes as f64 * 8.0 / weights.max(1) as f64;
                notes.push(format!("chose {recipe}: {bytes} bytes of weights, {bits:.2} bits per weight"));
                Ok((recipe, assigned))
            }
            (None, Some((bytes, recipe))) => {
                let message = format!("no recipe reduces the weights to {most} bytes");
                let hint = format!("allow at least {bytes} bytes, the size with {recipe}");
                let more = if has_importance { "" } else { "; smaller recipes require --imatrix" };
                Err(Error::invalid_argument(message).hint(hint + more))
            }
            (None, None) => Err(Error::invalid_argument("no plugin has a recipe")),
        }
    }
}

/// Bytes of a model's weights with these assignments, and of the scales that integers get.
fn bytes_of(tensors: &[Tensor], assigned: &[Assignment]) -> Result<u64> {
    let mut bytes = 0u64;
    for (tensor, assignment) in tensors.iter().zip(assigned) {
        let dtype = assignment.dtype.unwrap_or(tensor.dtype);
        bytes = bytes.saturating_add(checked_payload_len(dtype, &tensor.shape)?);
        if assignment.dtype.is_some_and(super::is_integer) {
            bytes = bytes.saturating_add(scales_len(&tensor.shape)?);
        }
    }
    Ok(bytes)
}
