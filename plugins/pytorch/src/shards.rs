//! Plans the files of a model: one, the source's own shards again, or shards of at most a given size.

use crate::index_file::{self, Index, untyped};
use crate::layout::FORMAT;
use apr_sdk::{
    Bytes, Error, ForeignFile, ForeignPolicy, LayoutRequest, LayoutSink, Model, Result, Tensor, Value,
    escape, shards,
};

/// The member of an index that counts payload bytes.
const TOTAL_SIZE: &str = "total_size";

/// The files to write.
pub struct Outputs<'m> {
    /// The files with tensors, in the order of the model.
    pub files: Vec<Output<'m>>,
    /// The index's name, and the record that it repeats.
    index: Option<(String, Option<&'m ForeignFile>)>,
}

/// A file to write.
pub struct Output<'m> {
    /// The file name, relative to the index.
    pub name: String,
    /// The numbers of its tensors.
    pub tensors: Vec<usize>,
    /// The records whose values stand in it.
    pub records: Vec<&'m ForeignFile>,
    /// The verbatim form of the file that it repeats.
    pub verbatim: Option<&'m Bytes>,
}

/// Decides on the files.
///
/// # Errors
/// Unsupported for sizes that overflow.
pub fn choose<'m>(
    model: &'m Model,
    request: &LayoutRequest,
    sink: &mut dyn LayoutSink,
) -> Result<Outputs<'m>> {
    let records: &[ForeignFile] = match request.foreign {
        ForeignPolicy::Drop => &[],
        _ => model.foreign_of(FORMAT).map_or(&[], |foreign| &foreign.files),
    };
    let (indexes, files): (Vec<_>, Vec<_>) = records.iter().partition(|r| index_file::is_name(&r.name));
    // A part's files have the names that the whole wants.
    let is_part = request.options.is_part();
    let named = |index: &ForeignFile| index.name == format!("{}.bin.index.json", request.stem);
    let may_repeat = indexes.len() == 1 && (!is_part || named(indexes[0]));
    let repeats = request.folder && request.max_shard_size.is_none() && may_repeat;
    let runs = shards::as_before(&files, model.tensors.len());
    if let (true, Some(runs)) = (repeats && files.iter().all(|r| !r.name.is_empty()), runs) {
        let repeated = files.iter().zip(runs).map(|(&record, tensors)| {
            let verbatim = record.verbatim.as_ref();
            Output { name: record.name.clone(), tensors, records: vec![record], verbatim }
        });
        let files = repeated.collect();
        return Ok(Outputs { files, index: Some((indexes[0].name.clone(), Some(indexes[0]))) });
    }
    let stem = if request.stem.is_empty() { "pytorch_model" } else { &request.stem };
    let runs = match request.max_shard_size {
        Some(_) => shards::split(model, request, Tensor::payload_len)?,
        None => Vec::new(),
    };
    if runs.len() > 1 {
        let count = runs.len();
        let named = |(n, tensors): (usize, Vec<usize>)| Output {
            name: shards::name(stem, n, count, "bin"),
            tensors,
            records: if n == 1 { files.clone() } else { Vec::new() },
            verbatim: None,
        };
        let index = Some((format!("{stem}.bin.index.json"), indexes.first().copied()));
        return Ok(Outputs { files: (1..).zip(runs).map(named).collect(), index });
    }
    for (key, _) in indexes.iter().flat_map(|record| &record.typed).filter(|(key, _)| key != TOTAL_SIZE) {
        sink.note(&format!("`{}` of the index is left out: one file has no index", escape(key, 120)));
    }
    let own_name = !request.folder && !request.file_name.is_empty();
    let name = if own_name {
        request.file_name.clone()
    } else {
        format!("{stem}.{}", if is_part { "bin" } else { "pt" })
    };
    let verbatim = files.first().filter(|_| files.len() == 1).and_then(|record| record.verbatim.as_ref());
    let tensors = (0..model.tensors.len()).collect();
    Ok(Outputs { files: vec![Output { name, tensors, records: files, verbatim }], index: None })
}

impl Outputs<'_> {
    /// The index's name and text, if there is one.
    ///
    /// # Errors
    /// Unsupported for a sum of sizes that overflows.
    pub fn index_text(&self, model: &Model) -> Result<Option<(String, String)>> {
        let Some((name, record)) = &self.index else { return Ok(None) };
        let (mut index, mut total) = (Index::default(), 0u64);
        for (n, file) in self.files.iter().enumerate() {
            index.files.push(file.name.clone());
            for &tensor in &file.tensors {
                let tensor = &model.tensors[tensor];
                let sum = total.checked_add(tensor.payload_len()?);
                total = sum.ok_or_else(|| Error::unsupported("the payloads have more than 2^64 bytes"))?;
                index.map.push((tensor.name.clone(), n));
            }
        }
        let members = record.map(|record| record.typed.as_slice()).unwrap_or_default();
        index.members = members.iter().map(|(key, value)| (key.clone(), untyped(value))).collect();
        if record.is_none() {
            index.members.push((TOTAL_SIZE.to_owned(), untyped(&Value::from_u64(total))));
        }
        let text = index.text();
        let kept = record.and_then(|record| record.verbatim.as_ref()).and_then(Bytes::inline);
        let kept = kept.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let same = |kept: &&str| Index::parse(kept).is_ok_and(|kept| kept.text() == text);
        Ok(Some((name.clone(), kept.filter(same).map_or(text.clone(), str::to_owned))))
    }
}
