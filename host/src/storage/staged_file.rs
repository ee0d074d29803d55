//! One file of an output that is being written.

use super::error::io_error;
use super::open_file::version;
use super::publish::steps::{Step, Steps};
use super::target::remove;
use apr_engine::place::{Backing, Version};
use apr_engine::tiles::TileSink;
use apr_sdk::{Error, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

    /// Bytes allocated on disk; `None` if unknown.
    pub fn allocated(&self) -> Option<u64> {
        self.handle.metadata().ok().map(|meta| meta.blocks().saturating_mul(512))
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

/// Creates a file of `len` bytes for one job and unlinks it at once, so that nothing is left of it; whatever is at `path`
/// goes.
///
/// # Errors
/// Io.
pub fn scratch_file(path: PathBuf, shown: String, len: u64) -> Result<Box<dyn TileSink>> {
    remove(&path);
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let sized = opened.and_then(|handle| {
        remove(&path);
        handle.set_len(len)?;
        Ok(handle)
    });
    let handle = sized.map_err(|e| io_error(&e, "write").in_file(shown.clone()))?;
    Ok(Box::new(Scratch(Arc::new(StagedFile::new(handle, path.clone(), path, shown)))))
}

/// The same in the folder for temporary files, for work that has no output beside which it could lie.
///
/// # Errors
/// As [`scratch_file`].
pub fn temporary_scratch(len: u64) -> Result<Box<dyn TileSink>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!(".apr-spool-{}-{number}", std::process::id()));
    let shown = path.display().to_string();
    scratch_file(path, shown, len)
}

/// A file for one job only.
struct Scratch(Arc<StagedFile>);

impl TileSink for Scratch {
    fn write_at(&self, _file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn set_len(&self, _file: usize, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn read_back(&self, _file: usize) -> Result<Arc<dyn Backing>> {
        Ok(Arc::clone(&self.0) as Arc<dyn Backing>)
    }

    fn show(&self, _file: usize) -> String {
        self.0.shown.clone()
    }

    fn scratch(&self, _len: u64) -> Result<Box<dyn TileSink>> {
        Err(Error::io("a scratch output cannot have scratch of its own"))
    }
}
