//! Stored bytes, unchanged: in a byte range of a file, in compressed blocks, or in a stream. A strided view
//! is a `Region` of the byte range that contains it.

use super::Expression;
use super::unpack::packed_weights::Packed;
use apr_sdk::{Codec, DType, DTypeInfo, Endian, Extent, Packing, Result};
use std::hash::{Hash, Hasher};

/// Stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Index of the source's tensor; `None` for other bytes of the source.
    pub tensor: Option<usize>,
    /// The type of the elements.
    pub dtype: DType,
    /// Length in bytes.
    pub len: u64,
    /// Storage of the bytes.
    pub storage: Storage,
}

/// Storage of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a byte range of a file.
    Extent {
        /// The byte range.
        extent: Extent,
        /// The byte order of multi-byte fields.
        endian: Endian,
    },
    /// In compressed blocks.
    Blocks(Box<Codec>),
    /// In a stream that is read from start to end.
    Sequential,
    /// In the parts of a packed weight, whose rows are computed.
    Packed(Packed),
}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.tensor, self.dtype, self.len).hash(state);
        match &self.storage {
            Storage::Extent { extent, endian } => (0u8, extent, *endian == Endian::Big).hash(state),
            Storage::Blocks(codec) => {
                (1u8, codec.number).hash(state);
                codec.options.iter().for_each(|option| option.hash(state));
            }
            Storage::Sequential => state.write_u8(2),
            Storage::Packed(packed) => (3u8, packed).hash(state),
        }
    }
}

/// The unit in which elements are moved: an element, a block for block types, or a byte for packed types.
/// `block_bytes` of the table row is its size.
///
/// # Errors
/// Unsupported for a dtype that is not in the table.
pub fn unit(dtype: DType) -> Result<&'static DTypeInfo> {
    let info = dtype.require()?;
    if info.packing == Packing::Flat { DType::U8.require() } else { Ok(info) }
}

impl Source {
    /// Bytes of the source's files that belong to no tensor.
    pub fn bytes(extent: Extent) -> Expression {
        let storage = Storage::Extent { extent, endian: Endian::Little };
        Expression::Source(Source { tensor: None, dtype: DType::U8, len: extent.len, storage })
    }
}
