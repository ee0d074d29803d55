//! Packed weights whose tensors get other names or numbers: an announcement that speaks of modules by name must still say
//! the same of each.

use super::announcements::announcements;
use crate::engine::Engine;
use crate::open::OpenedModel;
use apr_sdk::{PackedTensor, Result, StoredTensor, Tensor, Understood};
use std::collections::HashMap;

impl OpenedModel {
    /// The first packed weight that its scheme would understand differently, or not at all, if the model's tensors were
    /// `tensors`, which had the numbers `kept` here; `None` if there is none, or if no plugin understands the model as it is.
    ///
    /// # Errors
    /// Any error from reading what schemes ask for.
    pub fn misread(&self, engine: &Engine, tensors: &[Tensor], kept: &[usize]) -> Result<Option<String>> {
        let announced = announcements(self);
        let mut stored = self.stored(engine, &announced)?;
        let mut renamed = stored.clone();
        renamed.tensors.clear();
        for tensor in tensors {
            let name = tensor.name.clone();
            renamed.tensors.push(StoredTensor { name, dtype: tensor.dtype, shape: tensor.shape.clone() });
        }
        for quantizer in engine.registry.quantizers() {
            let Ok(before) = self.ask(quantizer.as_ref(), &mut stored, &|number| number) else {
                return Ok(None);
            };
            if before.packed.is_empty() {
                continue;
            }
            let of_source = |number: usize| kept.get(number).copied().unwrap_or(usize::MAX);
            let after = self.ask(quantizer.as_ref(), &mut renamed, &of_source).unwrap_or_default();
            if let Some(weight) = first_different(&before, &after, kept) {
                return Ok(Some(weight.name.clone()));
            }
        }
        Ok(None)
    }
}

/// The first weight of which all parts are kept and that is not the same afterwards.
fn first_different<'b>(
    before: &'b Understood,
    after: &Understood,
    kept: &[usize],
) -> Option<&'b PackedTensor> {
    let new_numbers: HashMap<usize, usize> = kept.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    let mut by_parts: HashMap<Vec<usize>, &PackedTensor> = HashMap::new();
    for weight in &after.packed {
        by_parts.insert(weight.parts.iter().map(|(number, _)| *number).collect(), weight);
    }
    before.packed.iter().find(|weight| {
        let parts = weight.parts.iter().map(|(number, _)| new_numbers.get(number).copied());
        let Some(parts) = parts.collect::<Option<Vec<usize>>>() else { return false };
        by_parts.get(&parts).is_none_or(|now| !is_same(weight, now))
    })
}

fn is_same(one: &PackedTensor, other: &PackedTensor) -> bool {
    one.shape == other.shape
        && one.strides == other.strides
        && one.dtype == other.dtype
        && one.rows == other.rows
}
