//! One file of an output that is being written.

use super::error::io_error;
use super::open_file::version;
use super::publish::steps::{Step, Steps};
use apr_engine::place::{Backing, Version};
use apr_sdk::{Error, Result};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// One file that is being written.
pub struct StagedFile {
    /// The open file; used for positioned reads and writes.
    handle: File,
    /// The path it has now.
    pub path: PathBuf,
    /// The path it will have.
    pub published: PathBuf,
    /// That path in the way the user typed it.
    pub shown: String,
    /// Held by the thread that writes. The kernel lets one thread at a time write to a file, and the others
    /// spin meanwhile; here they sleep.
    writer: Mutex<()>,
    /// True if anything was written since the last [`StagedFile::sync_data`].
    dirty: AtomicBool,
}

impl StagedFile {
    /// An open file, now at `path` and later at `published`, which messages call `shown`.
    pub fn new(handle: File, path: PathBuf, published: PathBuf, shown: String) -> StagedFile {
        StagedFile { handle, path, published, shown, writer: Mutex::new(()), dirty: AtomicBool::new(false) }
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.handle.write_all_at(bytes, offset);
        drop(turn);
        self.dirty.store(true, Ordering::Release);
        written.map_err(|e| self.wrong(&e, "write").at(offset))
    }

    /// Bytes that are not allocated on disk yet; 0 if unknown.
    pub fn unallocated(&self) -> u64 {
        self.handle.metadata().map_or(0, |meta| meta.len().saturating_sub(meta.blocks().saturating_mul(512)))
    }

    /// Changes the length of the file.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let cut = self.handle.set_len(len);
        self.dirty.store(true, Ordering::Release);
        cut.map_err(|e| self.wrong(&e, "write"))
    }

    /// Makes what was written durable. Free for a file without new data: of a thousand shards, only one or
    /// two are being written at a time.
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

    /// Makes everything durable, including the length.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn sync_all(&self, steps: &dyn Steps) -> Result<()> {
        let synced = steps.before(Step::Sync, &self.path).and_then(|()| self.handle.sync_all());
        synced.map_err(|e| self.wrong(&e, "write"))
    }

    /// Copies owner and permissions of the file that it replaces, if there is one.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn keep_permissions(&self) -> Result<()> {
        let Some(old) = regular(&self.published) else { return Ok(()) };
        keep_attributes(&self.handle, &old).map_err(|e| self.wrong(&e, "keep owner and permissions"))
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

/// Gives a new file the owner, group and permissions of the one that it replaces. Only root may give a file away; for others
/// it stays theirs.
///
/// # Errors
/// Io.
pub fn keep_attributes(new: &File, old: &Metadata) -> std::io::Result<()> {
    let meta = new.metadata()?;
    if (meta.uid(), meta.gid()) != (old.uid(), old.gid()) {
        let given = std::os::unix::fs::fchown(new, Some(old.uid()), Some(old.gid()));
        if rustix::process::geteuid().is_root() {
            given?;
        }
    }
    // A file system without permissions reports the same for all files, and refuses to set them.
    if meta.mode() & 0o777 == old.mode() & 0o777 {
        return Ok(());
    }
    new.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o777))
}

/// The metadata of the regular file at `path`, if there is one.
fn regular(path: &Path) -> Option<Metadata> {
    std::fs::symlink_metadata(path).ok().filter(Metadata::is_file)
}

/// The permission bits of the file at `path`, if it exists.
pub fn permissions_of(path: &Path) -> Option<u32> {
    regular(path).map(|meta| meta.mode() & 0o777)
}
