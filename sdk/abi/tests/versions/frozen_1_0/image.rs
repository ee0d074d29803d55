//! Matrices, their plain rows, and the host's memory for their images.

use super::{DTypeNumber, R};
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RBox, RSlice, RSliceMut, RString, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// `apr_sdk::MatrixSpec`, which checks these numbers again on either side.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireMatrix {
    /// The number of rows.
    pub rows: u64,
    /// The number of columns.
    pub columns: u64,
    /// The type of its elements.
    pub dtype: DTypeNumber,
    /// Zero.
    pub padding: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::ImageSpec`.
#[repr(C)]
#[derive(StableAbi)]
pub struct WireImage {
    /// The id of the layout.
    pub layout: RString,
    /// Its length in bytes.
    pub bytes: u64,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RVec<u8>,
}

/// `apr_sdk::Rows`, implemented by the host.
#[sabi_trait]
pub trait WirePlainRows: Send + Sync {
    /// Fills `out` with the rows from `first` on.
    #[sabi(last_prefix_field)]
    fn read(&self, first: u64, out: RSliceMut<'_, u8>) -> R<()>;
}

/// Borrowed plain rows.
pub type PlainRowsRef<'a> = WirePlainRows_TO<'a, RRef<'a, ()>>;

/// `apr_sdk::RowsSink`, implemented by the host.
#[sabi_trait]
pub trait WireRowsSink {
    /// Takes the next rows.
    #[sabi(last_prefix_field)]
    fn rows(&mut self, bytes: RSlice<'_, u8>) -> R<()>;
}

/// A borrowed sink of plain rows.
pub type RowsSinkMut<'a> = WireRowsSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::ImageMemory`, implemented by the host and dropped by the plugin.
#[sabi_trait]
pub trait WireImageMemory: Send + Sync {
    /// Its bytes, aligned to 64.
    fn bytes(&self) -> RSlice<'_, u8>;
    /// Its bytes, to be written.
    #[sabi(last_prefix_field)]
    fn bytes_mut(&mut self) -> R<RSliceMut<'_, u8>>;
}

/// The host's memory for an image, in the hands of a plugin.
pub type ImageMemoryObject = WireImageMemory_TO<'static, RBox<()>>;

/// `apr_sdk::ImageSink`, implemented by the host.
#[sabi_trait]
pub trait WireImageSink {
    /// Memory of `bytes` bytes.
    #[sabi(last_prefix_field)]
    fn memory(&mut self, bytes: u64) -> R<ImageMemoryObject>;
}

/// A borrowed image sink.
pub type ImageSinkMut<'a> = WireImageSink_TO<'a, RMut<'a, ()>>;
