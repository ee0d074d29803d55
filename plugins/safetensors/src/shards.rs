//! Plans the files of a model: one, the source's own shards again, or shards of at most a given size.

use crate::carried::{self, Outgoing, Place};
use crate::index::{self, Index, byte_count, to_json};
use crate::layout::{FORMAT, METADATA, payload_len};
use apr_sdk::{
    Error, ForeignFile, ForeignPolicy, LayoutRequest, LayoutSink, Limits, Model, Result, Value, ValueType,
    escape, shards,
};
use std::collections::HashMap;

/// The member of an index with the total payload bytes.
pub const TOTAL_SIZE: &str = "total_size";

/// A typed key of an index's record that is never written: the shards' payload bytes, if its `total_size`
/// differs. It distinguishes a count that was always wrong from one that became wrong.
pub const PAYLOAD_BYTES: &str = "apr.payload_bytes";

/// The key of `__metadata__` that names the framework.
const FRAMEWORK: &str = "format";

/// The extension of a file, which also precedes that of its index.
const EXTENSION: &str = "safetensors";
const INDEX_EXTENSION: &str = ".safetensors.index.json";

/// The files to write.
pub struct Shards<'m> {
    /// The files with tensors, in the order of the model.
    pub files: Vec<Shard<'m>>,
    /// The index, if there is one.
    pub index: Option<IndexPlan<'m>>,
}

/// The index to write.
pub struct IndexPlan<'m> {
    /// The index's file name.
    pub name: String,
    /// The record of the index that it reproduces or replaces.
    pub record: Option<&'m ForeignFile>,
    /// That record's values, in memory.
    members: Vec<(String, Value)>,
}

/// A file to write.
pub struct Shard<'m> {
    /// The file's name in the output folder.
    pub name: String,
    /// Indices of its tensors.
    pub tensors: Vec<usize>,
    /// The contents of `__metadata__`.
    pub metadata: Metadata,
    /// The record of the file that it reproduces.
    pub record: Option<&'m ForeignFile>,
}

impl<'m> Shards<'m> {
    /// Decides on the files.
    ///
    /// # Errors
    /// Unsupported for a tensor that the format cannot hold; any error from fetching.
    pub fn choose(
        model: &'m Model,
        request: &LayoutRequest,
        sink: &mut dyn LayoutSink,
    ) -> Result<Shards<'m>> {
        let records: &[ForeignFile] = match request.foreign {
            ForeignPolicy::Drop => &[],
            _ => model.foreign_of(FORMAT).map_or(&[], |foreign| &foreign.files),
        };
        let (indexes, files): (Vec<_>, Vec<_>) = records.iter().partition(|r| index::is_name(&r.name));
        // The files of a part get the names that the whole wants.
        let named = |index: &ForeignFile| index.name == format!("{}{INDEX_EXTENSION}", request.stem);
        let may_repeat = indexes.len() == 1 && (!request.options.is_part() || named(indexes[0]));
        let repeats = request.folder && request.max_shard_size.is_none() && may_repeat;
        if let (true, Some(runs)) = (repeats, shards::as_before(&files, model.tensors.len())) {
            return Shards::repeat(indexes[0], &files, runs, sink);
        }
        let mut metadata = Metadata::union(&files, sink)?;
        if let Some(framework) = request.options.get("framework")
            && !metadata.values.iter().any(|(key, _)| key == FRAMEWORK)
        {
            metadata.values.push((FRAMEWORK.to_owned(), Value::from_string(framework)));
        }
        let stem = if request.stem.is_empty() { "model" } else { &request.stem };
        let runs = match request.max_shard_size {
            Some(_) => shards::split(model, request, |tensor| {
                payload_len(tensor.dtype, &tensor.shape)
                    .map_err(|e| Error::unsupported(e.message()).tensor(&tensor.name))
            })?,
            None => Vec::new(),
        };
        if runs.len() > 1 {
            let count = runs.len();
            let named = |(n, tensors)| Shard {
                name: shards::name(stem, n, count, EXTENSION),
                tensors,
                metadata: metadata.clone(),
                record: None,
            };
            let index = IndexPlan::new(format!("{stem}{INDEX_EXTENSION}"), indexes.first().copied(), sink)?;
            return Ok(Shards { files: (1..).zip(runs).map(named).collect(), index: Some(index) });
        }
        let lost = indexes.iter().flat_map(|record| &record.typed);
        for (key, _) in lost.filter(|(key, _)| key != TOTAL_SIZE && key != PAYLOAD_BYTES) {
            sink.note(&format!("`{}` of the index is left out: one file has no index", escape(key, 120)));
        }
        let own_name = !request.folder && !request.file_name.is_empty();
        let name = if own_name { request.file_name.clone() } else { format!("{stem}.{EXTENSION}") };
        let record = files.first().copied().filter(|_| files.len() == 1);
        let tensors = (0..model.tensors.len()).collect();
        Ok(Shards { files: vec![Shard { name, tensors, metadata, record }], index: None })
    }

    /// The source's own files.
    fn repeat(
        index: &'m ForeignFile,
        records: &[&'m ForeignFile],
        runs: Vec<Vec<usize>>,
        sink: &mut dyn LayoutSink,
    ) -> Result<Shards<'m>> {
        let mut files = Vec::with_capacity(records.len());
        for (record, tensors) in records.iter().zip(runs) {
            files.push(Shard {
                name: record.name.clone(),
                tensors,
                metadata: Metadata::union(&[record], sink)?,
                record: Some(*record),
            });
        }
        let index = IndexPlan::new(index.name.clone(), Some(index), sink)?;
        Ok(Shards { files, index: Some(index) })
    }

    /// The text of the index: the record's verbatim form `kept`, if that means the same.
    ///
    /// # Errors
    /// Unsupported for a size that overflows; Malformed for a value that is not of its type.
    pub fn index_text(
        &self,
        model: &Model,
        plan: &IndexPlan<'_>,
        outgoing: &Outgoing,
        kept: Option<&str>,
    ) -> Result<String> {
        let mut total = 0u64;
        let mut index = Index::default();
        for (n, shard) in self.files.iter().enumerate() {
            index.files.push(shard.name.clone());
            for &tensor in &shard.tensors {
                let tensor = &model.tensors[tensor];
                total = total.checked_add(tensor.payload_len()?).ok_or_else(|| {
                    Error::unsupported("the payload exceeds 2^64 bytes").tensor(&tensor.name)
                })?;
                index.map.push((tensor.name.clone(), n));
            }
        }
        let unspelled = plan.members.iter().filter(|(_, value)| index::from_json(to_json(value)) != *value);
        let carried = outgoing.text(Place::Index, unspelled)?;
        let counted = plan.members.iter().find(|(key, _)| key == PAYLOAD_BYTES);
        let mut stale = false;
        for (key, value) in &plan.members {
            match key.as_str() {
                carried::KEY if carried.is_some() => {}
                PAYLOAD_BYTES => {}
                TOTAL_SIZE => {
                    let before = byte_count(counted.map_or(value, |(_, counted)| counted));
                    stale = before.is_some_and(|before| before != total);
                    let value = if stale { Value::from_u64(total) } else { value.clone() };
                    index.members.push((key.clone(), value));
                }
                _ => index.members.push((key.clone(), value.clone())),
            }
        }
        if plan.record.is_none() {
            index.members.push((TOTAL_SIZE.to_owned(), Value::from_u64(total)));
        }
        if let Some(text) = carried {
            index.members.push((carried::KEY.to_owned(), Value::from_string(text)));
        }
        match kept.filter(|text| !stale && index.says_the_same_as(text)) {
            Some(text) => Ok(text.to_owned()),
            None => Ok(index.canonical()),
        }
    }
}

