//! The reader: header, keys, tensor records; for a split file or a folder, the parts.

use crate::header::{Header, version_of};
use crate::index::{self, Data, Info};
use crate::layout::{CARRIED_KEY, MAGIC, VERSION};
use crate::metadata::{self, Key};
use crate::remainder::Remainder;
use crate::split::{self, Place};
use crate::{Gguf, ID, card, carried, tokenizer, types};
use apr_sdk::{
    Bytes, Cursor, Endian, Error, Extent, Fact, FileId, Foreign, Limits, Look, ModelSink, OpenModel, Options,
    PartDecl, Reader, Result, Score, Source, TensorDecl, Value, ValueType,
};

impl Reader for Gguf {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder {
            // Even if there are several models: `open` lists them.
            let any = look.entries.iter().any(|name| split::has_extension(name));
            return if any { Score::STRUCTURE } else { Score::NO };
        }
        match look.u32_le(MAGIC.len()) {
            _ if !look.head_is(&MAGIC) => Score::NO,
            Some(word) if (1..=VERSION).contains(&version_of(word).0) => Score::MAGIC_AND_VERSION,
            _ => Score::MAGIC,
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        if source.is_folder() {
            return open_folder(source, limits, options);
        }
        let mut cursor = Cursor::new(source, 0, 0, limits)?;
        let header = Header::read(&mut cursor)?;
        let keys = metadata::read(&mut cursor, &header)?;
        let name = source.name(0);
        if !options.is_part() {
            let place = Place::from_keys(&cursor, &keys)?;
            if let Some(part) = split::set_of(&name, &place).map_err(|e| cursor.place(e, 0))? {
                let files = split::find(source, limits, &part)?;
                return Ok(Box::new(Parts { files, options: options.clone() }));
            }
        }
        let alignment = metadata::alignment(&cursor, &keys)?;
        let mut infos = index::read(&mut cursor, &header)?;
        let data = index::place(&cursor, &mut infos, alignment)?;
        let name = if options.is_part() { name } else { String::new() };
        let payload_endian = payload_endian(&header, options);
        let mut file = File { header, payload_endian, name, keys, infos, ..File::default() };
        file.take_carried(source, limits)?;
        file.find_remainder(source, limits, &data)?;
        file.note_byte_order();
        Ok(Box::new(file))
    }
}

fn open_folder(source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
    let entries = source.entries()?;
    let name = split::only_model(&entries)?;
    let files = match split::PartName::parse(name).filter(|part| part.count > 1) {
        Some(part) => split::find(source, limits, &part)?,
        None => vec![source.sibling(name)?],
    };
    Ok(Box::new(Parts { files, options: options.clone() }))
}

/// A model of several files, or the one file of a folder.
struct Parts {
    files: Vec<FileId>,
    options: Options,
}

impl OpenModel for Parts {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.fact(Fact::Dialect(ID))?;
        for &file in &self.files {
            sink.part(PartDecl { file, range: None, format: ID, options: self.options.clone() })?;
        }
        Ok(())
    }

    fn tokenizer(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        // Only the first part has it.
        let Some(&file) = self.files.first() else { return Ok(None) };
        let limits = Limits::default();
        let mut cursor = Cursor::new(source, file, 0, &limits)?;
        let header = Header::read(&mut cursor)?;
        let keys = metadata::read(&mut cursor, &header)?;
        let tokenizer =
            tokenizer::read(&keys, source, file, &limits).map_err(|e| e.in_file(source.name(file)))?;
        Ok(tokenizer.map(|tokenizer| tokenizer.to_json()))
    }
}

/// One opened file: a whole model, or a part of a split one.
#[derive(Default)]
struct File {
    header: Header,
    /// The byte order of types that numpy does not have.
    payload_endian: Endian,
    /// The file name, if it is a part.
    name: String,
    keys: Vec<Key>,
    infos: Vec<Info>,
    carried: Vec<Foreign>,
    remainder: Option<Remainder>,
    notes: Vec<String>,
}

/// The byte order of BF16 and blocks. By the specification it is the file's, but gguf-py leaves them
/// little-endian.
fn payload_endian(header: &Header, options: &Options) -> Endian {
    match options.get("be-payload") {
        Some("little") => Endian::Little,
        _ => header.endian,
    }
}

impl File {
    /// Extracts other formats' metadata from the keys. A key of that name with other contents remains a key.
    fn take_carried(&mut self, source: &dyn Source, limits: &Limits) -> Result<()> {
        let Some(at) = self.keys.iter().position(|key| key.name == CARRIED_KEY) else { return Ok(()) };
        let text = string_bytes(&self.keys[at].value, source, limits)?;
        match text.and_then(|text| carried::from_text(&text, limits)) {
            Some(carried) => {
                self.carried = carried;
                self.keys.remove(at);
            }
            None => {
                self.notes.push(format!("the key `{CARRIED_KEY}` was not written by apr and is kept as is"))
            }
        }
        Ok(())
    }

