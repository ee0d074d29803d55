//! The source that the host lends a plugin to read from.

use crate::{Error, Extent, FileId, Result, escape};

/// The severity of a plugin's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Shown with `-v`.
    Debug,
    /// Shown in the summary: what was assumed, what was left out.
    Note,
    /// Shown immediately.
    Warning,
}

/// The host's side of reading: a file, a folder, a byte slice, a range of a container or a remote object. A
/// reader cannot tell which. It is lent a source for each call and keeps none.
pub trait Source: Send + Sync {
    /// The file's path relative to the model's folder, with `/`; only for names in errors and metadata.
    fn name(&self, file: FileId) -> String;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// InvalidArgument for a number that [`Source::sibling`] never returned; Io if the file is a folder.
    fn len(&self, file: FileId) -> Result<u64>;

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// Malformed if the range exceeds the file; Io if the machine failed; Cancelled.
    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Borrows a range of bytes, charged to the budget and valid until the plugin call returns. Meant for
    /// headers.
    ///
    /// # Errors
    /// As [`Source::read_at`]; LimitExceeded if the budget is too small.
    fn view(&self, extent: Extent) -> Result<&[u8]>;

    /// Opens another file of the model, by its path relative to the model's folder.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for an absolute path, one with `..`, or a link that leaves the model's folder.
    fn sibling(&self, path: &str) -> Result<FileId>;

    /// The names of the files beside file 0, or inside it if it is a folder; sorted, folders end in `/`.
    ///
    /// # Errors
    /// Io if the folder cannot be listed.
    fn entries(&self) -> Result<Vec<String>>;

    /// The names in a subfolder of the model's folder, given by relative path; sorted, folders end in `/`.
    ///
    /// # Errors
    /// As [`Source::sibling`] and [`Source::entries`].
    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        Err(Error::not_found(format!("folder `{}` does not exist", escape(folder, 200))))
    }

    /// Returns whether file 0 is a folder.
    fn is_folder(&self) -> bool {
        false
    }

    /// Returns whether the user wants to stop. Poll it in long loops.
    fn cancelled(&self) -> bool {
        false
    }

    /// Passes a message to the host. Plugins never print.
    fn log(&self, level: LogLevel, message: &str);
}
