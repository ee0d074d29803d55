//! The place of bytes: in memory, or in one of the model's files.

use std::sync::Arc;

/// The number of one of the model's files: 0 is the one that was opened, [`crate::Source::sibling`] numbers
/// the rest.
pub type FileId = u32;

/// A byte range in one of the model's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Extent {
    /// The file.
    pub file: FileId,
    /// Absolute offset in that file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// The `len` bytes at `offset` of `file`.
    pub fn new(file: FileId, offset: u64, len: u64) -> Extent {
        Extent { file, offset, len }
    }

    /// One past the last byte, or `None` if that exceeds `u64::MAX`.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// A byte string that is either in memory or still raw in a file, so that opening a model need not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In memory; shared, so clones are cheap.
    Inline(Arc<[u8]>),
    /// Raw in one of the model's files.
    Extent(Extent),
}

impl Bytes {
    /// Readers pass anything longer than this as an [`Extent`] if it lies raw in a file, instead of reading
    /// it.
    pub const INLINE_LIMIT: u64 = 64 * 1024;

    /// Length in bytes, wherever they live.
    pub fn len(&self) -> u64 {
        match self {
            Bytes::Inline(bytes) => bytes.len() as u64,
            Bytes::Extent(extent) => extent.len,
        }
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in memory.
    pub fn inline(&self) -> Option<&[u8]> {
        match self {
            Bytes::Inline(bytes) => Some(bytes),
            Bytes::Extent(_) => None,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::Inline(bytes.into())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::Inline(bytes.into())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes::Inline(text.as_bytes().into())
    }
}

impl From<Extent> for Bytes {
    fn from(extent: Extent) -> Bytes {
        Bytes::Extent(extent)
    }
}