    /// Only what the writer produces, little-endian version 3, can be reproduced byte for byte.
    fn find_remainder(&mut self, source: &dyn Source, limits: &Limits, data: &Data) -> Result<()> {
        if self.header.version != VERSION || self.header.endian == Endian::Big {
            let order = if self.header.endian == Endian::Big { "big-endian " } else { "" };
            let version = self.header.version;
            self.notes.push(format!(
                "{order}file of version {version}: when rewritten as GGUF, it becomes a little-endian file \
                 of version {VERSION}"
            ));
            return Ok(());
        }
        if !data.is_in_order {
            let note = "payloads are out of order or have gaps: rewriting the file keeps their values, but \
                        not its bytes";
            self.notes.push(note.to_owned());
        }
        let has_payload = self.infos.iter().any(|info| info.len > 0);
        let found = Remainder::find(source, limits, data, has_payload)?;
        self.remainder = found.remainder;
        self.notes.extend(found.notes);
        Ok(())
    }

    fn note_byte_order(&mut self) {
        let blocks = |info: &&Info| !types::is_numpy(info.dtype);
        let count = self.infos.iter().filter(blocks).count();
        if self.header.endian == Endian::Little || count == 0 {
            return;
        }
        let (assumed, other) = match self.payload_endian {
            Endian::Big => ("big-endian, according to the specification", "little"),
            Endian::Little => ("little-endian, as written by gguf-py", "big"),
        };
        self.notes.push(format!(
            "big-endian file: the fields of {count} BF16 and block tensors are read as {assumed} (pass `-O \
             gguf.be-payload={other}` to change this)"
        ));
    }

    fn push_tensor(&self, info: &Info, file_len: u64, sink: &mut dyn ModelSink) -> Result<()> {
        let swaps = info.dtype.info().is_some_and(|row| !row.swap.is_empty());
        let endian = match self.header.endian {
            Endian::Big if swaps && types::is_numpy(info.dtype) => Endian::Big,
            Endian::Big if swaps => self.payload_endian,
            _ => Endian::Little,
        };
        // An empty payload may claim to be past the end.
        let offset = if info.len == 0 { info.offset.min(file_len) } else { info.offset };
        let extent = Extent::new(0, offset, info.len);
        sink.tensor(TensorDecl::ordered(&info.name, info.dtype, info.shape(), extent, endian))
    }
}

impl OpenModel for File {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let placed = |error: Error, at: u64| error.at(at).in_file(source.name(0));
        sink.fact(Fact::Dialect(ID))?;
        sink.foreign_file(ID, &self.name, self.infos.len() as u64)?;
        for key in &self.keys {
            sink.foreign(&key.name, key.value.clone()).map_err(|e| placed(e, key.at))?;
        }
        if let Some(remainder) = &self.remainder {
            sink.verbatim(Bytes::from(remainder.to_bytes()))?;
        }
        apr_sdk::carried_metadata::describe_formats(&self.carried, sink)?;
        if let Some(card) = card::read(&self.keys) {
            sink.fact(Fact::ModelCard(Bytes::from(card)))?;
        }
        let file_len = source.len(0)?;
        for info in &self.infos {
            self.push_tensor(info, file_len, sink).map_err(|e| placed(e, info.at))?;
        }
        if self.header.version < VERSION {
            sink.fact(Fact::Older(&format!("GGUF version {}", self.header.version)))?;
        }
        self.notes.iter().try_for_each(|note| sink.fact(Fact::Note(note)))
    }

    fn tokenizer(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        let tokenizer = tokenizer::read(&self.keys, source, 0, &Limits::default());
        Ok(tokenizer.map_err(|e| e.in_file(source.name(0)))?.map(|tokenizer| tokenizer.to_json()))
    }
}

/// The bytes of a string value; `None` for any other type.
fn string_bytes(value: &Value, source: &dyn Source, limits: &Limits) -> Result<Option<Vec<u8>>> {
    match &value.bytes {
        _ if value.kind != ValueType::STRING => Ok(None),
        Bytes::Inline(_) => Ok(value.as_bytes().map(<[u8]>::to_vec)),
        Bytes::Extent(extent) => {
            let mut cursor = Cursor::new(source, extent.file, extent.offset, limits)?;
            let len = cursor.u64()?;
            cursor.bytes(len).map(Some)
        }
    }
}
