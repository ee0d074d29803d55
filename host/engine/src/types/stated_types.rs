//! Updates metadata keys that name the type of the weights when that changes.

use crate::planned::PlannedModel;
use crate::registry::Format;
use apr_sdk::{Tensor, Value};
use std::collections::BTreeMap;

/// If a conversion changed types, makes the target's keys name the type that most weights now have.
pub fn follow(planned: &mut PlannedModel, target: &Format) {
    let manifest = &target.manifest;
    // What a packed weight was before is not known from its codes.
    let is_retyped = planned
        .tensors()
        .any(|(_, tensor, computation)| computation.is_retyped(tensor) || computation.is_packed());
    if !is_retyped {
        return;
    }
    let Some(usual) = usual(&planned.model().tensors, target) else { return };
    planned.with_rest(|rest| {
        let own = rest.foreign.iter_mut().filter(|foreign| foreign.format == target.id());
        for (key, value) in own.flat_map(|foreign| &mut foreign.files).flat_map(|file| &mut file.typed) {
            // Also in the configurations of a model's parts.
            let last = key.rsplit('.').next().unwrap_or(key);
            let is_type =
                value.as_str().is_some_and(|said| manifest.type_names.iter().any(|(_, name)| name == said));
            if is_type && manifest.type_keys.iter().any(|own| own == last) {
                *value = Value::from_string(usual);
            }
        }
    });
}

/// The target's name for the type of most matrix elements, among the types that it has a name for.
fn usual<'t>(tensors: &[Tensor], target: &'t Format) -> Option<&'t str> {
    let mut sizes: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for tensor in tensors.iter().filter(|tensor| tensor.shape.len() > 1) {
        let dtype = tensor.dtype.name();
        let Some((_, name)) = target.manifest.type_names.iter().find(|(own, _)| own == dtype) else {
            continue;
        };
        let size = tensor.shape.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
        let sum = sizes.entry(dtype).or_insert((0, name));
        sum.0 = sum.0.saturating_add(size);
    }
    sizes.into_values().max_by_key(|(size, _)| *size).map(|(_, name)| name)
}
