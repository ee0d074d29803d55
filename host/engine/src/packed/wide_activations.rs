//! Weights whose activations must not be narrowed to the weights' own type. A scheme says which weights these are; the target's manifest
//! (`F.wide_activations`) says which two lists of the target's metadata name them. The lists use the names that are written.

use crate::expression::Expression;
use crate::open::OpenedModel;
use crate::planned::coverage::Renamed;
use crate::planned::{Computation, PlannedModel};
use crate::registry::Format;
use apr_sdk::manifest::WideActivations;
use apr_sdk::{DType, ForeignFile, Model, Payload, Result, Tensor, Value, ValueType};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Keeps the target's lists true: tensors that became such weights are added, in the order of their names; in lists that the model
/// has already, names follow renamed tensors, and those of tensors that were left out or have another type now leave.
///
/// # Errors
/// Any error from reading a long list.
pub fn list(
    planned: &mut PlannedModel,
    source: &OpenedModel,
    renamed: &[Renamed],
    target: &Format,
) -> Result<()> {
    let Some(lists) = &target.manifest.wide_activations else { return Ok(()) };
    let wide: BTreeSet<String> = planned
        .tensors()
        .filter(|(_, tensor, computation)| tensor.dtype == lists.dtype && is_wide(computation))
        .map(|(_, tensor, _)| tensor.name.clone())
        .collect();
    let n_tensors = planned.computations().len() as u64;
    let stated = planned.model().foreign_of(target.id());
    let fates = stated
        .is_some_and(|stated| stated.get(&lists.names).is_some())
        .then(|| Fates::of(planned, source, renamed, lists.dtype));
    planned.with_rest(|rest| {
        if let Some(fates) = &fates {
            for file in &mut rest.foreign_mut(target.id()).files {
                follow(file, source, fates, lists)?;
            }
        }
        if wide.is_empty() { Ok(()) } else { add(rest, wide, n_tensors, source, target, lists) }
    })
}

/// Adds the tensors of these names to the target's lists.
fn add(
    rest: &mut Model,
    wide: BTreeSet<String>,
    n_tensors: u64,
    source: &OpenedModel,
    target: &Format,
    lists: &WideActivations,
) -> Result<()> {
    let files = &mut rest.foreign_mut(target.id()).files;
    if files.is_empty() {
        // Without a table for its names, the model has no metadata of the target's yet.
        files.push(ForeignFile { n_tensors, ..ForeignFile::default() });
    }
    if let Some(file) = files.first_mut() {
        let mut names = texts(&items(file, &lists.names, source)?);
        let flags = items(file, &lists.flags, source)?;
        let mut flags: Vec<u8> = flags.iter().map(|flag| u8::from(flag.as_bool() == Some(true))).collect();
        flags.resize(names.len(), 0);
        let known: HashSet<String> = names.iter().cloned().collect();
        names.extend(wide.into_iter().filter(|name| !known.contains(name)));
        flags.resize(names.len(), 0);
        file.set(&lists.names, Value::from_strings(&names));
        file.set(&lists.flags, Value::from_items(ValueType::BOOL, names.len() as u64, &flags));
    }
    Ok(())
}

/// Returns whether all weights that a tensor is made of have wide activations.
fn is_wide(computation: &Computation) -> bool {
    let parts = computation.expression.parts();
    let mut packed = parts.iter().map(|part| part.packed());
    !parts.is_empty() && packed.all(|packed| packed.is_some_and(|packed| packed.weight.wide_activations))
}

/// The fates of the tensors that a list may name.
struct Fates<'a> {
    /// By a tensor's former names, its new one; `None` if it no longer has the type that the list is about.
    written: HashMap<String, Option<String>>,
    /// All names of the source.
    stored: HashSet<&'a str>,
    /// True if names were translated: a list that was carried along then has none of the source's.
    is_translated: bool,
}

