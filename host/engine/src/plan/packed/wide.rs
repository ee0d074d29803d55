//! Weights whose activations are not to be narrowed with them: a scheme says which, and the target's manifest in which lists of its
//! metadata that is said. Names are those that are written.

use crate::expression::PlannedTensor;
use crate::plan::choose::output_names::Renamed;
use crate::plan::planned_model::PlannedModel;
use crate::registry::Format;
use apr_sdk::manifest::WideActivations;
use apr_sdk::{Value, ValueType};
use std::collections::{BTreeSet, HashMap};

/// Writes the target's lists: tensors that became such weights, in the order of their names; in lists that the model has already, the
/// names that tensors were given.
pub fn list(planned: &mut PlannedModel, renamed: &[Renamed], target: &Format) {
    let Some(lists) = &target.manifest.wide_activations else { return };
    let wide: BTreeSet<&str> = planned
        .tensors
        .iter()
        .filter(|one| one.tensor.dtype == lists.dtype && is_wide(one))
        .map(|one| one.tensor.name.as_str())
        .collect();
    let made = (!wide.is_empty()).then(|| {
        let names = Value::from_strings(&wide.iter().collect::<Vec<_>>());
        (names, Value::from_items(ValueType::BOOL, wide.len() as u64, &vec![0; wide.len()]))
    });
    let model = planned.rest_mut();
    if let Some((names, flags)) = made {
        let Some(file) = model.foreign_mut(target.id()).files.first_mut() else { return };
        file.set(&lists.names, names);
        file.set(&lists.flags, flags);
    } else if !renamed.is_empty() && model.foreign_of(target.id()).is_some() {
        rename(
            model.foreign_mut(target.id()).files.iter_mut().flat_map(|file| &mut file.typed),
            renamed,
            lists,
        );
    }
}

/// Whether all weights that a tensor is made of are such.
fn is_wide(one: &PlannedTensor) -> bool {
    let parts = one.expression.parts();
    let is_wide =
        |packed: Option<&apr_sdk::PackedWeight>| packed.is_some_and(|weight| weight.wide_activations);
    !parts.is_empty() && parts.iter().all(|part| is_wide(part.packed().map(|packed| &*packed.weight)))
}

/// Gives the names of a list that the model came with their new form, in their places: the other lists go on by these.
fn rename<'t>(
    typed: impl Iterator<Item = &'t mut (String, Value)>,
    renamed: &[Renamed],
    lists: &WideActivations,
) {
    let new: HashMap<&str, &str> = renamed.iter().map(|one| (one.name.as_str(), one.to.as_str())).collect();
    for (_, value) in typed.filter(|(key, _)| *key == lists.names) {
        let items = value.items();
        let names: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
        if let Some(names) = names.filter(|names| names.iter().any(|name| new.contains_key(name))) {
            let names: Vec<&str> =
                names.into_iter().map(|name| new.get(name).copied().unwrap_or(name)).collect();
            *value = Value::from_strings(&names);
        }
    }
}
