//! Layouts on the wire: segments and patches pushed into the host's sinks, and what was written.

use super::{DigestNumber, EncodingNumber, FormNumber, R, WireBytes};
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RSlice, RStr, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// Bytes that the host hands over, or the extent where they are.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct WireOwnedBytes {
    /// The bytes, if they are in memory.
    pub held: RVec<u8>,
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

/// `apr_sdk::Codec`, owned.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct WireOwnedCodec {
    /// The method's options, as pairs.
    pub options: RVec<u8>,
    /// The number of the method.
    pub number: u32,
    /// Zero.
    pub padding: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::PartRequest`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WirePartRequest<'a> {
    /// The base name of the part's files.
    pub stem: RStr<'a>,
    /// The id of the format that writes it.
    pub format: RStr<'a>,
    /// The numbers of the tensors it holds.
    pub tensors: RSlice<'a, u64>,
    /// Options for its writer, as pairs.
    pub options: RSlice<'a, u8>,
    /// 1 for all tensors, 0 for those listed.
    pub all_tensors: u32,
    /// Zero.
    pub padding: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::Encoding`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireEncoding<'a> {
    /// The method's options, as pairs.
    pub options: RSlice<'a, u8>,
    /// Raw bytes per block.
    pub block_size: u64,
    /// Raw or encoded.
    pub kind: EncodingNumber,
    /// The number of the compression method.
    pub codec: u32,
    /// 1 if the encoded lengths of the blocks are requested.
    pub lengths: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// A requested digest with its value.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireDigest<'a> {
    /// The value, in its form.
    pub stated: RSlice<'a, u8>,
    /// The digest algorithm.
    pub digest: DigestNumber,
    /// Notation of the value.
    pub form: FormNumber,
}

/// `apr_sdk::LayoutSink`, implemented by the host.
#[sabi_trait]
pub trait WireLayoutSink {
    /// Begins a file, named relative to the output folder.
    fn file(&mut self, name: RStr<'_>) -> R<()>;
    /// Marks the current file as the entry.
    fn entry(&mut self) -> R<()>;
    /// Adds bytes as they are.
    fn inline(&mut self, bytes: RSlice<'_, u8>) -> R<()>;
    /// Adds bytes of the model.
    fn copy(&mut self, bytes: WireBytes<'_>) -> R<()>;
    /// Adds the payload of a tensor, aligned to `align`.
    fn payload(&mut self, tensor: u64, align: u64, encoding: WireEncoding<'_>) -> R<()>;
    /// Adds zeros up to the next multiple of `n`.
    fn pad_to(&mut self, n: u64) -> R<()>;
    /// Reserves bytes to be filled by a patch.
    fn hole(&mut self, id: u32, len: u64) -> R<()>;
    /// Adds a model of another format.
    fn part(&mut self, part: WirePartRequest<'_>) -> R<()>;
    /// Requests a digest of every payload.
    fn digest(&mut self, digest: DigestNumber, form: FormNumber) -> R<()>;
    /// Offset at which the next segment begins.
    fn position(&self) -> ROption<u64>;
    /// Reads bytes of the model.
    fn fetch(&mut self, bytes: WireBytes<'_>) -> R<WireOwnedBytes>;
    /// Computes bytes of a tensor's payload, if the host can tell them.
    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> R<ROption<RVec<u8>>>;
    /// The compression of a tensor in a source of the same format.
    fn source_codec(&mut self, tensor: u64) -> R<ROption<WireOwnedCodec>>;
    /// Adds a line to the summary.
    fn note(&mut self, note: RStr<'_>);
    /// Warns that the output differs from the model.
    #[sabi(last_prefix_field)]
    fn warn(&mut self, warning: RStr<'_>);
}

/// A borrowed layout sink.
pub type LayoutSinkMut<'a> = WireLayoutSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::PatchSink`, implemented by the host.
#[sabi_trait]
pub trait WirePatchSink {
    /// Fills a hole with bytes.
    fn fill(&mut self, id: u32, bytes: RSlice<'_, u8>) -> R<()>;
    /// Fills a hole with the digest of a range of a file.
    fn fill_digest(
        &mut self,
        id: u32,
        file: u32,
        start: u64,
        end: u64,
        digest: DigestNumber,
        form: FormNumber,
    ) -> R<()>;
    /// Appends bytes to a file.
    #[sabi(last_prefix_field)]
    fn append(&mut self, file: u32, bytes: RSlice<'_, u8>) -> R<()>;
}

/// A borrowed patch sink.
pub type PatchSinkMut<'a> = WirePatchSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::Written`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWritten<'a> {
    /// The files, in layout order.
    pub files: RSlice<'a, WireWrittenFile<'a>>,
    /// The tensors, in the model's order.
    pub tensors: RSlice<'a, WireWrittenTensor<'a>>,
    /// The inputs, in order.
    pub inputs: RSlice<'a, WireWrittenInput<'a>>,
    /// The holes, in layout order.
    pub holes: RSlice<'a, WireWrittenHole>,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenFile`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenFile<'a> {
    /// Path relative to the output folder.
    pub name: RStr<'a>,
    /// Length in bytes.
    pub len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::WrittenTensor`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenTensor<'a> {
    /// The requested digests of the raw payload.
    pub digests: RSlice<'a, WireDigest<'a>>,
    /// The encoded length of each block, if requested.
    pub blocks: RSlice<'a, u64>,
    /// Offset in its file, in bytes.
    pub offset: u64,
    /// Length as stored, in bytes.
    pub stored_len: u64,
    /// Length of the raw payload, in bytes.
    pub raw_len: u64,
    /// The number of its file.
    pub file: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenInput`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenInput<'a> {
    /// The requested digests of its payload.
    pub digests: RSlice<'a, WireDigest<'a>>,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenHole`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenHole {
    /// Offset in its file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The hole's id, as the writer chose it.
    pub id: u32,
    /// The number of its file.
    pub file: u32,
    /// Zero.
    pub reserved: [u64; 2],
}
