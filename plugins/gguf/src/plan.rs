//! Plans the files to write: their names, keys and tensors.

use crate::layout::{
    ALIGNMENT_KEY, ARCHITECTURE_KEY, CARRIED_KEY, DEFAULT_ALIGNMENT, QUANTIZATION_VERSION,
    QUANTIZATION_VERSION_KEY, SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY, align_up,
};
use crate::split::{PartName, part_name};
use crate::{ID, carried, metadata, translated};
use apr_sdk::shards::takes_another;
use apr_sdk::{Bytes, Error, Foreign, ForeignPolicy, LayoutRequest, LayoutSink, Model, Result, Value};
use std::ops::Range;

/// One file to write.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// Path relative to the output folder.
    pub name: String,
    /// The keys, in order.
    pub keys: Vec<(String, Value)>,
    /// The tensors, by index in the model.
    pub tensors: Range<usize>,
    /// What the source contained besides keys and tensors (see [`crate::remainder`]).
    pub verbatim: Option<Bytes>,
}

impl PlannedFile {
    /// The alignment stated in its keys.
    ///
    /// # Errors
    /// Malformed for anything but a u32 that is a power of two.
    pub fn alignment(&self) -> Result<u64> {
        alignment(&self.keys)
    }
}

/// The files for `model`.
///
/// # Errors
/// Malformed for a bad alignment; InvalidArgument for more parts than can be numbered; any error from the sink.
pub fn files(model: &Model, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<Vec<PlannedFile>> {
    let own = match request.foreign {
        ForeignPolicy::Drop => None,
        _ => model.foreign_of(ID).filter(|own| !own.files.is_empty()),
    };
    let mut files = match own {
        Some(own) if keeps_parts(own, model, request) => same_parts(own),
        _ => new_parts(model, own, request, sink)?,
    };
    if request.foreign == ForeignPolicy::Keep
        && let Some(value) = carried::to_value(model, sink)?
        && let Some(first) = files.first_mut()
    {
        set(&mut first.keys, CARRIED_KEY, value);
    }
    if request.foreign == ForeignPolicy::Typed {
        files.iter_mut().for_each(|file| file.verbatim = None);
    }
    Ok(files)
}

/// Whether the output keeps the source's own parts.
fn keeps_parts(own: &Foreign, model: &Model, request: &LayoutRequest) -> bool {
    let wanted = request.folder && request.max_shard_size.is_none();
    let first = own.files.first().and_then(|file| PartName::parse(&file.name));
    let Some(first) = first.filter(|_| wanted && own.files.len() > 1 && own.describes(model.tensors.len()))
    else {
        return false;
    };
    let count = u32::try_from(own.files.len()).unwrap_or(0);
    let mut numbers = (1..).zip(&own.files);
    first.count == count && numbers.all(|(n, file)| file.name == part_name(first.prefix, n, count))
}

/// The source's parts, with their own keys.
fn same_parts(own: &Foreign) -> Vec<PlannedFile> {
    let mut at = 0;
    let n_tensors: u64 = own.files.iter().map(|file| file.n_tensors).sum();
    let count = own.files.len() as u64;
    let mut files = Vec::new();
    for (number, file) in (0..).zip(&own.files) {
        // Cannot be lossy: the counts add up to the model's tensors.
        let end = at + usize::try_from(file.n_tensors).unwrap_or(0);
        let mut keys = file.typed.clone();
        // A key that an edit has made wrong would give a set that nobody can open.
        correct(&mut keys, SPLIT_NO_KEY, number, true);
        correct(&mut keys, SPLIT_COUNT_KEY, count, number == 0);
        correct(&mut keys, SPLIT_TENSORS_KEY, n_tensors, false);
        files.push(PlannedFile {
            name: file.name.clone(),
            keys,
            tensors: at..end,
            verbatim: file.verbatim.clone(),
        });
        at = end;
    }
    files
}

/// Corrects a wrong split key, and adds a missing one.
fn correct(keys: &mut Vec<(String, Value)>, key: &str, right: u64, needed: bool) {
    let there = keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_unsigned());
    if there.map_or(needed, |value| value != Some(right)) {
        set(keys, key, split_value(key, right));
    }
}

/// A split key's value, with the type that llama.cpp requires.
fn split_value(key: &str, n: u64) -> Value {
    if key == SPLIT_TENSORS_KEY {
        Value::from_i32(i32::try_from(n).unwrap_or(i32::MAX))
    } else {
        Value::from_u16(u16::try_from(n).unwrap_or(u16::MAX))
    }
}

/// One file, or new parts of at most the requested size.
fn new_parts(
    model: &Model,
    own: Option<&Foreign>,
    request: &LayoutRequest,
    sink: &mut dyn LayoutSink,
) -> Result<Vec<PlannedFile>> {
    let keys = match own {
        Some(own) => translated::complete(merged_keys(own), model, request, sink)?,
        None => own_keys(model),
    };
    let ranges = match request.max_shard_size {
        Some(longest) => ranges(model, request, longest, alignment(&keys)?)?,
        None => Vec::new(),
    };
    match u16::try_from(ranges.len()) {
        Ok(0 | 1) => Ok(vec![one_file(model, own, keys, request)]),
        Ok(count) => Ok(shards(model, keys, ranges, count, &request.stem)),
        Err(_) => {
            let message = format!("{} parts, but at most {} can be numbered", ranges.len(), u16::MAX);
            Err(Error::invalid_argument(message).hint("allow more bytes or tensors per file"))
        }
    }
}

