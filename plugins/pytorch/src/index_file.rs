//! The index of a sharded model, `pytorch_model.bin.index.json`: which file holds which tensor.

use crate::layout::FORMAT;
use apr_sdk::{
    Bytes, Cursor, Error, ErrorKind, Extent, FileId, Limits, ModelSink, OpenModel, Options, PartDecl, Result,
    Source, Value, escape, strict_json,
};
use serde_json::Value as Json;

/// The longest index, in bytes. 64 MiB: the largest have a hundredth.
const LONGEST: u64 = 64 << 20;

/// What is read at once.
const PIECE: u64 = 1 << 20;

/// Whether a file of this name is an index.
pub fn is_name(name: &str) -> bool {
    name.ends_with(".bin.index.json") || name.ends_with(".pt.index.json") || name.ends_with(".pth.index.json")
}

/// A parsed index.
#[derive(Debug, Default)]
pub struct Index {
    /// The members of `metadata`.
    pub members: Vec<(String, Json)>,
    /// Tensor and the number of its file, in the index's order.
    pub map: Vec<(String, usize)>,
    /// The files, sorted by name.
    pub files: Vec<String>,
}

impl Index {
    /// Parses an index.
    ///
    /// # Errors
    /// Malformed.
    pub fn parse(text: &str) -> Result<Index> {
        let json = strict_json::parse(text)
            .map_err(|(what, at)| Error::malformed(format!("the index is not valid JSON: {what}")).at(at))?;
        let wrong = |what: &str| Error::malformed(format!("the index has no map `{what}`")).at(0);
        let map = json.get("weight_map").and_then(Json::as_object).ok_or_else(|| wrong("weight_map"))?;
        let mut index = Index::default();
        if let Some(members) = json.get("metadata") {
            let members = members.as_object().ok_or_else(|| wrong("metadata"))?;
            index.members = members.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        }
        let mut entries = Vec::with_capacity(map.len());
        for (name, file) in map {
            let file = file.as_str().filter(|file| !file.is_empty());
            let file = file.ok_or_else(|| {
                Error::malformed("the index maps it to an invalid file name").at(0).tensor(name)
            })?;
            entries.push((name, file));
        }
        index.files = entries.iter().map(|(_, file)| (*file).to_owned()).collect();
        index.files.sort_unstable();
        index.files.dedup();
        let place = |file: &str| index.files.binary_search_by(|f| f.as_str().cmp(file)).unwrap_or_default();
        index.map = entries.into_iter().map(|(name, file)| (name.clone(), place(file))).collect();
        Ok(index)
    }

    /// The text as the common tools write it: two spaces a level, sorted.
    pub fn text(&self) -> String {
        let mut map: Vec<_> =
            self.map.iter().map(|(name, n)| (name.as_str(), self.files[*n].as_str())).collect();
        map.sort_unstable();
        let map: serde_json::Map<_, _> =
            map.into_iter().map(|(name, file)| (name.to_owned(), file.into())).collect();
        let members: serde_json::Map<_, _> = self.members.iter().cloned().collect();
        let json = serde_json::json!({ "metadata": members, "weight_map": map });
        // Cannot fail: the keys are text.
        serde_json::to_string_pretty(&json).unwrap_or_default() + "\n"
    }
}

/// An opened index.
pub struct IndexFile {
    file: FileId,
    text: String,
    index: Index,
    prefix: Option<String>,
}

impl IndexFile {
    /// The files that it names.
    pub fn files(&self) -> &[String] {
        &self.index.files
    }

    /// Reads an index.
    ///
    /// # Errors
    /// Malformed, LimitExceeded.
    pub fn open(
        source: &dyn Source,
        file: FileId,
        prefix: Option<&str>,
        limits: &Limits,
    ) -> Result<IndexFile> {
        let mut cursor = Cursor::new(source, file, 0, limits)?;
        if cursor.left() > LONGEST {
            return Err(Error::limit(format!(
                "an index of {} bytes, more than the limit of {LONGEST}",
                cursor.left()
            ))
            .at(0));
        }
        let mut bytes = Vec::new();
        while cursor.left() > 0 {
            bytes.extend_from_slice(&cursor.bytes(cursor.left().min(PIECE))?);
        }
        // The text, its tree, and the names twice.
        limits.budget.charge(14 * bytes.len() as u64)?;
        let text = strict_json::text(&bytes)?.to_owned();
        let index = Index::parse(&text)?;
        if index.map.len() as u64 > limits.tensors {
            return Err(Error::limit(format!("the index has more than {} tensors", limits.tensors)).at(0));
        }
        Ok(IndexFile { file, text, index, prefix: prefix.map(str::to_owned) })
    }
}

impl OpenModel for IndexFile {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.foreign_file(FORMAT, &source.name(self.file), 0)?;
        for (key, json) in &self.index.members {
            sink.foreign(key, typed(json))?;
        }
        if self.index.text() != self.text {
            let len = self.text.len() as u64;
            let extent = Extent::new(self.file, 0, len);
            let kept: Bytes =
                if len > Bytes::INLINE_LIMIT { extent.into() } else { self.text.as_str().into() };
            sink.verbatim(kept)?;
        }
        let options =
            self.prefix.iter().fold(Options::new(), |options, prefix| options.with("prefix", prefix));
        for (n, name) in self.index.files.iter().enumerate() {
            let file = source.sibling(name).map_err(|error| {
                let count = self.index.map.iter().filter(|(_, file)| *file == n).count();
                let mapped = format!("the index maps {count} tensors to `{}`", escape(name, 120));
                match error.kind() {
                    ErrorKind::NotFound => Error::not_found(format!("{mapped}, which is missing"))
                        .hint("put it into the same folder"),
                    ErrorKind::InvalidArgument => Error::malformed(format!("{mapped}: {}", error.message())),
                    _ => error,
                }
                .in_file(source.name(self.file))
            })?;
            sink.part(PartDecl { file, range: None, format: FORMAT, options: options.clone() })?;
        }
        if self.prefix.is_none() {
            for (name, file) in &self.index.map {
                let part =
                    u32::try_from(*file).map_err(|_| Error::limit("the index refers to too many files"))?;
                sink.mapped(part, name)?;
            }
        }
        Ok(())
    }
}

/// A member as a typed value; what no type stands for is its JSON.
fn typed(json: &Json) -> Value {
    match json {
        Json::Bool(value) => Value::from_bool(*value),
        Json::String(text) => Value::from_string(text),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from_i64(whole),
            (None, float) => Value::from_f64(float.unwrap_or_default()),
        },
        other => Value::from_strings(&[other.to_string()]),
    }
}

/// A typed value as a member.
pub fn untyped(value: &Value) -> Json {
    if let Some(whole) = value.as_i64() {
        return Json::from(whole);
    }
    if let Some(whole) = value.as_unsigned() {
        return Json::from(whole);
    }
    if let Some(number) = value.as_f64() {
        return Json::from(number);
    }
    if let Some(flag) = value.as_bool() {
        return Json::from(flag);
    }
    if let Some(text) = value.as_str() {
        return Json::from(text);
    }
    match &value.items()[..] {
        [one] => one.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        _ => Json::Null,
    }
}
