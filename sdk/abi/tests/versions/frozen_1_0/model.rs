//! A model on the wire: pushed piece by piece into a sink, by a reader into the host's, by the host into a writer's.

use super::{ByteOrder, CodingNumber, DTypeNumber, DigestNumber, FactNumber, FormNumber, PayloadNumber, R};
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RSlice, RStr};
use abi_stable::{StableAbi, sabi_trait};

/// A run of bytes in a file.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireExtent {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
    /// The file.
    pub file: u32,
    /// Zero.
    pub padding: u32,
}

/// Bytes that are held, or lie in a file.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireBytes<'a> {
    /// The bytes, if they are held.
    pub held: RSlice<'a, u8>,
    /// Where they begin otherwise.
    pub offset: u64,
    /// How many lie there.
    pub len: u64,
    /// In which file.
    pub file: u32,
    /// 1 if they are held, 0 if they lie in a file.
    pub is_held: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// A tensor.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireTensor<'a> {
    /// Its name.
    pub name: RStr<'a>,
    /// Its dimensions, outermost first.
    pub shape: RSlice<'a, u64>,
    /// The view's strides.
    pub strides: RSlice<'a, u64>,
    /// What the compression method is told, as pairs.
    pub options: RSlice<'a, u8>,
    /// The view's start.
    pub start: u64,
    /// The extent's offset.
    pub offset: u64,
    /// The extent's length.
    pub len: u64,
    /// The extent's file.
    pub file: u32,
    /// The element type.
    pub dtype: DTypeNumber,
    /// Where the payload is.
    pub payload: PayloadNumber,
    /// Whether the extent has a view.
    pub order: ByteOrder,
    /// The compression method of blocks.
    pub codec: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// A model inside a model.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WirePart<'a> {
    /// The format's id.
    pub format: RStr<'a>,
    /// Options for its reader, as pairs.
    pub options: RSlice<'a, u8>,
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is there.
    pub len: u64,
    /// The file.
    pub file: u32,
    /// 1 if it is a range, 0 if it is the whole file.
    pub has_range: u32,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::ModelSink`.
#[sabi_trait]
pub trait WireModelSink {
    /// A tensor.
    fn tensor(&mut self, tensor: WireTensor<'_>) -> R<()>;
    /// Begins the record of a file.
    fn foreign_file(&mut self, format: RStr<'_>, name: RStr<'_>, n_tensors: u64) -> R<()>;
    /// A typed key.
    fn foreign(&mut self, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()>;
    /// The verbatim form.
    fn verbatim(&mut self, bytes: WireBytes<'_>) -> R<()>;
    /// A companion file.
    fn asset(&mut self, name: RStr<'_>, bytes: WireBytes<'_>) -> R<()>;
    /// A part.
    fn part(&mut self, part: WirePart<'_>) -> R<()>;
    /// A tensor that must be in a part.
    fn mapped(&mut self, part: u32, name: RStr<'_>) -> R<()>;
    /// A digest that a file holds, and what it covers; `tensor` is 0 but for streamed bytes.
    fn checksum(
        &mut self,
        covers: WireExtent,
        stored: WireBytes<'_>,
        digest: DigestNumber,
        form: FormNumber,
        coding: CodingNumber,
        tensor: u64,
    ) -> R<()>;
    /// Something else.
    #[sabi(last_prefix_field)]
    fn fact(&mut self, fact: FactNumber, text: RStr<'_>, bytes: WireBytes<'_>) -> R<()>;
}

/// A lent model sink.
pub type ModelSinkMut<'a> = WireModelSink_TO<'a, RMut<'a, ()>>;

/// The host's model, lent to a writer.
#[sabi_trait]
pub trait WireModel {
    /// Pushes everything into `sink`.
    #[sabi(last_prefix_field)]
    fn push(&self, sink: &mut ModelSinkMut<'_>) -> R<()>;
}

/// A lent model.
pub type ModelRef<'a> = WireModel_TO<'a, RRef<'a, ()>>;

/// `apr_sdk::BlockSink`.
#[sabi_trait]
pub trait WireBlockSink {
    /// A compressed block.
    #[sabi(last_prefix_field)]
    fn block(&mut self, file: u32, offset: u64, len: u64, raw_len: u64) -> R<()>;
}

/// A lent block sink.
pub type BlockSinkMut<'a> = WireBlockSink_TO<'a, RMut<'a, ()>>;
