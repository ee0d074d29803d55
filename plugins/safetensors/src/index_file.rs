//! An opened index: the shards as parts of the model, and the index's own metadata.

use crate::carried::{self, Carried};
use crate::index::{Index, MAX_LEN, byte_count, to_json};
use crate::layout::{FORMAT, MAX_HEADER_LEN, PREFIX_LEN};
use crate::reader::{bytes_of, read_text};
use crate::shards::{PAYLOAD_BYTES, TOTAL_SIZE};
use apr_sdk::{
    Cursor, Error, ErrorKind, Fact, FileId, Limits, ModelSink, OpenModel, Options, PartDecl, Result, Source,
    Value, escape, strict_json,
};

/// An index that was opened.
pub struct IndexFile {
    file: FileId,
    text: String,
    index: Index,
    /// Payload bytes of all shards, if the index states another number.
    payload_bytes: Option<u64>,
    /// Other formats' metadata, if the index carries any.
    carried: Option<Carried>,
}

impl IndexFile {
    /// Reads the index, and the first eight bytes of each shard, which tell where its payload begins.
    ///
    /// # Errors
    /// Malformed, LimitExceeded; NotFound for a missing shard.
    pub fn read(source: &dyn Source, file: FileId, limits: &Limits) -> Result<IndexFile> {
        let mut cursor = Cursor::new(source, file, 0, limits)?;
        if cursor.left() > MAX_LEN {
            let message = format!("an index of {} bytes, more than the limit of {MAX_LEN}", cursor.left());
            return Err(Error::limit(message).at(0));
        }
        let len = cursor.left();
        let text = strict_json::text(&read_text(&mut cursor, len)?)?.to_owned();
        let index = Index::parse(&text, limits)?;
        let member = |key: &str| index.members.iter().find(|(k, _)| k == key).map(|(_, value)| value);
        // If it does not parse, it is an ordinary member.
        let text_carried = member(carried::KEY).and_then(Value::as_str);
        let carried = text_carried.and_then(|text| Carried::parse(text, limits).ok());
        let stated = member(TOTAL_SIZE).and_then(byte_count);
        let payload_bytes = match stated {
            // If the file has its own member with this name, leave it alone.
            Some(stated) if member(PAYLOAD_BYTES).is_none() => {
                payload_bytes(source, &index)?.filter(|&counted| counted != stated)
            }
            _ => None,
        };
        Ok(IndexFile { file, text, index, payload_bytes, carried })
    }
}

/// Payload bytes of all shards according to file lengths, which their tensors fill. `None` if a shard is not
/// such a file.
fn payload_bytes(source: &dyn Source, index: &Index) -> Result<Option<u64>> {
    let mut total = 0u64;
    for n in 0..index.files.len() {
        let file = shard(source, index, n)?;
        let mut prefix = [0; 8];
        let Some(after) = source.len(file)?.checked_sub(PREFIX_LEN) else { return Ok(None) };
        source.read_at(file, 0, &mut prefix)?;
        let header_len = u64::from_le_bytes(prefix);
        let payload = after.checked_sub(header_len).filter(|_| header_len <= MAX_HEADER_LEN);
        match payload.and_then(|payload| total.checked_add(payload)) {
            Some(sum) => total = sum,
            None => return Ok(None),
        }
    }
    Ok(Some(total))
}

/// Shard number `n`.
fn shard(source: &dyn Source, index: &Index, n: usize) -> Result<FileId> {
    let name = &index.files[n];
    source.sibling(name).map_err(|error| {
        let count = index.map.iter().filter(|(_, file)| *file == n).count();
        let mapped = format!("the index maps {count} tensors to `{}`", escape(name, 120));
        match error.kind() {
            ErrorKind::NotFound => {
                Error::not_found(format!("{mapped}, which is missing")).hint("put it into the same folder")
            }
            ErrorKind::InvalidArgument => Error::malformed(format!("{mapped}: {}", error.message())),
            _ => error,
        }
    })
}

impl OpenModel for IndexFile {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.foreign_file(FORMAT, &source.name(self.file), 0)?;
        for (key, value) in &self.index.members {
            if key == carried::KEY {
                match &self.carried {
                    Some(_) => continue,
                    None => sink.fact(Fact::Note(carried::UNREAD))?,
                }
            }
            let same = |carried: &Value| to_json(carried) == to_json(value);
            let carried = self.carried.as_ref().and_then(|c| c.value(key, same));
            sink.foreign(key, carried.unwrap_or(value).clone())?;
        }
        if let Some(counted) = self.payload_bytes {
            sink.foreign(PAYLOAD_BYTES, Value::from_u64(counted))?;
        }
        let in_place = self.index.members.iter().rev().skip(1).all(|(key, _)| key != carried::KEY);
        if !in_place || self.index.canonical() != self.text {
            sink.verbatim(bytes_of(self.file, 0, &self.text))?;
        }
        for n in 0..self.index.files.len() {
            let file = shard(source, &self.index, n).map_err(|e| e.in_file(source.name(self.file)))?;
            sink.part(PartDecl { file, range: None, format: FORMAT, options: Options::new() })?;
        }
        for (name, file) in &self.index.map {
            let part =
                u32::try_from(*file).map_err(|_| Error::limit("the index refers to too many files"))?;
            sink.mapped(part, name)?;
        }
        self.carried.as_ref().map_or(Ok(()), |carried| carried.describe(sink))
    }
}
