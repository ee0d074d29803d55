//! Reads a file's header, or a sharded model's index, into a model.

use crate::carried::{self, Carried};
use crate::header::Header;
use crate::index_file::IndexFile;
use crate::layout::{FORMAT, MAX_HEADER_LEN, METADATA, PREFIX_LEN};
use crate::shards::shown;
use crate::{canonical, index, stated};
use apr_sdk::{
    Bytes, Cursor, Error, Extent, Fact, FileId, Limits, Look, ModelSink, OpenModel, Options, Reader, Result,
    Score, Source, TensorDecl, Value, escape, strict_json,
};

/// Bytes of text read at once. 16 MiB: a quarter of the initial budget.
const LONGEST_PIECE: u64 = 16 << 20;

/// The reader for single files, indexes and folders.
pub struct Safetensors;

impl Reader for Safetensors {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            return match choose(look.entries) {
                Choice::None => Score::NO,
                // Opening says which files there are to choose from.
                Choice::File(_) | Choice::Several(_) => Score::STRUCTURE,
            };
        }
        if index::is_name(look.name)
            && (look.head.trim_ascii_start().starts_with(b"{") || strict_json::is_marked(look.head))
        {
            let key = b"\"weight_map\"";
            let found = look.head.windows(key.len()).any(|piece| piece == key);
            return if found { Score::MAGIC } else { Score::STRUCTURE };
        }
        let Some(header_len) = look.u64_le(0) else { return Score::NO };
        let text = look.head.get(8..).unwrap_or_default().trim_ascii_start();
        let begins = header_len <= MAX_HEADER_LEN && text.starts_with(b"{");
        // A file truncated inside its header is still recognised by name, so that opening can say so.
        let inside = look.len.saturating_sub(PREFIX_LEN) >= header_len || look.name.ends_with(".safetensors");
        if begins && inside { Score::STRUCTURE } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        if !source.is_folder() {
            let part = options.is_part();
            if part && is_index(source, 0)? {
                let error = Error::malformed("it is an index of a sharded model, expected a shard");
                return Err(error.at(0).in_file(source.name(0)));
            }
            return open_file(source, 0, if part { source.name(0) } else { String::new() }, limits);
        }
        match choose(&source.entries()?) {
            Choice::File(name) => open_file(source, source.sibling(&name)?, String::new(), limits),
            Choice::None => {
                Err(Error::not_found("the folder contains no .safetensors file and no index of such files"))
            }
            Choice::Several(names) => {
                let list: Vec<_> = names.iter().map(|name| format!("`{}`", escape(name, 120))).collect();
                let message = format!("the folder contains several models: {}", list.join(", "));
                Err(Error::invalid_argument(message).hint("specify the one to open"))
            }
        }
    }
}

fn open_file(source: &dyn Source, file: FileId, name: String, limits: &Limits) -> Result<Box<dyn OpenModel>> {
    let opened: Result<Box<dyn OpenModel>> = if is_index(source, file)? {
        IndexFile::read(source, file, limits).map(|index| Box::new(index) as _)
    } else {
        File::read(source, file, name, limits).map(|file| Box::new(file) as _)
    };
    opened.map_err(|e| e.in_file(source.name(file)))
}

/// Whether a file is an index: by its name, or since it is text in braces, which is no valid header length.
fn is_index(source: &dyn Source, file: FileId) -> Result<bool> {
    let mut head = [0; 8];
    if index::is_name(&source.name(file)) {
        return Ok(true);
    }
    if source.len(file)? < PREFIX_LEN {
        return Ok(false);
    }
    source.read_at(file, 0, &mut head)?;
    let text = head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    Ok(text && u64::from_le_bytes(head) > MAX_HEADER_LEN)
}

/// What to open in a folder.
enum Choice {
    None,
    File(String),
    Several(Vec<String>),
}

/// The only index of a folder, or without an index its only file.
fn choose(entries: &[String]) -> Choice {
    let mut found: Vec<_> = entries.iter().filter(|name| index::is_name(name)).cloned().collect();
    if found.is_empty() {
        found = entries.iter().filter(|name| name.ends_with(".safetensors")).cloned().collect();
    }
    match found.len() {
        0 => Choice::None,
        1 => Choice::File(found.remove(0)),
        _ => Choice::Several(found),
    }
}

