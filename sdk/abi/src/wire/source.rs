//! The host's source, lent to a plugin for one call.

use super::{LogNumber, R};
use abi_stable::sabi_trait;
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{RSlice, RSliceMut, RStr, RString, RVec};

/// `apr_sdk::Source`, implemented by the host.
#[sabi_trait]
pub trait WireSource: Send + Sync {
    /// The file's path relative to the model's folder; only for messages and metadata.
    fn name(&self, file: u32) -> RString;
    /// The file's length in bytes.
    fn len(&self, file: u32) -> R<u64>;
    /// Fills `out` with the bytes at `offset`.
    fn read_at(&self, file: u32, offset: u64, out: RSliceMut<'_, u8>) -> R<()>;
    /// Borrows a range of bytes, charged to the budget.
    fn view(&self, file: u32, offset: u64, len: u64) -> R<RSlice<'_, u8>>;
    /// Opens another file of the model, by relative path.
    fn sibling(&self, path: RStr<'_>) -> R<u32>;
    /// The names of the files beside file 0, or inside it if it is a folder.
    fn entries(&self) -> R<RVec<RString>>;
    /// The names in a subfolder of the model's folder.
    fn entries_of(&self, folder: RStr<'_>) -> R<RVec<RString>>;
    /// Returns whether file 0 is a folder.
    fn is_folder(&self) -> bool;
    /// Returns whether the user wants to stop.
    fn cancelled(&self) -> bool;
    /// Passes a message to the host.
    #[sabi(last_prefix_field)]
    fn log(&self, level: LogNumber, message: RStr<'_>);
}

/// A borrowed source.
pub type SourceRef<'a> = WireSource_TO<'a, RRef<'a, ()>>;
