//! Opens a file and pushes its contents.

use super::FOREIGN;
use super::compression::Compression;
use super::frames::Frames;
use super::layout::{Header, MAX_UNCOMPRESSED, SIGNATURE_LEN, SUM_LEN, VERSION, flags, model_type};
use super::message_pack;
use super::models::{self, Content};
use crate::keys::Keys;
use crate::reader::notes;
use apr_sdk::{
    BlockAt, BlockSink, Bytes, Checksum, Codec, Cursor, DType, Error, Extent, Fact, FileId, Limits,
    MemorySource, ModelSink, OpenModel, Payload, Result, Source, Stream, Sum, TensorDecl,
};
use std::sync::Arc;

/// The most bytes of a compressed payload that are decoded when the file is opened, to find its tensors.
const MOST_DECODED: u64 = 16 << 20;
/// The tensor of a payload that is not understood.
const PAYLOAD: &str = "payload";
/// The file's version, in words.
const OLDER: &str = "APR version 1";

/// An opened file.
pub struct File {
    name: String,
    keys: Keys,
    payload: Content,
    place: Place,
    checksum: Checksum,
    notes: Vec<String>,
}

/// The place of the tensors' elements.
enum Place {
    /// The file itself.
    Stored,
    /// The decoded payload, which is held.
    Held(Arc<MemorySource>),
    /// The payload in the file, all of which is one tensor.
    Compressed(Compression),
}

/// The sections of a file behind its header.
struct Sections {
    header: Header,
    compression: Compression,
    metadata: Extent,
    payload: Extent,
    /// Offset of the checksum.
    sum_at: u64,
}

impl Sections {
    /// Reads the header of file number `file`, which begins with the magic.
    ///
    /// # Errors
    /// Malformed if it is truncated or contradicts itself; Unsupported for another version, encryption, and an unknown
    /// model type or compression; LimitExceeded for a payload above 1 GiB.
    fn read(source: &dyn Source, file: FileId, notes: &mut Vec<String>) -> Result<Sections> {
        let len = source.len(file)?;
        if len < Header::LEN as u64 {
            let message = format!("the file has {len} bytes, but its header requires {}", Header::LEN);
            return Err(Error::malformed(message).at(len).hint("get the file again: it is truncated"));
        }
        let mut bytes = [0; Header::LEN];
        source.read_at(file, 0, &mut bytes)?;
        let header = Header::from_bytes(&bytes);
        let compression = check(&header)?;
        let metadata = Extent::new(file, Header::LEN as u64, header.metadata_size.into());
        let payload = Extent::new(file, metadata.offset + metadata.len, header.payload_size.into());
        let mut end = payload.offset + payload.len;
        if header.flags & flags::SIGNED != 0 {
            end += SIGNATURE_LEN;
            notes.push("the file is signed; its signature was not checked".to_owned());
        }
        let need = end + SUM_LEN;
        if need > len {
            let message = format!(
                "the file is truncated by {} bytes: it has {len}, but its header requires {need}",
                need - len
            );
            return Err(Error::malformed(message).at(len).hint("get the file again"));
        }
        if need < len {
            notes.push(format!("{} bytes between payload and checksum were ignored", len - need));
        }
        Ok(Sections { header, compression, metadata, payload, sum_at: len - SUM_LEN })
    }
}

/// Checks what the header says of itself.
fn check(header: &Header) -> Result<Compression> {
    let (major, minor) = header.version;
    if major != VERSION {
        let message = format!("version {major}.{minor} of an `APRN` file is not supported, only 1.x");
        return Err(Error::unsupported(message).code("E003").at(4));
    }
    if header.flags & flags::ENCRYPTED != 0 {
        let error =
            Error::unsupported("the payload is encrypted, which is not implemented").code("E003").at(21);
        return Err(error.hint("decrypt it with the program that created it"));
    }
    if model_type(header.model_type).is_none() {
        let message = format!("model type {:#06x} is not defined", header.model_type);
        return Err(Error::unsupported(message).code("E003").at(6));
    }
    if header.uncompressed_size > MAX_UNCOMPRESSED {
        let message = format!(
            "the payload has {} uncompressed bytes, more than the format's limit of {MAX_UNCOMPRESSED}",
            header.uncompressed_size
        );
        return Err(Error::limit(message).at(16));
    }
    let compression = Compression::from_number(header.compression).map_err(|e| e.at(20))?;
    compression.check(header.payload_size.into(), header.uncompressed_size.into()).map_err(|e| e.at(16))?;
    Ok(compression)
}

