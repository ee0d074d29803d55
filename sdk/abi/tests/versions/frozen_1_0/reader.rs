//! The reading roles: reader, open model, stream.

use super::{BlockSinkMut, ModelSinkMut, R, ScoreNumber, SourceRef};
use abi_stable::std_types::{RBox, RSlice, RSliceMut, RStr, RString, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// `apr_sdk::Look`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireLook<'a> {
    /// The file's name.
    pub name: RStr<'a>,
    /// The first bytes.
    pub head: RSlice<'a, u8>,
    /// The last bytes.
    pub tail: RSlice<'a, u8>,
    /// The names in the folder or beside the file.
    pub entries: RSlice<'a, RStr<'a>>,
    /// The file's length.
    pub len: u64,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Limits` as numbers. The plugin makes a budget of what is left and says afterwards what it left over.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireLimits<'a> {
    /// Tensors of a model.
    pub tensors: u64,
    /// Dimensions of a tensor.
    pub dims: u64,
    /// Bytes of a name.
    pub name_bytes: u64,
    /// Metadata keys of a file.
    pub metadata_keys: u64,
    /// Nesting of arrays.
    pub nesting: u32,
    /// Files of a model.
    pub files: u32,
    /// What the memory budget has left.
    pub budget_left: u64,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// What `open` gives.
#[repr(C)]
#[derive(StableAbi)]
pub struct WireOpened {
    /// The model.
    pub model: OpenModelObject,
    /// What the plugin left of its memory budget.
    pub budget_left: u64,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
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
    /// The tensor's number.
    pub tensor: u64,
    /// The block's number.
    pub block: u64,
    /// Pairs of key and value, for what later versions add; keys that are not known are passed over.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Reader`.
#[sabi_trait]
pub trait WireReader: Send + Sync {
    /// How sure it is.
    fn probe(&self, look: &WireLook<'_>) -> R<ScoreNumber>;
    /// Reads the header; `options` are pairs.
    fn open(&self, source: &SourceRef<'_>, limits: &WireLimits<'_>, options: RSlice<'_, u8>)
    -> R<WireOpened>;
    /// Makes a declared report.
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
    /// Lists a tensor's blocks.
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
    /// A fresh stream.
    fn stream(&self, tensor: u64) -> R<StreamObject>;
    /// The tokenizer as JSON; empty if there is none.
    fn tokenizer(&self, source: &SourceRef<'_>) -> R<RVec<u8>>;
    /// A fresh stream of the decoded bytes that a checksum covers.
    #[sabi(last_prefix_field)]
    fn covered(&self, checksum: u64) -> R<StreamObject>;
}

/// A plugin's opened model.
pub type OpenModelObject = WireOpenModel_TO<'static, RBox<()>>;

/// `apr_sdk::Stream`.
#[sabi_trait]
pub trait WireStream: Send {
    /// Fills the beginning of `out`.
    #[sabi(last_prefix_field)]
    fn read(&mut self, source: &SourceRef<'_>, out: RSliceMut<'_, u8>) -> R<u64>;
}

/// A plugin's stream.
pub type StreamObject = WireStream_TO<'static, RBox<()>>;
