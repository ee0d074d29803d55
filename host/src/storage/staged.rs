//! One file of an output being written.

use super::error::io_error;
use super::open_file::version;
use super::publish::steps::{Step, Steps};
use apr_engine::open::{Backing, Version};
use apr_sdk::{Error, Result};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// One file being written.
pub struct StagedFile {
    /// The handle; reads and writes at positions.
    handle: File,
    /// Where it is now.
    pub path: PathBuf,
    /// Where it will be.
    pub published: PathBuf,
    /// The same as the user typed it.
    pub shown: String,
    /// Whether something was written since the last [`StagedFile::sync_data`].
    dirty: AtomicBool,
}

impl StagedFile {
    /// A file that is open, at `path` now, and will be `published`, which the user knows as `shown`.
    pub fn new(handle: File, path: PathBuf, published: PathBuf, shown: String) -> StagedFile {
        StagedFile { handle, path, published, shown, dirty: AtomicBool::new(false) }
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.handle.write_all_at(bytes, offset);
        self.dirty.store(true, Ordering::Release);
        written.map_err(|e| self.wrong(&e, "write").at(offset))
    }

    /// Bytes of it that the disk has no place for yet; none where that is not known.
    pub fn unallocated(&self) -> u64 {
        self.handle.metadata().map_or(0, |meta| meta.len().saturating_sub(meta.blocks().saturating_mul(512)))
    }

    /// Gives it another length.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let cut = self.handle.set_len(len);
        self.dirty.store(true, Ordering::Release);
        cut.map_err(|e| self.wrong(&e, "write"))
    }

    /// Makes what was written durable. Costs nothing for a file that nothing was written to: of a thousand shards, one
    /// or two are being written at a time.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn sync_data(&self) -> Result<()> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.handle.sync_data().map_err(|e| {
            self.dirty.store(true, Ordering::Release);
            self.wrong(&e, "write")
        })
    }

    /// Makes all of it durable, its length too.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn sync_all(&self, steps: &dyn Steps) -> Result<()> {
        let synced = steps.before(Step::Sync, &self.path).and_then(|()| self.handle.sync_all());
        synced.map_err(|e| self.wrong(&e, "write"))
    }

    /// Gives it the permissions of the file that it replaces, if there is one.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn keep_permissions(&self) -> Result<()> {
        let Some(mode) = permissions_of(&self.published) else { return Ok(()) };
        let kept = self.handle.metadata().and_then(|meta| {
            // A file system without permissions says the same of all files, and refuses to set them.
            if meta.mode() & 0o777 == mode {
                return Ok(());
            }
            self.handle.set_permissions(std::fs::Permissions::from_mode(mode))
        });
        kept.map_err(|e| self.wrong(&e, "keep the permissions"))
    }

    fn wrong(&self, error: &std::io::Error, verb: &str) -> Error {
        io_error(error, verb).in_file(self.shown.clone())
    }
}

impl Backing for StagedFile {
    fn len(&self) -> u64 {
        self.handle.metadata().map_or(0, |meta| meta.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.handle.read_exact_at(out, offset).map_err(|e| io_error(&e, "read back"))
    }

    fn version(&self) -> Option<Version> {
        self.handle.metadata().ok().as_ref().map(version)
    }

    fn identity(&self) -> Option<(u64, u64)> {
        let meta = self.handle.metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    }
}

/// The permission bits of the file at `path`, if there is one.
pub fn permissions_of(path: &Path) -> Option<u32> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    meta.is_file().then(|| meta.mode() & 0o777)
}
