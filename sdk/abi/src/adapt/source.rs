//! Sources: puts the host's on the wire, and presents the wire's to a plugin.

use super::error::result;
use crate::guard::{guard, host_wire};
use crate::wire::{LogNumber, R, SourceRef, WireSource, WireSource_TO};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RRef;
use abi_stable::std_types::{RSlice, RSliceMut, RStr, RString, RVec};
use apr_sdk::{Extent, FileId, LogLevel, Result, Source};

/// Puts the host's source on the wire.
pub struct ToWireSource<'a>(pub &'a dyn Source);

impl ToWireSource<'_> {
    /// The wire object to lend.
    pub fn object(&self) -> SourceRef<'_> {
        WireSource_TO::from_ptr(RRef::new(self), TD_Opaque)
    }
}

impl WireSource for ToWireSource<'_> {
    fn name(&self, file: u32) -> RString {
        guard(|| self.0.name(file)).unwrap_or_default().into()
    }

    fn len(&self, file: u32) -> R<u64> {
        host_wire("reading a length", || self.0.len(file))
    }

    fn read_at(&self, file: u32, offset: u64, mut out: RSliceMut<'_, u8>) -> R<()> {
        host_wire("reading", || self.0.read_at(file, offset, out.as_mut_slice()))
    }

    fn view(&self, file: u32, offset: u64, len: u64) -> R<RSlice<'_, u8>> {
        host_wire("reading", || Ok(self.0.view(Extent::new(file, offset, len))?.into()))
    }

    fn sibling(&self, path: RStr<'_>) -> R<u32> {
        host_wire("opening a file", || self.0.sibling(path.as_str()))
    }

    fn entries(&self) -> R<RVec<RString>> {
        host_wire("listing files", || Ok(self.0.entries()?.into_iter().map(RString::from).collect()))
    }

    fn entries_of(&self, folder: RStr<'_>) -> R<RVec<RString>> {
        host_wire("listing files", || {
            Ok(self.0.entries_of(folder.as_str())?.into_iter().map(RString::from).collect())
        })
    }

    fn is_folder(&self) -> bool {
        guard(|| self.0.is_folder()).unwrap_or(false)
    }

    fn cancelled(&self) -> bool {
        guard(|| self.0.cancelled()).unwrap_or(true)
    }

    fn log(&self, level: LogNumber, message: RStr<'_>) {
        let level = match level {
            LogNumber::DEBUG => LogLevel::Debug,
            LogNumber::NOTE => LogLevel::Note,
            _ => LogLevel::Warning,
        };
        // A message that cannot be delivered is lost: there is no one to tell.
        let _ = guard(|| self.0.log(level, message.as_str()));
    }
}

/// Presents the wire's source to a plugin.
pub struct FromWireSource<'a, 'b>(pub &'b SourceRef<'a>);

impl Source for FromWireSource<'_, '_> {
    fn name(&self, file: FileId) -> String {
        self.0.name(file).into()
    }

    fn len(&self, file: FileId) -> Result<u64> {
        result(self.0.len(file))
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        result(self.0.read_at(file, offset, out.into()))
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        result(self.0.view(extent.file, extent.offset, extent.len)).map(|bytes| bytes.as_slice())
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        result(self.0.sibling(path.into()))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(result(self.0.entries())?.into_iter().map(String::from).collect())
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        Ok(result(self.0.entries_of(folder.into()))?.into_iter().map(String::from).collect())
    }

    fn is_folder(&self) -> bool {
        self.0.is_folder()
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }

    fn log(&self, level: LogLevel, message: &str) {
        let level = match level {
            LogLevel::Debug => LogNumber::DEBUG,
            LogLevel::Note => LogNumber::NOTE,
            LogLevel::Warning => LogNumber::WARNING,
        };
        self.0.log(level, message.into());
    }
}