impl File {
    /// Reads header and metadata; of a compressed payload whose type is known, also the payload.
    ///
    /// # Errors
    /// Malformed, Unsupported or LimitExceeded, with the place.
    pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<File> {
        let mut notes = Vec::new();
        let sections = Sections::read(source, file, &mut notes)?;
        let Sections { header, compression, metadata, payload, sum_at } = sections;
        let name = model_type(header.model_type).unwrap_or_default();
        let mut keys = Keys::default();
        keys.add("header.model_type".to_owned(), apr_sdk::Value::from_string(name), limits)?;
        keys.add("header.quality_score".to_owned(), apr_sdk::Value::from_u8(header.quality_score), limits)?;
        let end = metadata.offset + metadata.len;
        let mut cursor = Cursor::with_end(source, file, metadata.offset, end, limits)?;
        let bytes = cursor.bytes(metadata.len)?;
        // The longest notation of a byte is that of a control character: `\u0001`.
        limits.budget.charge(6 * metadata.len).map_err(|e| e.at(metadata.offset))?;
        message_pack::read(&bytes, metadata.offset, limits, &mut keys)?;
        let raw_len = u64::from(header.uncompressed_size);
        let (content, place) = understood(source, limits, &sections, name)?.unwrap_or_else(|| {
            notes.push(format!(
                "the payload is a serialized value of a type that the file does not describe ({name}): it is \
                 read as bytes, the tensor `{PAYLOAD}`"
            ));
            let field =
                models::Field { name: PAYLOAD, dtype: DType::U8, dims: vec![raw_len], extent: payload };
            let place = match compression {
                Compression::None => Place::Stored,
                other => Place::Compressed(other),
            };
            (Content { tensors: vec![field], keys: Vec::new() }, place)
        });
        for (key, value) in &content.keys {
            keys.add(format!("model.{key}"), value.clone(), limits)?;
        }
        let stored = Bytes::Extent(Extent::new(file, sum_at, SUM_LEN));
        let checksum = Checksum::raw(Extent::new(file, 0, sum_at), stored, Sum::CRC32);
        Ok(File { name: source.name(file), keys, payload: content, place, checksum, notes })
    }

    fn field(&self, number: u64) -> Result<&models::Field> {
        let found = usize::try_from(number).ok().and_then(|n| self.payload.tensors.get(n));
        found.ok_or_else(|| Error::plugin(format!("there is no tensor number {number}")))
    }
}

/// The payload as a value of its model type; `None` if it is not understood.
fn understood(
    source: &dyn Source,
    limits: &Limits,
    sections: &Sections,
    model_type: &str,
) -> Result<Option<(Content, Place)>> {
    let Sections { header, compression, payload, .. } = sections;
    let raw_len = u64::from(header.uncompressed_size);
    if !models::is_known(model_type) || raw_len > MOST_DECODED {
        return Ok(None);
    }
    if *compression == Compression::None {
        let end = payload.offset + payload.len;
        let mut cursor = Cursor::with_end(source, payload.file, payload.offset, end, limits)?;
        let content = models::read(model_type, &mut cursor)?;
        return Ok(content.map(|mut content| {
            content.tensors.iter_mut().for_each(|field| field.extent.file = payload.file);
            (content, Place::Stored)
        }));
    }
    limits.budget.charge(raw_len).map_err(|e| e.at(payload.offset))?;
    let end = payload.offset + payload.len;
    let stored = Cursor::with_end(source, payload.file, payload.offset, end, limits)?.bytes(payload.len)?;
    let mut raw = vec![0; usize::try_from(raw_len).unwrap_or_default()];
    compression.decode(&stored, &mut raw).map_err(|e| e.at(payload.offset))?;
    let held = MemorySource::new(source.name(payload.file), raw);
    let content = models::read(model_type, &mut Cursor::new(&held, 0, 0, limits)?)?;
    Ok(content.map(|content| (content, Place::Held(Arc::new(held)))))
}

impl OpenModel for File {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        for field in &self.payload.tensors {
            let payload = match &self.place {
                Place::Stored => Payload::Extent { extent: field.extent, view: None },
                Place::Held(_) | Place::Compressed(Compression::Zstd) => Payload::Sequential,
                Place::Compressed(_) => Payload::Blocks { codec: Codec::default() },
            };
            sink.tensor(TensorDecl { name: field.name, dtype: field.dtype, shape: &field.dims, payload })?;
        }
        self.keys.push(FOREIGN, self.payload.tensors.len() as u64, sink)?;
        sink.fact(Fact::Checksum(self.checksum.clone()))?;
        sink.fact(Fact::Older(OLDER))?;
        notes(sink, &self.notes)
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        let field = self.field(tensor)?;
        match &self.place {
            Place::Held(held) => {
                let Extent { offset, len, .. } = field.extent;
                Ok(Box::new(Elements { held: Arc::clone(held), at: offset, end: offset + len }))
            }
            Place::Compressed(Compression::Zstd) => {
                Ok(Box::new(Frames::new(field.extent, field.dims.first().copied().unwrap_or_default())))
            }
            _ => Err(Error::plugin("the tensor is not a stream")),
        }
    }

    fn blocks(&self, _source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let field = self.field(tensor)?;
        match (&self.place, field.dims.first()) {
            (Place::Compressed(_), Some(0)) => Ok(()),
            (Place::Compressed(_), Some(&raw_len)) => sink.block(field.extent, raw_len),
            _ => Err(Error::plugin("the tensor is not compressed")),
        }
    }

    fn decode(&self, _codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let place = self.field(at.tensor)?.extent.offset;
        match &self.place {
            Place::Compressed(compression) => {
                compression.decode(stored, out).map_err(|e| e.at(place).in_file(&self.name))
            }
            _ => Err(Error::plugin("the tensor is not compressed")),
        }
    }
}

/// The elements of a tensor in a payload that is held.
struct Elements {
    held: Arc<MemorySource>,
    at: u64,
    end: u64,
}

impl Stream for Elements {
    fn read(&mut self, _source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(out.len());
        self.held.read_at(0, self.at, &mut out[..len])?;
        self.at += len as u64;
        Ok(len)
    }
}