fn one_file(
    model: &Model,
    own: Option<&Foreign>,
    mut keys: Vec<(String, Value)>,
    request: &LayoutRequest,
) -> PlannedFile {
    let only = own.filter(|own| own.files.len() == 1).map(|own| &own.files[0]);
    // `llama-gguf-split --merge` leaves a count of 0 behind, which does no harm.
    if only.is_none() || split_count(&keys) > 1 {
        keys.retain(|(key, _)| !is_split_key(key));
    }
    let name = match only {
        Some(file) if request.folder && !file.name.is_empty() => file.name.clone(),
        _ if request.folder || request.file_name.is_empty() => format!("{}.gguf", request.stem),
        _ => request.file_name.clone(),
    };
    let verbatim = only.and_then(|file| file.verbatim.clone());
    PlannedFile { name, keys, tensors: 0..model.tensors.len(), verbatim }
}

/// Parts like those of `llama-gguf-split`: the model's keys in the first, the split keys in each.
fn shards(
    model: &Model,
    mut keys: Vec<(String, Value)>,
    ranges: Vec<Range<usize>>,
    count: u16,
    stem: &str,
) -> Vec<PlannedFile> {
    keys.retain(|(key, _)| !is_split_key(key));
    let n_tensors = model.tensors.len() as u64;
    let mut files = Vec::new();
    for (number, tensors) in (0u32..).zip(ranges) {
        let mut part_keys = std::mem::take(&mut keys);
        // Every part is laid out by its own keys.
        keys = part_keys.iter().filter(|(key, _)| key == ALIGNMENT_KEY).cloned().collect();
        set(&mut part_keys, SPLIT_NO_KEY, split_value(SPLIT_NO_KEY, u64::from(number)));
        set(&mut part_keys, SPLIT_COUNT_KEY, split_value(SPLIT_COUNT_KEY, u64::from(count)));
        set(&mut part_keys, SPLIT_TENSORS_KEY, split_value(SPLIT_TENSORS_KEY, n_tensors));
        let name = part_name(stem, number + 1, u32::from(count));
        files.push(PlannedFile { name, keys: part_keys, tensors, verbatim: None });
    }
    files
}

/// Runs of tensors with at most `longest` padded bytes; a larger tensor gets its own part.
fn ranges(model: &Model, request: &LayoutRequest, longest: u64, alignment: u64) -> Result<Vec<Range<usize>>> {
    let mut ranges = Vec::new();
    let (mut start, mut size) = (0, 0u64);
    for (n, tensor) in model.tensors.iter().enumerate() {
        let padded = align_up(tensor.payload_len()?, alignment).unwrap_or(u64::MAX);
        let sum = size.saturating_add(padded);
        if n > start && (sum > longest || !takes_another(request, n - start)) {
            ranges.push(start..n);
            (start, size) = (n, padded);
        } else {
            size = sum;
        }
    }
    ranges.push(start..model.tensors.len());
    Ok(ranges)
}

/// The keys of all of the source's files, without duplicates.
fn merged_keys(own: &Foreign) -> Vec<(String, Value)> {
    let mut keys = own.files.first().map(|file| file.typed.clone()).unwrap_or_default();
    for (key, value) in own.files.iter().skip(1).flat_map(|file| &file.typed) {
        if !keys.iter().any(|(name, _)| name == key) {
            keys.push((key.clone(), value.clone()));
        }
    }
    keys
}

/// The keys of a model that never was in this format: only what is known about it. A made-up architecture
/// would stop programs that guess from tensor names if there is none.
fn own_keys(model: &Model) -> Vec<(String, Value)> {
    let mut keys = Vec::new();
    if let Some(architecture) = &model.architecture {
        keys.push((ARCHITECTURE_KEY.to_owned(), Value::from_string(&architecture.id)));
    }
    if model.tensors.iter().any(|tensor| tensor.dtype.is_block()) {
        keys.push((QUANTIZATION_VERSION_KEY.to_owned(), Value::from_u32(QUANTIZATION_VERSION)));
    }
    keys
}

fn alignment(keys: &[(String, Value)]) -> Result<u64> {
    let stated = keys.iter().find(|(key, _)| key == ALIGNMENT_KEY);
    stated.map_or(Ok(DEFAULT_ALIGNMENT), |(_, value)| metadata::alignment_of(value))
}

fn split_count(keys: &[(String, Value)]) -> u64 {
    let count = keys.iter().find(|(key, _)| key == SPLIT_COUNT_KEY);
    count.and_then(|(_, value)| value.as_unsigned()).unwrap_or(0)
}

fn is_split_key(key: &str) -> bool {
    [SPLIT_NO_KEY, SPLIT_COUNT_KEY, SPLIT_TENSORS_KEY].contains(&key)
}

fn set(keys: &mut Vec<(String, Value)>, key: &str, value: Value) {
    match keys.iter_mut().find(|(name, _)| name == key) {
        Some(slot) => slot.1 = value,
        None => keys.push((key.to_owned(), value)),
    }
}
