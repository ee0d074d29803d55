//! The reader roles: reader, open model, stream.

use super::{BlockSinkMut, ModelSinkMut, R, ScoreNumber, SourceRef};
use abi_stable::std_types::{RBox, RSlice, RSliceMut, RStr, RString, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// `apr_sdk::Look`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireLook<'a> {
    /// The file's or folder's name.
    pub name: RStr<'a>,
    /// The first bytes.
    pub head: RSlice<'a, u8>,
    /// The last bytes.
    pub tail: RSlice<'a, u8>,
    /// The names in the folder, or beside the file.
    pub entries: RSlice<'a, RStr<'a>>,
    /// The file's length in bytes.
    pub len: u64,
    /// True if it is a folder.
    pub is_folder: bool,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Limits` as numbers. The plugin works on a budget of `budget_left` and reports what remains of
/// it.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireLimits<'a> {
    /// Tensors per model.
    pub tensors: u64,
    /// Dimensions per tensor.
    pub dims: u64,
    /// Bytes in a tensor name or metadata key.
    pub name_bytes: u64,
    /// Metadata keys per file.
    pub metadata_keys: u64,
    /// Nesting of metadata arrays.
    pub nesting: u32,
    /// Files per model.
    pub files: u32,
    /// Bytes left in the memory budget.
    pub budget_left: u64,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// The result of `open`: the model, and the budget as the plugin left it.
#[repr(C)]
#[derive(StableAbi)]
pub struct WireOpened {
    /// The opened model, to be lent the source on each call.
    pub model: OpenModelObject,
    /// Bytes left in the memory budget after opening.
    pub budget_left: u64,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RVec<u8>,
}

/// `apr_sdk::Report`.
#[repr(C)]
#[derive(StableAbi)]
pub struct WireReport {
    /// The text for people.
    pub text: RString,
    /// The JSON document.
    pub json: RString,
    /// 1 if all is well, 0 if not.
    pub passed: u32,
    /// Zero.
    pub padding: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::BlockAt`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireBlockAt<'a> {
    /// The tensor's number, in push order.
    pub tensor: u64,
    /// The block's index within the tensor.
    pub block: u64,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Reader`.
#[sabi_trait]
pub trait WireReader: Send + Sync {
    /// Scores a file.
    fn probe(&self, look: &WireLook<'_>) -> R<ScoreNumber>;
    /// Reads the header; `options` are pairs.
    fn open(&self, source: &SourceRef<'_>, limits: &WireLimits<'_>, options: RSlice<'_, u8>)
    -> R<WireOpened>;
    /// Makes a report that the manifest declares.
    #[sabi(last_prefix_field)]
    fn report(
        &self,
        id: RStr<'_>,
        source: &SourceRef<'_>,
        limits: &WireLimits<'_>,
        options: RSlice<'_, u8>,
    ) -> R<WireReport>;
}

/// A plugin's reader.
pub type ReaderObject = WireReader_TO<'static, RBox<()>>;

/// `apr_sdk::OpenModel`.
#[sabi_trait]
pub trait WireOpenModel: Send + Sync {
    /// Pushes what the header said.
    fn describe(&self, source: &SourceRef<'_>, sink: &mut ModelSinkMut<'_>) -> R<()>;
    /// Lists a tensor's compressed blocks.
    fn blocks(&self, source: &SourceRef<'_>, tensor: u64, sink: &mut BlockSinkMut<'_>) -> R<()>;
    /// Decodes a block; `options` are pairs.
    fn decode(
        &self,
        codec: u32,
        at: WireBlockAt<'_>,
        options: RSlice<'_, u8>,
        stored: RSlice<'_, u8>,
        out: RSliceMut<'_, u8>,
    ) -> R<()>;
    /// Opens a new stream over a tensor's payload.
    fn stream(&self, tensor: u64) -> R<StreamObject>;
    /// The tokenizer as JSON; empty if there is none.
    fn tokenizer(&self, source: &SourceRef<'_>) -> R<RVec<u8>>;
    /// Opens a new stream over the decoded bytes that a checksum covers.
    #[sabi(last_prefix_field)]
    fn covered(&self, checksum: u64) -> R<StreamObject>;
}

/// A plugin's opened model.
pub type OpenModelObject = WireOpenModel_TO<'static, RBox<()>>;

/// `apr_sdk::Stream`.
#[sabi_trait]
pub trait WireStream: Send {
    /// Fills the start of `out`; returns how many bytes, 0 at the end.
    #[sabi(last_prefix_field)]
    fn read(&mut self, source: &SourceRef<'_>, out: RSliceMut<'_, u8>) -> R<u64>;
}

/// A plugin's stream.
pub type StreamObject = WireStream_TO<'static, RBox<()>>;
