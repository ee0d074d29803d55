//! Notes about tensors that the type flags cannot change.

use crate::architecture::is_float;
use crate::planned::PlannedModel;
use crate::planned::quantization::Quantization;
use crate::types::bare_integers;
use crate::wording::n_of;
use apr_sdk::{Error, Result, Tensor};

/// Warnings about tensors that `--precision` and `--dequantize` leave unchanged although a user would not expect it.
///
/// # Errors
/// InvalidArgument if `--precision` changes nothing although there are tensors of types that it does not
/// apply to.
pub fn warnings(wishes: &Quantization, planned: &PlannedModel) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    // A packed weight may have the type already that its values get.
    let is_changed = planned
        .tensors()
        .any(|(_, tensor, computation)| computation.is_retyped(tensor) || computation.is_packed());
    let tensors = &planned.model().tensors;
    if let (Some(dtype), None) = (wishes.precision, wishes.dequantize)
        && let Some(blocks) = named(tensors, |tensor| tensor.dtype.is_block())
    {
        let message = format!("--precision {dtype} applies only to floats and does not change {blocks}");
        let way = format!("use --dequantize {} to convert them to floats", dtype.name().to_lowercase());
        if !is_changed {
            let message = format!("{message}: it would have no effect");
            return Err(
                Error::invalid_argument(message).hint(format!("{way}, or remove --precision to copy them"))
            );
        }
        warnings.push(format!("{message}; {way}"));
    } else if let (Some(dtype), None) = (wishes.precision, wishes.dequantize)
        && !is_changed
        && let Some(floats) = named(tensors, |tensor| is_float(tensor.dtype) && tensor.dtype != dtype)
    {
        warnings.push(format!(
            "--precision {dtype} has no effect: the format keeps the type of {floats} with names like these"
        ));
    }
    if let Some(dtype) = wishes.dequantize {
        if let Some(integers) = named(tensors, bare_integers::is_integers) {
            warnings
                .push(format!("--dequantize {dtype} does not change {integers}: they have no known scales"));
        } else if !is_changed && wishes.precision.is_none() {
            warnings.push(format!("--dequantize {dtype} has no effect: no tensor is quantized"));
        }
    }
    Ok(warnings)
}

/// `12 tensors of Q4_K, Q6_K`; `None` for none.
fn named(tensors: &[Tensor], is_one: impl Fn(&Tensor) -> bool) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    let mut n = 0;
    for tensor in tensors.iter().filter(|tensor| is_one(tensor)) {
        n += 1;
        if !names.contains(&tensor.dtype.name()) {
            names.push(tensor.dtype.name());
        }
    }
    (n > 0).then(|| format!("{} of {}", n_of(n, "tensor"), names.join(", ")))
}
