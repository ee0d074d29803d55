//! Reports, for the summary, how casts and additions changed the values of each tensor.

use crate::architecture::TensorSpecs;
use crate::contract::{FINITE, Finding, Quality, Severity, judge_nonfinite};
use crate::tiles::tile::Tiles;
use crate::tiles::tile_sums::TileSums;
use crate::values::cast::Changes;
use crate::wording::n_of;
use apr_sdk::{Model, Result, escape};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// A tensor with values that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedTensor {
    /// The tensor's name in the output.
    pub name: String,
    /// The tensor's dtype in the output.
    pub dtype: String,
    /// Number of values.
    pub values: u64,
    /// Counts of changed values, by kind of change.
    #[serde(flatten)]
    pub changes: Changes,
}

/// Every tensor with values that could not be kept, in output order.
pub fn changed(model: &Model, tiles: &Tiles, sums: &TileSums) -> Vec<ChangedTensor> {
    let mut out = Vec::new();
    for (number, tensor) in model.tensors.iter().enumerate() {
        let mut changes = Changes::default();
        let mut values = 0;
        for run in &tiles.runs[tiles.of_tensor(number)] {
            let Some(granule) = &run.granule else { continue };
            values += granule.elements(run.len);
            let of_tiles = run.first..run.first + run.n_tiles();
            of_tiles.for_each(|tile| changes += sums.changes(tile));
        }
        if changes != Changes::default() {
            let dtype = tensor.dtype.name().to_owned();
            out.push(ChangedTensor { name: tensor.name.clone(), dtype, values, changes });
        }
    }
    out
}

/// Findings for tensors with values that were not, or did not stay, finite, and that have no finding yet:
/// their type is not examined, or turns such values into ordinary ones.
///
/// # Errors
/// Failed for the first that is an error.
pub fn findings(
    changed: &[ChangedTensor],
    model: &Model,
    specs: &TensorSpecs,
    known: &[Finding],
    quality: Quality,
) -> Result<Vec<Finding>> {
    let known: HashSet<&str> = known.iter().filter(|f| f.code == FINITE).map(|f| f.tensor.as_str()).collect();
    let mut findings = Vec::new();
    // Both are in model order.
    let mut bad = changed.iter().filter(|t| t.changes.is_bad()).peekable();
    for (number, tensor) in model.tensors.iter().enumerate() {
        let Some(ChangedTensor { values, changes, .. }) = bad.next_if(|t| t.name == tensor.name) else {
            continue;
        };
        if known.contains(tensor.name.as_str()) {
            continue;
        }
        let counts = [changes.nonfinite, changes.overflowed, *values];
        let finding = judge_nonfinite(tensor, specs.of(number), counts, quality);
        if finding.severity == Severity::Error {
            return Err(finding.error());
        }
        findings.push(finding);
    }
    Ok(findings)
}

/// Describes the changes: rounding for all tensors together, everything else tensor by tensor.
pub fn notes(changed: &[ChangedTensor]) -> Vec<String> {
    let mut rounded: BTreeMap<&str, (usize, u64, u64)> = BTreeMap::new();
    for tensor in changed.iter().filter(|t| t.changes.rounded > 0) {
        let (tensors, n, values) = rounded.entry(&tensor.dtype).or_default();
        *tensors += 1;
        *n += tensor.changes.rounded;
        *values += tensor.values;
    }
    let mut notes = Vec::new();
    for (dtype, (tensors, n, values)) in rounded {
        notes.push(format!("rounded to {dtype}: {n} of {values} values, in {}", n_of(tensors, "tensor")));
    }
    let not_undone: Vec<&ChangedTensor> = changed.iter().filter(|t| t.changes.not_undone > 0).collect();
    if let Some(first) = not_undone.first() {
        let n: u64 = not_undone.iter().map(|tensor| tensor.changes.not_undone).sum();
        let values: u64 = not_undone.iter().map(|tensor| tensor.values).sum();
        let first = escape(&first.name, 120);
        let tensors = n_of(not_undone.len(), "tensor");
        notes.push(format!(
            "converting back would not restore {n} of {values} values exactly, in {tensors}, \
             first in `{first}`"
        ));
    }
    for ChangedTensor { name, values, changes, .. } in changed {
        let name = escape(name, 120);
        let nonfinite = (changes.nonfinite, "were not finite in the source");
        let overflowed = (changes.overflowed, "overflowed");
        for (n, what) in [nonfinite, overflowed].into_iter().filter(|(n, _)| *n > 0) {
            notes.push(format!("`{name}`: {n} of {values} values {what}"));
        }
    }
    notes
}
