//! The segments of one file.

use crate::compression::{Blocks, LENGTHS, Method};
use crate::index::{self, Entry, IndexPiece, PLACE_LEN, PlannedEntry};
use crate::layout::{ALIGNMENT, Footer, Header, VERSION, flags};
use crate::render::{Piece, Rendered};
use crate::{FORMAT, dtypes::Numbers, holes};
use apr_sdk::{Encoding, Error, LayoutSink, Model, Result};

/// One file of a model.
pub struct FileLayout<'a> {
    /// The whole model.
    pub model: &'a Model,
    /// Indices of the file's tensors.
    pub tensors: &'a [usize],
    /// The compression of each tensor of the model.
    pub methods: &'a [Option<Method>],
    /// True if it is one of several files.
    pub is_shard: bool,
    /// Its number, from 0.
    pub number: u32,
}

/// The data section, tensor by tensor.
#[derive(Default)]
struct Data {
    len: u64,
    /// True from the first compressed tensor on: offsets are known only when all is written.
    floats: bool,
    entries: Vec<PlannedEntry>,
    flags: u32,
}

impl Data {
    /// Adds a tensor whose place is known.
    fn add(&mut self, name: &str, dtype: u8, dims: &[u64], len: u64) -> Result<()> {
        let offset = self.len.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_long)?;
        self.len = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64).ok_or_else(too_long)?;
        self.entries.push(PlannedEntry { entry: Entry::raw(name, dtype, dims, offset, len), floating: None });
        Ok(())
    }
}

impl FileLayout<'_> {
    /// Pushes the file; returns its length, if that is known before it is written.
    ///
    /// # Errors
    /// Unsupported for a file that is too long; any error from the sink.
    pub fn push(&self, metadata: &Rendered, sink: &mut dyn LayoutSink) -> Result<Option<u64>> {
        let mut data = self.data(metadata)?;
        let index_len = index::len_of(&data.entries);
        let header = header(data.flags, metadata.len(), index_len)?;
        sink.inline(&header.to_bytes())?;
        for piece in &metadata.pieces {
            match piece {
                Piece::Text(text) => sink.inline(text.as_bytes())?,
                Piece::InputCrc(input) => sink.hole(holes::INPUT | input, Piece::CRC_LEN as u64)?,
            }
        }
        for piece in index::to_pieces(&mut data.entries)? {
            match piece {
                IndexPiece::Bytes(bytes) => sink.inline(&bytes)?,
                IndexPiece::Place(tensor) => sink.hole(holes::PLACE | tensor, PLACE_LEN)?,
            }
        }
        sink.pad_to(ALIGNMENT)?;
        if data.floats {
            sink.hole(holes::LENGTHS | self.number, self.lengths_len()?)?;
        }
        for (_, bytes) in &metadata.hidden {
            sink.pad_to(ALIGNMENT)?;
            sink.copy(bytes)?;
        }
        for &tensor in self.tensors {
            let encoding = match self.methods[tensor] {
                None => Encoding::Raw,
                Some(method) => Encoding::Encoded {
                    codec: method.codec(None),
                    block_size: crate::compression::BLOCK,
                    lengths: true,
                },
            };
            sink.payload(tensor as u64, ALIGNMENT, encoding)?;
        }
        sink.hole(holes::FOOTER | self.number, Footer::CRC_LEN)?;
        if data.floats {
            sink.inline(&Footer::tail(0)[..4])?;
            sink.hole(holes::FILE_SIZE | self.number, Footer::SIZE_LEN)?;
            return Ok(None);
        }
        let end = u64::from(header.data_offset) + data.len;
        let file_size = end.checked_add(Footer::LEN).ok_or_else(too_long)?;
        sink.inline(&Footer::tail(file_size))?;
        if sink.position().is_some_and(|position| position != file_size) {
            return Err(Error::plugin(format!(
                "the layout of {FORMAT} does not add up to {file_size} bytes"
            )));
        }
        Ok(Some(file_size))
    }

    /// The tensors in the order of their data.
    fn data(&self, metadata: &Rendered) -> Result<Data> {
        let mut data = Data {
            flags: flags::ALIGNED_64 | if self.is_shard { flags::SHARDED } else { 0 },
            ..Data::default()
        };
        let numbers = self.numbers()?;
        let byte = numbers.get("U8").unwrap_or_default();
        let lengths_len = self.lengths_len()?;
        if lengths_len > 0 {
            data.flags |= flags::COMPRESSED;
            // At the start of the data section, which its place tells once it is written.
            data.add(LENGTHS, byte, &[lengths_len], lengths_len)?;
        }
        for (name, bytes) in &metadata.hidden {
            data.add(name, byte, &[bytes.len()], bytes.len())?;
        }
        data.floats = lengths_len > 0;
        for &number in self.tensors {
            let tensor = &self.model.tensors[number];
            let raw_len = tensor.payload_len()?;
            let dtype = numbers.get(tensor.dtype.name());
            let dtype = dtype.ok_or_else(|| Error::plugin("a dtype without a number"))?;
            data.add(&tensor.name, dtype, &tensor.shape, raw_len)?;
            data.flags |= if tensor.dtype.is_block() { flags::QUANTIZED } else { 0 };
            if let Some(planned) = data.entries.last_mut().filter(|_| data.floats) {
                let floating = u32::try_from(number).ok().filter(|n| n & holes::KIND == 0);
                planned.floating = Some(floating.ok_or_else(too_long)?);
                if let Some(method) = self.methods[number] {
                    planned.entry.raw_size = raw_len;
                    planned.entry.flags = method.flags();
                }
            }
        }
        Ok(data)
    }

    fn numbers(&self) -> Result<Numbers> {
        let mut numbers = Numbers::default();
        for &tensor in self.tensors {
            numbers.add(self.model.tensors[tensor].dtype)?;
        }
        Ok(numbers)
    }

    /// Bytes of the table of block lengths: 0 if nothing is compressed.
    fn lengths_len(&self) -> Result<u64> {
        let mut len = 0;
        for &number in self.tensors.iter().filter(|&&number| self.methods[number].is_some()) {
            len += Blocks::table_len(self.model.tensors[number].payload_len()?);
        }
        Ok(len)
    }
}

fn header(flags: u32, metadata_len: u64, index_len: u64) -> Result<Header> {
    let index_offset = Header::LEN as u64 + metadata_len;
    let data_offset = (index_offset + index_len).next_multiple_of(ALIGNMENT);
    let narrow = |offset: u64| {
        u32::try_from(offset).map_err(|_| {
            Error::unsupported(format!(
                "metadata ({metadata_len} bytes) and index ({index_len} bytes) exceed 4 GiB, the limit of \
                 32-bit offsets"
            ))
        })
    };
    Ok(Header {
        version_major: VERSION.0,
        version_minor: VERSION.1,
        flags,
        metadata_offset: narrow(Header::LEN as u64)?,
        metadata_size: narrow(metadata_len)?,
        index_offset: narrow(index_offset)?,
        index_size: narrow(index_len)?,
        data_offset: narrow(data_offset)?,
    })
}

#[cold]
fn too_long() -> Error {
    Error::unsupported("the file would exceed 2^63 bytes")
}
