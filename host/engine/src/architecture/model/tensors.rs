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
        let facts: Vec<_> = translated.tensors.iter().map(|made| made.facts.clone()).collect();
        let choices = match came_from_target || self.from == self.to {
            // A model of the target's own format, or in its dialect, keeps its types.
            true if wishes.precision.is_none() => vec![DTypeChoice::Keep; facts.len()],
            _ => choices_of(self.table, self.to, writer, &facts, wishes.precision)?,
        };
        let mut translation = Translation::default();
        let (mut tensors, mut cast) = (Vec::with_capacity(facts.len()), Vec::new());
        for (made, choice) in translated.tensors.into_iter().zip(choices) {
            let (mut dtype, mut narrow_if_exact) = (made.dtype, None);
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
            let one = planned(made, dtype, &model.tensors, &self.engine.registry)?;
            tensors.push(PlannedTensor { narrow_if_exact, ..one });
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
const IN_EXPRESSION: [&str; 4] = ["add", "neg_exp", "exp", "multiply"];

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
    let part = |one: &Box_| match one.tensor {
        Some(tensor) => Expression::boxed(tensor, &sources[tensor], one.start, &one.dims),
        None => {
            let units = one.dims.iter().map(|(size, _)| size).product::<u64>();
            let bytes = units.saturating_mul(u64::from(made.dtype.require()?.block_bytes));
            let bytes = usize::try_from(bytes).ok().filter(|n| *n <= 1 << 26);
            let bytes = bytes.ok_or_else(|| Error::limit("the table would add too many rows of zeros"))?;
            Ok(Expression::fill(made.dtype, &vec![0; bytes]))
        }
    };
    let (is_changed, row_len) = (made.is_changed(), made.shape.last().copied().unwrap_or(1));
    let mut parts: Vec<Expression> = Vec::with_capacity(made.boxes.len());
    for one in &made.boxes {
        let stored = part(one).map_err(|e| e.tensor(&made.name))?;
        #[allow(clippy::cast_possible_truncation, reason = "the constants of tables are small integers")]
        let add = one.change.add as f32;
        // All parts of a tensor are floats if one of them has to be.
        parts.push(if is_changed { stored.changed(one.change.map, add, row_len) } else { stored });
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
