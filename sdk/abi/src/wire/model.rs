//! Models on the wire: pushed piece by piece into a sink, by a reader to the host or by the host to a writer.

use super::{ByteOrder, CodingNumber, DTypeNumber, DigestNumber, FactNumber, FormNumber, PayloadNumber, R};
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RSlice, RStr};
use abi_stable::{StableAbi, sabi_trait};

/// A byte range in a file.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireExtent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The number of the file.
    pub file: u32,
    /// Zero.
    pub padding: u32,
}

/// Bytes in memory or in a file.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireBytes<'a> {
    /// The bytes, if they are in memory.
    pub held: RSlice<'a, u8>,
    /// Otherwise their offset in the file.
    pub offset: u64,
    /// Otherwise their length.
    pub len: u64,
    /// Otherwise the number of their file.
    pub file: u32,
    /// 1 if they are in memory, 0 if they are in a file.
    pub is_held: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::TensorDecl`, with its payload spread over the fields.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireTensor<'a> {
    /// Unique in the model.
    pub name: RStr<'a>,
    /// Dimensions, outermost first.
    pub shape: RSlice<'a, u64>,
    /// The view's strides, in elements; empty for row-major order.
    pub strides: RSlice<'a, u64>,
    /// The options of the compression method, as pairs.
    pub options: RSlice<'a, u8>,
    /// The view's start, in elements.
    pub start: u64,
    /// The extent's offset, in bytes.
    pub offset: u64,
    /// The extent's length, in bytes.
    pub len: u64,
    /// The number of the extent's file.
    pub file: u32,
    /// The element type.
    pub dtype: DTypeNumber,
    /// The kind of payload.
    pub payload: PayloadNumber,
    /// Byte order of the extent's view, if it has one.
    pub order: ByteOrder,
    /// The number of the blocks' compression method.
    pub codec: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::PartDecl`: a model inside a model.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WirePart<'a> {
    /// The id of the format that reads it.
    pub format: RStr<'a>,
    /// Options for that format's reader, as pairs.
    pub options: RSlice<'a, u8>,
    /// Offset of the range in the file.
    pub offset: u64,
    /// Length of the range.
    pub len: u64,
    /// The number of the file.
    pub file: u32,
    /// 1 for a range, 0 for the whole file.
    pub has_range: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::ModelSink`.
#[sabi_trait]
pub trait WireModelSink {
    /// Adds a tensor.
    fn tensor(&mut self, tensor: WireTensor<'_>) -> R<()>;
    /// Begins the record of a file.
    fn foreign_file(&mut self, format: RStr<'_>, name: RStr<'_>, n_tensors: u64) -> R<()>;
    /// Adds a typed key to the current file record.
    fn foreign(&mut self, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()>;
    /// Sets the verbatim form of the current file record.
    fn verbatim(&mut self, bytes: WireBytes<'_>) -> R<()>;
    /// Adds a companion file.
    fn asset(&mut self, name: RStr<'_>, bytes: WireBytes<'_>) -> R<()>;
    /// Adds a model inside this one.
    fn part(&mut self, part: WirePart<'_>) -> R<()>;
    /// Declares that a tensor must be in a part.
    fn mapped(&mut self, part: u32, name: RStr<'_>) -> R<()>;
    /// Adds a stored checksum and what it covers; `tensor` is 0 except for streamed bytes.
    fn checksum(
        &mut self,
        covers: WireExtent,
        stored: WireBytes<'_>,
        digest: DigestNumber,
        form: FormNumber,
        coding: CodingNumber,
        tensor: u64,
    ) -> R<()>;
    /// Adds another fact; text and bytes are used as the fact requires.
    #[sabi(last_prefix_field)]
    fn fact(&mut self, fact: FactNumber, text: RStr<'_>, bytes: WireBytes<'_>) -> R<()>;
}

/// A borrowed model sink.
pub type ModelSinkMut<'a> = WireModelSink_TO<'a, RMut<'a, ()>>;

/// The host's model, lent to a writer.
#[sabi_trait]
pub trait WireModel {
    /// Pushes the whole model into `sink`.
    #[sabi(last_prefix_field)]
    fn push(&self, sink: &mut ModelSinkMut<'_>) -> R<()>;
}

/// A borrowed model.
pub type ModelRef<'a> = WireModel_TO<'a, RRef<'a, ()>>;

/// `apr_sdk::BlockSink`.
#[sabi_trait]
pub trait WireBlockSink {
    /// Adds a compressed block.
    #[sabi(last_prefix_field)]
    fn block(&mut self, file: u32, offset: u64, len: u64, raw_len: u64) -> R<()>;
}

/// A borrowed block sink.
pub type BlockSinkMut<'a> = WireBlockSink_TO<'a, RMut<'a, ()>>;
