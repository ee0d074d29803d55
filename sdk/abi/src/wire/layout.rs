//! A layout on the wire: segments and patches pushed into the host's sinks, and what was written.

use super::{DigestNumber, EncodingNumber, FormNumber, R, WireBytes};
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RSlice, RStr, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// Bytes that the host hands over, or the extent they lie in.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct WireOwnedBytes {
    /// The bytes, if they are held.
    pub held: RVec<u8>,
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

/// `apr_sdk::PartRequest`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WirePartRequest<'a> {
    /// The base name of its files.
    pub stem: RStr<'a>,
    /// The format's id.
    pub format: RStr<'a>,
    /// The numbers of its tensors.
    pub tensors: RSlice<'a, u64>,
    /// Options for its writer, as pairs.
    pub options: RSlice<'a, u8>,
    /// 1 for all tensors, 0 for those of the list.
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
    /// What the method is told, as pairs.
    pub options: RSlice<'a, u8>,
    /// Raw bytes of a block.
    pub block_size: u64,
    /// Raw, or encoded.
    pub kind: EncodingNumber,
    /// The method.
    pub codec: u32,
    /// 1 if the lengths of the blocks are asked for.
    pub lengths: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// A digest that was asked for, as it is stated.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireDigest<'a> {
    /// The bytes.
    pub stated: RSlice<'a, u8>,
    /// Which digest it is.
    pub digest: DigestNumber,
    /// Its form.
    pub form: FormNumber,
}

/// `apr_sdk::LayoutSink`, implemented by the host.
#[sabi_trait]
pub trait WireLayoutSink {
    /// Begins a file.
    fn file(&mut self, name: RStr<'_>) -> R<()>;
    /// Marks the entry.
    fn entry(&mut self) -> R<()>;
    /// Bytes as they are.
    fn inline(&mut self, bytes: RSlice<'_, u8>) -> R<()>;
    /// Bytes of the model.
    fn copy(&mut self, bytes: WireBytes<'_>) -> R<()>;
    /// A payload.
    fn payload(&mut self, tensor: u64, align: u64, encoding: WireEncoding<'_>) -> R<()>;
    /// Zeros.
    fn pad_to(&mut self, n: u64) -> R<()>;
    /// A hole.
    fn hole(&mut self, id: u32, len: u64) -> R<()>;
    /// A part.
    fn part(&mut self, part: WirePartRequest<'_>) -> R<()>;
    /// A digest.
    fn digest(&mut self, digest: DigestNumber, form: FormNumber) -> R<()>;
    /// Where the next segment begins.
    fn position(&self) -> ROption<u64>;
    /// Reads bytes of the model.
    fn fetch(&mut self, bytes: WireBytes<'_>) -> R<WireOwnedBytes>;
    /// Says something.
    fn note(&mut self, note: RStr<'_>);
    /// Warns.
    #[sabi(last_prefix_field)]
    fn warn(&mut self, warning: RStr<'_>);
}

/// A lent layout sink.
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
    /// Appends to a file.
    #[sabi(last_prefix_field)]
    fn append(&mut self, file: u32, bytes: RSlice<'_, u8>) -> R<()>;
}

/// A lent patch sink.
pub type PatchSinkMut<'a> = WirePatchSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::Written`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWritten<'a> {
    /// The files.
    pub files: RSlice<'a, WireWrittenFile<'a>>,
    /// The tensors.
    pub tensors: RSlice<'a, WireWrittenTensor<'a>>,
    /// The inputs.
    pub inputs: RSlice<'a, WireWrittenInput<'a>>,
    /// The holes.
    pub holes: RSlice<'a, WireWrittenHole>,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenFile`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenFile<'a> {
    /// Its name.
    pub name: RStr<'a>,
    /// Its length.
    pub len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::WrittenTensor`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenTensor<'a> {
    /// Digests of its raw bytes.
    pub digests: RSlice<'a, WireDigest<'a>>,
    /// The bytes that each block became, if they were asked for.
    pub blocks: RSlice<'a, u64>,
    /// Its offset.
    pub offset: u64,
    /// Its bytes in the file.
    pub stored_len: u64,
    /// Its raw bytes.
    pub raw_len: u64,
    /// Its file.
    pub file: u32,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenInput`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenInput<'a> {
    /// Digests of its payload.
    pub digests: RSlice<'a, WireDigest<'a>>,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::WrittenHole`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireWrittenHole {
    /// Its offset.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// Its number.
    pub id: u32,
    /// Its file.
    pub file: u32,
    /// Zero.
    pub reserved: [u64; 2],
}
