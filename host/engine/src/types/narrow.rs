//! Narrows tensors where that is lossless: requested by the target's writer, decided by reading each tensor
//! once.

use crate::engine::Engine;
use crate::expression::{Measure, measure};
use crate::open::OpenedModel;
use crate::planned::{PlannedModel, TensorHandle};
use crate::wording::n_of;
use apr_sdk::{DType, Result, escape};

/// Names listed of tensors that were not narrowed. 20: the norms of a model with ten layers.
const SHOWN: usize = 20;

/// Gives tensors of `planned` the narrower types that were requested, if these hold every value exactly and
/// nothing else has changed the type; reports the result. Without `look`, nothing is read or changed.
///
/// # Errors
/// Any error from reading.
pub fn apply(
    engine: &Engine,
    source: &OpenedModel,
    planned: &mut PlannedModel,
    look: bool,
) -> Result<Vec<String>> {
    // Tensors that change anyway need not be read.
    let mut wanted: Vec<(TensorHandle, DType)> = Vec::new();
    for (handle, tensor, computation) in planned.tensors() {
        if !computation.is_retyped(tensor) {
            wanted.extend(computation.narrow_if_exact.map(|dtype| (handle, dtype)));
        }
    }
    if !look && !wanted.is_empty() {
        let tensors = n_of(wanted.len(), "tensor");
        return Ok(vec![format!("{tensors} may be narrowed if that is lossless: sizes are upper bounds")]);
    }
    let asked: Vec<Measure<'_>> = wanted
        .iter()
        .map(|(handle, dtype)| Measure::ExactIn(&planned.computations()[*handle].expression, *dtype))
        .collect();
    let exact = measure(engine, source, &asked)?;
    let mut kinds: Vec<(DType, DType)> = Vec::new();
    let mut outcomes: Vec<((DType, DType), TensorHandle, bool)> = Vec::new();
    for ((handle, dtype), exact) in wanted.iter().zip(exact) {
        let kind = (planned.tensor(*handle).dtype, *dtype);
        if exact {
            planned.retype(*handle, *dtype, &engine.registry, None);
        }
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        outcomes.push((kind, *handle, exact));
    }
    let mut notes = Vec::new();
    for kind @ (from, to) in kinds {
        let of_kind = outcomes.iter().filter(|(k, ..)| *k == kind);
        let narrowed = of_kind.clone().filter(|(.., exact)| *exact).count();
        if narrowed > 0 {
            notes.push(format!(
                "{} of {from} written as {to}, which represents every value exactly",
                n_of(narrowed, "tensor")
            ));
        }
        let kept: Vec<String> = of_kind
            .filter(|(.., exact)| !exact)
            .map(|(_, handle, _)| escape(&planned.tensor(*handle).name, 120).to_string())
            .collect();
        if !kept.is_empty() {
            let more = match kept.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = kept[..kept.len().min(SHOWN)].join(", ");
            let tensors = n_of(kept.len(), "tensor");
            notes.push(format!(
                "{tensors} kept as {from}, since {to} cannot represent every value exactly: {shown}{more}"
            ));
        }
    }
    Ok(notes)
}
