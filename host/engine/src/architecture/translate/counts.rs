//! Compares the configuration's numbers of layers, experts and heads with the tensors.

use crate::architecture::config::key_of;
use crate::architecture::language::expression::{Expression, Scalar, Scope};
use crate::architecture::table::config_name::names_in;
use crate::architecture::translate::passage::Passage;
use crate::wording::n_of;
use apr_sdk::{Error, Result};

/// Groups of one rule: layers times experts, with room to spare.
pub(super) const MOST_GROUPS: u64 = 1_000_000;

/// Fails for an impossible count: each layer, expert or head needs a tensor, or part of one along a
/// dimension.
pub(super) fn check_counts(passage: &Passage<'_>) -> Result<()> {
    let n_tensors = passage.tensors.len() + passage.removed.len();
    let all = passage.tensors.iter().chain(passage.removed.iter().map(|removed| &removed.tensor));
    let longest = all.flat_map(|tensor| &tensor.shape).copied().max().unwrap_or(0);
    for (place, _) in &passage.table.places {
        if let Some(count) = count_of(passage, place)?.filter(|&n| n > longest.max(n_tensors as u64)) {
            let has = format!(
                "the model has only {}, and no dimension larger than {longest}",
                n_of(n_tensors, "tensor")
            );
            return Err(too_many(passage, place, count, &has));
        }
    }
    check_lists(passage)
}

/// Fails for a list with an entry for each layer that has fewer: nothing says of what kind the last layers are.
fn check_lists(passage: &Passage<'_>) -> Result<()> {
    const LAYER: &str = "layer";
    let Some(expression) = passage.table.count(LAYER) else { return Ok(()) };
    // Layers that predict further tokens may be counted too, and no list has them.
    let mut layers: Option<(String, i64)> = None;
    for name in expression.names() {
        if let Some(Scalar::Int(n)) = passage.scope.value(&name)?
            && layers.as_ref().is_none_or(|(_, most)| n > *most)
        {
            layers = Some((name, n));
        }
    }
    let Some((counting, layers)) = layers else { return Ok(()) };
    for dialect in &passage.table.dialects {
        for entry in &passage.table.config {
            let keys = dialect
                .keys
                .iter()
                .filter(|key| key.sets.iter().any(|(name, from)| *name == entry.name && from.is_none()));
            let mut keys = names_in(entry, dialect).chain(keys.map(|key| key.key.as_str()));
            let is_listed = keys.any(|key| dialect.per_layer.iter().any(|listed| listed == key));
            let value =
                passage.scope.value(&entry.name)?.filter(|_| is_listed && passage.scope.stated(&entry.name));
            let Some(Scalar::List(items)) = value else { continue };
            if !items.is_empty() && i64::try_from(items.len()).is_ok_and(|n| n < layers) {
                return Err(Error::malformed(format!(
                    "`{}` has {} entries, but `{}` is {layers}",
                    key_of(passage.table, passage.from, &entry.name),
                    items.len(),
                    key_of(passage.table, passage.from, &counting)
                ))
                .hint("correct the configuration: it needs one entry for each layer"));
            }
        }
    }
    Ok(())
}

/// The error for an impossible count, naming the keys it comes from.
pub(super) fn too_many(passage: &Passage<'_>, place: &str, count: u64, has: &str) -> Error {
    let expression = passage.table.count(place);
    let mut stated: Vec<String> = Vec::new();
    for name in expression.map(|expression| expression.names()).unwrap_or_default() {
        if let Ok(Some(value)) = passage.scope.value(&name) {
            stated.push(format!("`{}` is {value}", key_of(passage.table, passage.from, &name)));
        }
    }
    stated.dedup();
    let is_name = expression.is_some_and(|expression| expression.name().is_some());
    let message = match stated.len() {
        0 => format!("the configuration implies {count} of `{place}`, but {has}"),
        1 if is_name => format!("{}, but {has}", stated[0]),
        _ => format!("{}, which implies {count} of `{place}`, but {has}", stated.join(" and ")),
    };
    Error::malformed(message)
        .hint("correct the configuration, or download the model again: tensors may be missing")
}

/// The number at a place, if the configuration states it.
pub(super) fn count_of(passage: &Passage<'_>, place: &str) -> Result<Option<u64>> {
    match passage.table.count(place) {
        Some(count) if count.value(passage.scope)?.is_some() => count.size(passage.scope).map(Some),
        _ => Ok(None),
    }
}

/// The number at every place that the table counts.
pub(super) fn counts<'a>(passage: &Passage<'a>) -> Result<Vec<(&'a String, Option<u64>)>> {
    passage.table.places.iter().map(|(place, _)| Ok((place, count_of(passage, place)?))).collect()
}

/// The error for a tensor whose number exceeds the count of its place, or whose place has no count.
pub(super) fn uncounted(passage: &Passage<'_>, place: &str, number: u64, tensor: &str) -> Error {
    let names = passage.table.count(place).map(Expression::names).unwrap_or_default();
    let mut stated: Vec<String> = Vec::new();
    for name in names {
        let key = key_of(passage.table, passage.from, &name);
        stated.push(match passage.scope.value(&name) {
            Ok(Some(value)) => format!("`{key}` is {value}"),
            _ => format!("`{key}` is not stated"),
        });
    }
    stated.dedup();
    let message = format!(
        "{}, but the model has this tensor for {place} {number}, counted from 0",
        stated.join(" and ")
    );
    Error::malformed(message).tensor(tensor).hint("correct the configuration, or drop the extra tensors")
}