impl Index {
    /// Whether `text` is an index with exactly these contents, in any spelling.
    fn says_the_same_as(&self, text: &str) -> bool {
        let limits = Limits::default();
        limits.budget.earn(text.len() as u64);
        let Ok(kept) = Index::parse(text, &limits) else { return false };
        let sorted = |index: &Index| {
            let mut map: Vec<_> =
                index.map.iter().map(|(name, file)| (name.clone(), index.files[*file].clone())).collect();
            map.sort_unstable();
            map
        };
        kept.members == self.members && sorted(&kept) == sorted(self)
    }
}

impl<'m> IndexPlan<'m> {
    fn new(
        name: String,
        record: Option<&'m ForeignFile>,
        sink: &mut dyn LayoutSink,
    ) -> Result<IndexPlan<'m>> {
        let members = record.map_or(Ok(Vec::new()), |record| fetched(record, sink))?;
        Ok(IndexPlan { name, record, members })
    }
}

/// The contents of a file's `__metadata__`.
#[derive(Clone, Default)]
pub struct Metadata {
    /// Whether the key exists although the map is empty.
    empty_map: bool,
    /// The values, in memory.
    values: Vec<(String, Value)>,
}

impl Metadata {
    /// Merges the metadata of all files: the first value of each key.
    fn union(records: &[&ForeignFile], sink: &mut dyn LayoutSink) -> Result<Metadata> {
        let mut all = Metadata::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        for record in records {
            for (key, value) in fetched(record, sink)? {
                if key == METADATA && value.kind == ValueType::BOOL {
                    all.empty_map = true;
                    continue;
                }
                let Some(&first) = places.get(&key) else {
                    places.insert(key.clone(), all.values.len());
                    all.values.push((key, value));
                    continue;
                };
                if all.values[first].1 != value {
                    let (key, name) = (escape(&key, 120), escape(&record.name, 120));
                    sink.note(&format!(
                        "metadata key `{key}` of `{name}` is left out: an earlier file has a different value"
                    ));
                }
            }
        }
        Ok(all)
    }

    /// The map as spelled in the file; `None` if there is none.
    pub fn entries(&self) -> Option<Vec<(String, String)>> {
        let entries: Vec<_> = self.values.iter().map(|(key, value)| (key.clone(), shown(value))).collect();
        (self.empty_map || !entries.is_empty()).then_some(entries)
    }

    /// The values whose type or bytes a string cannot express.
    pub fn unspelled(&self) -> impl Iterator<Item = &(String, Value)> {
        self.values.iter().filter(|(_, value)| value.as_str().is_none())
    }
}

/// A record's values, read into memory.
fn fetched(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<Vec<(String, Value)>> {
    let read = |(key, value): &(String, Value)| {
        Ok((key.clone(), Value { kind: value.kind, bytes: sink.fetch(&value.bytes)? }))
    };
    record.typed.iter().map(read).collect()
}

/// The string for a value in `__metadata__`.
pub fn shown(value: &Value) -> String {
    match value.as_bytes() {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => to_json(value).to_string(),
    }
}