impl<'a> Fates<'a> {
    fn of(planned: &PlannedModel, source: &'a OpenedModel, renamed: &[Renamed], dtype: DType) -> Fates<'a> {
        let stored = &source.model.tensors;
        let before: HashMap<usize, &str> =
            renamed.iter().map(|renamed| (renamed.number, renamed.name.as_str())).collect();
        let mut written = HashMap::new();
        for (handle, tensor, computation) in planned.tensors() {
            let from = computation.expression.parts().iter().find_map(Expression::source_tensor);
            let from = from.and_then(|from| stored.get(from));
            // A list may name tensors of other types from the start: these entries stay.
            let is_changed = tensor.dtype != dtype && from.is_none_or(|from| was_of(from, dtype));
            let to = (!is_changed).then(|| tensor.name.clone());
            let translated = before.get(&handle.index()).copied().unwrap_or(&tensor.name);
            written.entry(translated.to_owned()).or_insert_with(|| to.clone());
            if let Some(from) = from {
                written.insert(from.name.clone(), to);
            }
        }
        Fates {
            written,
            stored: stored.iter().map(|tensor| tensor.name.as_str()).collect(),
            is_translated: source.model.dialect != planned.model().dialect,
        }
    }

    /// The name that a list gives a tensor from now on; `None` if the entry is no longer true.
    fn of_name(&self, name: String) -> Option<String> {
        match self.written.get(&name) {
            Some(to) => to.clone(),
            None if self.is_translated || self.stored.contains(name.as_str()) => None,
            // It named no tensor before.
            None => Some(name),
        }
    }
}

/// Returns whether a tensor of the source is stored in a type, or its codes are.
fn was_of(tensor: &Tensor, dtype: DType) -> bool {
    match &tensor.payload {
        Payload::Packed(weight) => weight.parts.iter().any(|part| part.dtype == dtype),
        _ => tensor.dtype == dtype,
    }
}

/// Changes the two lists of a file alike, if anything in them changes; empty lists go.
fn follow(
    file: &mut ForeignFile,
    source: &OpenedModel,
    fates: &Fates<'_>,
    lists: &WideActivations,
) -> Result<()> {
    let listed = items(file, &lists.names, source)?;
    let flags = items(file, &lists.flags, source)?;
    let names = texts(&listed);
    if names.len() != listed.len() {
        return Ok(());
    }
    let entries = names.iter().cloned().zip(flags.iter().map(Some).chain(std::iter::repeat(None)));
    let kept: Vec<(String, Option<&Value>)> =
        entries.filter_map(|(name, flag)| Some((fates.of_name(name)?, flag))).collect();
    if kept.iter().map(|(name, _)| name).eq(&names) {
        return Ok(());
    }
    if kept.is_empty() {
        file.typed.retain(|(key, _)| *key != lists.names && *key != lists.flags);
        return Ok(());
    }
    let is_shorter = kept.len() < names.len();
    let flags: Vec<&Value> = kept.iter().filter_map(|(_, flag)| *flag).collect();
    let of_kind = flags.first().map(|flag| flag.kind);
    let bytes: Vec<u8> = flags.iter().filter_map(|flag| flag.bytes.inline()).flatten().copied().collect();
    let flags = of_kind.map(|kind| Value::from_items(kind, flags.len() as u64, &bytes));
    let names: Vec<&String> = kept.iter().map(|(name, _)| name).collect();
    file.set(&lists.names, Value::from_strings(&names));
    if let Some(flags) = flags.filter(|_| is_shorter) {
        file.set(&lists.flags, flags);
    }
    Ok(())
}

/// The items of one of a file's lists; none if it has no such list. A long one is still in its file.
fn items(file: &ForeignFile, key: &str, source: &OpenedModel) -> Result<Vec<Value>> {
    let Some(value) = file.get(key) else { return Ok(Vec::new()) };
    Ok(Value { kind: value.kind, bytes: source.fetch(&value.bytes)? }.items())
}

/// The items of a list that are text.
fn texts(items: &[Value]) -> Vec<String> {
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
