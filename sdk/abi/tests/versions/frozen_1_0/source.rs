//! The host's source, lent to a plugin for one call.

use super::{LogNumber, R};
use abi_stable::sabi_trait;
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{RSlice, RSliceMut, RStr, RString, RVec};

/// `apr_sdk::Source`, implemented by the host.
#[sabi_trait]
pub trait WireSource: Send + Sync {
    /// A file's name.
    fn name(&self, file: u32) -> RString;
    /// A file's length.
    fn len(&self, file: u32) -> R<u64>;
    /// Fills `out`.
    fn read_at(&self, file: u32, offset: u64, out: RSliceMut<'_, u8>) -> R<()>;
    /// A run of bytes of the host's.
    fn view(&self, file: u32, offset: u64, len: u64) -> R<RSlice<'_, u8>>;
    /// Opens a further file.
    fn sibling(&self, path: RStr<'_>) -> R<u32>;
    /// The files there are.
    fn entries(&self) -> R<RVec<RString>>;
    /// The files of a folder below.
    fn entries_of(&self, folder: RStr<'_>) -> R<RVec<RString>>;
    /// Whether file 0 is a folder.
    fn is_folder(&self) -> bool;
    /// Whether the user wants the work to stop.
    fn cancelled(&self) -> bool;
    /// Hands a message to the host.
    #[sabi(last_prefix_field)]
    fn log(&self, level: LogNumber, message: RStr<'_>);
}

/// A lent source.
pub type SourceRef<'a> = WireSource_TO<'a, RRef<'a, ()>>;