/// One opened file.
struct File {
    file: FileId,
    /// The name in the foreign record: empty unless it is a part.
    name: String,
    header: Header,
    /// Indices of its tensors in the model's order: data order, unless another one was carried.
    order: Vec<usize>,
    canonical: bool,
    /// Other formats' metadata, if the file carries any.
    carried: Option<Carried>,
}

impl File {
    fn read(source: &dyn Source, file: FileId, name: String, limits: &Limits) -> Result<File> {
        let mut cursor = Cursor::new(source, file, 0, limits)?;
        let header_len = cursor.u64()?;
        if header_len > MAX_HEADER_LEN {
            let message =
                format!("a header of {header_len} bytes exceeds the format's limit of {MAX_HEADER_LEN}");
            return Err(Error::malformed(message).at(0));
        }
        let data_len = cursor.left().checked_sub(header_len).ok_or_else(|| {
            let message =
                format!("a header of {header_len} bytes, but only {} are left in the file", cursor.left());
            Error::malformed(message).at(0).hint("get the file again: it is truncated")
        })?;
        let header = Header::parse(read_text(&mut cursor, header_len)?, limits)?;
        let by_offset = header.by_offset();
        header.check_tiling(&by_offset, data_len)?;
        let metadata = header.metadata().unwrap_or_default();
        let at = metadata.iter().position(|(key, _)| key == carried::KEY);
        // If it does not parse, it is an ordinary key.
        let carried = at.and_then(|at| Carried::parse(&metadata[at].1, limits).ok());
        // The writer puts it last.
        let in_place = at.is_none_or(|at| at + 1 == metadata.len());
        let canonical = in_place && canonical::is_canonical(&header);
        let order = carried.as_ref().and_then(|carried| carried.order(&header)).unwrap_or(by_offset);
        Ok(File { file, name, header, order, canonical, carried })
    }
}

impl OpenModel for File {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let header = &self.header;
        let header_len = header.text().len() as u64;
        sink.foreign_file(FORMAT, &self.name, header.len() as u64)?;
        for (key, text) in header.metadata().unwrap_or_default() {
            if key == carried::KEY {
                match &self.carried {
                    Some(_) => continue,
                    None => sink.fact(Fact::Note(carried::UNREAD))?,
                }
            }
            let carried = self.carried.as_ref().and_then(|c| c.value(key, |value| shown(value) == *text));
            sink.foreign(key, carried.cloned().unwrap_or_else(|| Value::from_string(text)))?;
        }
        if header.metadata().is_some_and(<[_]>::is_empty) {
            // Not a string, so not an entry: it records that the map exists and is empty.
            sink.foreign(METADATA, Value::from_bool(true))?;
        }
        if !self.canonical {
            sink.verbatim(bytes_of(self.file, PREFIX_LEN, header.text()))?;
        }
        let data_start = PREFIX_LEN + header_len;
        for &n in &self.order {
            let entry = header.entry(n);
            let extent = Extent::new(self.file, data_start + entry.begin, entry.end - entry.begin);
            let decl = TensorDecl::plain(entry.name, entry.dtype(), entry.shape, extent);
            sink.tensor(decl).map_err(|e| e.at(header.name_at(n).unwrap_or(extent.offset)))?;
        }
        if let Some(derived) = header.metadata().and_then(stated::stated) {
            sink.fact(Fact::Derived(derived.to_json().as_bytes().into()))?;
        }
        self.carried.as_ref().map_or(Ok(()), |carried| carried.describe(sink))
    }
}

/// The next `len` bytes, which must be below a cap. Reads in pieces, so that each earns the budget for the
/// next: the longest header exceeds the initial budget.
pub fn read_text(cursor: &mut Cursor<'_>, len: u64) -> Result<Vec<u8>> {
    let mut text = cursor.bytes(len.min(LONGEST_PIECE))?;
    text.reserve_exact(usize::try_from(len).unwrap_or_default().saturating_sub(text.len()));
    while (text.len() as u64) < len {
        let left = len - text.len() as u64;
        text.extend_from_slice(&cursor.bytes(left.min(LONGEST_PIECE))?);
    }
    Ok(text)
}

/// Text at `offset` of a file: in memory, or as an extent if it is long.
pub fn bytes_of(file: FileId, offset: u64, text: &str) -> Bytes {
    let len = text.len() as u64;
    if len > Bytes::INLINE_LIMIT { Extent::new(file, offset, len).into() } else { text.into() }
}
