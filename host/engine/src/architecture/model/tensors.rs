//! The translated tensors as planned ones: their expressions, and the dtypes that the target's writer prefers.

use super::{Journey, Translation, Wishes};
use crate::architecture::choices::{choices_of, is_float};
use crate::architecture::language::array::Box_;
use crate::architecture::translate::{Made, Translated};
use crate::expression::{Expression, PlannedTensor, concat};
use crate::registry::Registry;
use crate::wording::n_of;
use apr_sdk::{DType, DTypeChoice, Error, Model, Payload, Result, Tensor, Writer};

impl Journey<'_> {
    /// Puts the translated tensors into the model, with the dtypes that the target's writer prefers.
    pub(super) fn tensors(
        &self,
        model: &Model,
        translated: Translated,
        writer: &dyn Writer,
        came_from_target: bool,
        wishes: Wishes<'_>,
    ) -> Result<Translation> {
        let facts: Vec<_> = translated.tensors.iter().map(|tensor| tensor.facts.clone()).collect();
        let choices = match came_from_target || self.from == self.to {
            // A model of the target's own format, or in its dialect, keeps its types.
            true if wishes.precision.is_none() => vec![DTypeChoice::Keep; facts.len()],
            _ => choices_of(self.table, self.to, writer, &facts, wishes.precision)?,
        };
        let mut translation = Translation::default();
        let mut tensors = Vec::with_capacity(facts.len());
        let mut cast = Vec::new();
        for (tensor, choice) in translated.tensors.into_iter().zip(choices) {
            let mut dtype = tensor.dtype;
            let mut narrow_if_exact = None;
            match choice {
                DTypeChoice::Cast(wanted)
                    if wanted != dtype
                        && (is_cast(dtype) || wishes.precision.is_some() && is_float(dtype)) =>
                {
                    if narrows(dtype, wanted) {
                        cast.push((dtype, wanted));
                    }
                    dtype = wanted;
                }
                DTypeChoice::NarrowIfExact(wanted) if wanted != dtype && is_cast(dtype) => {
                    narrow_if_exact = Some(wanted);
                }
                _ => {}
            }
            let planned = planned(tensor, dtype, &model.tensors, &self.engine.registry)?;
            tensors.push(PlannedTensor { narrow_if_exact, ..planned });
        }
        for (from, to) in [
            (DType::F64, DType::F32),
            (DType::F32, DType::F16),
            (DType::F32, DType::BF16),
            (DType::BF16, DType::F16),
            (DType::F16, DType::BF16),
        ] {
            let n = cast.iter().filter(|pair| **pair == (from, to)).count();
            if n > 0 {
                let what = n_of(n, "tensor");
                translation.notes.push(format!(
                    "{what} written as {to} instead of {from}, as usual for {}",
                    self.target.manifest.name
                ));
            }
        }
        translation.tensors = Some(tensors);
        Ok(translation)
    }
}

/// Whether casts from a dtype exist.
fn is_cast(dtype: DType) -> bool {
    [DType::F64, DType::F32, DType::F16, DType::BF16].contains(&dtype)
}

/// Whether a value of `from` may not fit `to`.
fn narrows(from: DType, to: DType) -> bool {
    let exact = [
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
        (DType::F32, DType::F64),
        (DType::F16, DType::F64),
        (DType::BF16, DType::F64),
    ];
    !exact.contains(&(from, to))
}

/// Operations that the expression itself says, with their numbers.
const IN_EXPRESSION: [&str; 5] = ["add", "neg_exp", "exp", "multiply", "ternary"];

/// The expression for a tensor, in the stored type, and the table's description of it.
///
/// # Errors
/// LimitExceeded for too many zeros; Plugin for boxes that are not in the source.
pub(in crate::architecture) fn planned(
    made: Made,
    dtype: DType,
    sources: &[Tensor],
    registry: &Registry,
) -> Result<PlannedTensor> {
    let is_changed = made.is_changed();
    let row_len = made.shape.last().copied().unwrap_or(1);
    let mut parts: Vec<Expression> = Vec::with_capacity(made.boxes.len());
    for part in &made.boxes {
        let stored = expression_of(part, made.dtype, sources).map_err(|e| e.tensor(&made.name))?;
        #[allow(clippy::cast_possible_truncation, reason = "the constants of tables are small integers")]
        let add = part.change.add as f32;
        // All parts of a tensor are floats if one of them has to be.
        parts.push(if is_changed { stored.changed(part.change.map, add, row_len) } else { stored });
    }
    if let Some(bytes) = made.bytes {
        parts.push(Expression::fill(made.dtype, &bytes));
    }
    let mut words: Vec<String> =
        made.words.iter().filter(|w| !IN_EXPRESSION.contains(w)).map(|word| (*word).to_owned()).collect();
    let source = made.boxes.iter().find_map(|b| b.tensor).and_then(|number| sources.get(number));
    if words.is_empty() && source.is_some_and(|source| source.name != made.name) {
        words.push("rename".to_owned());
    }
    let payload = source.map_or(Payload::Sequential, |source| source.payload.clone());
    let tensor = Tensor { name: made.name, dtype, shape: made.shape, payload };
    let mut planned = PlannedTensor { words, ..PlannedTensor::new(tensor, concat(parts)) };
    planned.retype(dtype, registry);
    Ok(planned)
}

/// A box's values as they are stored, or zeros of that dtype.
pub(super) fn expression_of(part: &Box_, dtype: DType, sources: &[Tensor]) -> Result<Expression> {
    if let Some(tensor) = part.tensor {
        return Expression::boxed(tensor, &sources[tensor], part.start, &part.dims);
    }
    let units = part.dims.iter().map(|(size, _)| size).product::<u64>();
    let bytes = units.saturating_mul(u64::from(dtype.require()?.block_bytes));
    let bytes = usize::try_from(bytes).ok().filter(|n| *n <= 1 << 26);
    let bytes = bytes.ok_or_else(|| Error::limit("the table would add too many rows of zeros"))?;
    Ok(Expression::fill(dtype, &vec![0; bytes]))
}
