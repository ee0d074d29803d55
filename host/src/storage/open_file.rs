//! A file as a [`Backing`].

use super::error::{io_error, path_error};
use apr_engine::place::{Backing, Found, Version};
use apr_sdk::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that is open for reading.
pub struct OpenFile {
    handle: File,
    path: PathBuf,
    /// Its version when it was opened.
    opened: Version,
    /// Device and inode.
    identity: (u64, u64),
}

impl OpenFile {
    /// Opens the file at `path`, or reports that it is a folder.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for anything else; Io. Errors have the path as their file.
    pub fn find(path: &Path) -> Result<Found> {
        // Checked before opening: a pipe would wait for its writer.
        let meta = std::fs::metadata(path).map_err(|e| path_error(&e, "open", path))?;
        if !meta.is_file() && !meta.is_dir() {
            let error = Error::invalid_argument("this is neither a file nor a folder");
            return Err(error.in_file(path.display().to_string()));
        }
        let handle = File::open(path).map_err(|e| path_error(&e, "open", path))?;
        if meta.is_dir() {
            return Ok(Found::Folder);
        }
        let meta = handle.metadata().map_err(|e| path_error(&e, "open", path))?;
        let opened = version(&meta);
        Ok(Found::File(Arc::new(OpenFile {
            handle,
            path: path.to_owned(),
            opened,
            identity: identity(&meta),
        })))
    }
}

impl Backing for OpenFile {
    fn len(&self) -> u64 {
        self.opened.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.handle.read_exact_at(out, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::io("the file was truncated while it was being read")
                .hint("do not modify the file while apr is running"),
            _ => io_error(&e, "read"),
        })
    }

    fn version(&self) -> Option<Version> {
        self.handle.metadata().ok().as_ref().map(version)
    }

    fn opened_version(&self) -> Option<Version> {
        Some(self.opened)
    }

    fn identity(&self) -> Option<(u64, u64)> {
        Some(self.identity)
    }

    fn is_replaced(&self) -> bool {
        let now = std::fs::metadata(&self.path).ok();
        now.is_none_or(|now| (now.dev(), now.ino()) != self.identity)
    }
}

/// Returns whether a file that was opened by this name still has it.
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(here), Ok(there)) => identity(&here) == identity(&there),
        _ => false,
    }
}

/// Device and inode.
fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The version of a file; times in nanoseconds since 1970.
pub fn version(meta: &Metadata) -> Version {
    Version {
        len: meta.len(),
        modified: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        status: i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec()),
    }
}

/// Raises the limit of open files to the maximum: the soft limit is often 1024, and there are models, and
/// outputs, with a thousand shards.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, opening one file too many will report it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
