//! Opens a file and pushes its contents.

use super::FOREIGN;
use super::blocks::{Q4, Q8};
use super::dtypes::Stored;
use super::index::{self, Entry};
use super::layout::FOOTER_LEN;
use super::sections::{check_end, check_entries, check_order, header};
use crate::keys::Keys;
use crate::reader::{notes, whole_text};
use apr_sdk::{
    BlockAt, BlockSink, Bytes, Checksum, Codec, Cursor, DType, Error, Extent, Fact, FileId, Limits,
    ModelSink, OpenModel, Payload, Result, Source, Sum, TensorDecl, checked_elements,
};
use std::sync::OnceLock;

/// Blocks of AprQ4 that are converted in one call: 18 KiB of the file.
const Q4_BLOCKS: u64 = 1024;
/// Codes of AprQ8 that are converted in one call.
const Q8_CODES: u64 = 16 << 10;

/// The file's version, in words.
const VERSION: &str = "APR with a 64-byte header";

/// An opened file.
#[derive(Debug)]
pub struct File {
    tensors: Vec<Tensor>,
    keys: Keys,
    checksum: Option<Checksum>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Tensor {
    name: String,
    stored: Stored,
    dims: Vec<u64>,
    extent: Extent,
    /// The scale of AprQ8, once it has been read.
    scale: OnceLock<f32>,
}

impl File {
    /// Reads header, metadata and index.
    ///
    /// # Errors
    /// Malformed for sections that overlap, leave the file or contradict one another; Unsupported for what no released
    /// program writes.
    pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<File> {
        let len = source.len(file)?;
        let mut notes = Vec::new();
        let header = header(source, file, len, &mut notes)?;
        check_order(&header, len)?;
        let end = header.metadata_offset + u64::from(header.metadata_size);
        let mut cursor = Cursor::with_end(source, file, header.metadata_offset, end, limits)?;
        let keys = Keys::from_json(&whole_text(&mut cursor, "metadata")?, header.metadata_offset, limits)?;
        if keys.repeated > 0 {
            notes
                .push(format!("{} metadata keys are repeated: the last value of each counts", keys.repeated));
        }
        let mut cursor =
            Cursor::with_end(source, file, header.tensor_index_offset, header.data_offset, limits)?;
        let entries = index::read(&mut cursor, header.tensor_count)?;
        let sorted = check_entries(&entries, &header, &mut notes)?;
        let (end, has_footer) = check_end(&header, &sorted, len, &mut notes)?;
        let stored = Bytes::Extent(Extent::new(file, end, FOOTER_LEN));
        let checksum = Checksum::raw(Extent::new(file, 0, end), stored, Sum::CRC32);
        let tensor = |entry: &Entry| Tensor {
            name: entry.name.clone(),
            stored: entry.stored,
            dims: entry.dims.clone(),
            extent: Extent::new(file, header.data_offset + entry.offset, entry.size),
            scale: OnceLock::new(),
        };
        let tensors = sorted.into_iter().map(tensor).collect();
        Ok(File { tensors, keys, checksum: has_footer.then_some(checksum), notes })
    }

    fn tensor(&self, number: u64) -> Result<&Tensor> {
        let found = usize::try_from(number).ok().and_then(|n| self.tensors.get(n));
        found.ok_or_else(|| Error::plugin(format!("there is no tensor number {number}")))
    }
}

impl Tensor {
    fn dtype(&self) -> DType {
        self.stored.dtype(&self.dims)
    }

    /// Lists runs of `step` codes behind the scale.
    fn list_codes(&self, source: &dyn Source, sink: &mut dyn BlockSink) -> Result<()> {
        let Extent { file, offset, len } = self.extent;
        if len == 0 {
            return Ok(());
        }
        let mut scale = [0; 4];
        source.read_at(file, offset, &mut scale)?;
        let scale = f32::from_le_bytes(scale);
        // The same number, unless the file changed: then the host refuses the result.
        let _ = self.scale.set(scale);
        let end = offset + len;
        let mut at = offset + Q8::SCALE_LEN;
        while at < end {
            let count = (end - at).min(Q8_CODES);
            sink.block(Extent::new(file, at, count), 4 * count)?;
            at += count;
        }
        Ok(())
    }

    fn list_blocks(&self, sink: &mut dyn BlockSink) -> Result<()> {
        let Extent { file, mut offset, .. } = self.extent;
        let mut left = checked_elements(&self.dims)?;
        while left > 0 {
            let elements = left.min(Q4_BLOCKS * Q4::ELEMENTS);
            let stored = elements.div_ceil(Q4::ELEMENTS) * Q4::LEN;
            let raw = if self.dtype() == DType::F32 { 4 * elements } else { stored };
            sink.block(Extent::new(file, offset, stored), raw)?;
            offset += stored;
            left -= elements;
        }
        Ok(())
    }
}

impl OpenModel for File {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        for tensor in &self.tensors {
            let payload = match tensor.stored {
                Stored::Plain(_) => Payload::Extent { extent: tensor.extent, view: None },
                Stored::Q4 | Stored::Q8 => Payload::Blocks { codec: Codec::default() },
            };
            let decl = TensorDecl { name: &tensor.name, dtype: tensor.dtype(), shape: &tensor.dims, payload };
            sink.tensor(decl)?;
        }
        self.keys.push(FOREIGN, self.tensors.len() as u64, sink)?;
        if let Some(checksum) = &self.checksum {
            sink.fact(Fact::Checksum(checksum.clone()))?;
        }
        sink.fact(Fact::Older(VERSION))?;
        notes(sink, &self.notes)
    }

    fn blocks(&self, source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let tensor = self.tensor(tensor)?;
        match tensor.stored {
            Stored::Q8 => tensor.list_codes(source, sink),
            Stored::Q4 => tensor.list_blocks(sink),
            Stored::Plain(_) => Err(Error::plugin("the tensor is not quantized")),
        }
    }

    fn decode(&self, _codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let tensor = self.tensor(at.tensor)?;
        match (tensor.stored, tensor.dtype()) {
            (Stored::Q4, DType::Q4_0) => Q4::rewrite(stored, out),
            (Stored::Q4, _) => Q4::decode(stored, out),
            (Stored::Q8, _) => {
                let scale = tensor.scale.get().ok_or_else(|| Error::plugin("its blocks were not listed"))?;
                Q8::decode(*scale, stored, out)
            }
            (Stored::Plain(_), _) => Err(Error::plugin("the tensor is not quantized")),
        }
    }
}
