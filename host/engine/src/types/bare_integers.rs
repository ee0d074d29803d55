//! Integers that look like the codes of weights, and have no scales: a target whose readers take tensors for weights gets them with a
//! warning, where names are kept on request. Where they are translated, such tensors are refused.

use crate::open::schemes::scales;
use crate::planned::PlannedModel;
use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::manifest::DialectRule;
use apr_sdk::{DType, DTypeKind, Tensor, escape};

/// A warning about integers of a model that are written as they are; `None` if there are none, or if the target takes
/// any names, and so does not say what its tensors mean.
pub fn warning(planned: &PlannedModel, target: &Format) -> Option<String> {
    let (DialectRule::Always(want) | DialectRule::Requires(want)) = &target.manifest.dialect else {
        return None;
    };
    if *want == planned.model().dialect {
        return None;
    }
    let tensors = planned.tensors().filter(|(_, tensor, computation)| !computation.is_retyped(tensor));
    let mut copied = tensors.map(|(_, tensor, _)| tensor).filter(|tensor| is_unscaled(tensor));
    let first = copied.next()?;
    let n = copied.count() + 1;
    let name = escape(&first.name, 120);
    let what = match n {
        1 => format!("`{name}` is copied as integers ({}): no scales were found", first.dtype),
        _ => {
            let n = n_of(n, "tensor");
            format!(
                "{n} are copied as integers, such as `{name}` ({}): no scales were found for them",
                first.dtype
            )
        }
    };
    Some(format!("{what}, and readers of {} may mistake the codes for weights", target.manifest.name))
}

/// Returns whether a tensor may be the codes of a weight, by its type and its name.
fn is_unscaled(tensor: &Tensor) -> bool {
    is_integers(tensor) && scales::is_called_weight(&tensor.name)
}

/// Returns whether a tensor is a matrix, or stacked matrices, of integers that may be codes. Positions and indices are I64;
/// masks, which have one dimension, are none.
pub fn is_integers(tensor: &Tensor) -> bool {
    let kind = tensor.dtype.info().map(|info| info.kind);
    matches!(kind, Some(DTypeKind::Int | DTypeKind::Uint))
        && ![DType::I64, DType::U64].contains(&tensor.dtype)
        && scales::is_code(tensor)
}
