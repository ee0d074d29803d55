//! Unfinished downloads: the bytes that came, and a journal of which those are. A file's length says nothing of that, since
//! pieces come in any order.

mod journal;
mod ranges;

use super::blob_name::{BlobName, ContentDigest};
use super::error::io_error;
use super::lock::EntryLock;
use super::repository::Repository;
use super::small_file::create_folder;
use apr_sdk::{Error, Result};
use journal::Journal;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use ranges::Ranges;

/// Bytes that may come before the journal is written again: what a killed process loses.
const INTERVAL: u64 = 8 << 20;

/// A blob that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// The commit that it was found in.
    pub commit: String,
    /// The blob.
    pub blob: BlobName,
    /// Bytes of its content.
    pub size: u64,
}

/// A download that is not finished. Written by any number of threads; what came is kept when it is dropped.
#[derive(Debug)]
pub struct Partial {
    download: Download,
    file: File,
    path: PathBuf,
    journal: PathBuf,
    resumed: u64,
    progress: Mutex<Progress>,
    /// Held while the journal is written, so that an older one never replaces a newer.
    writer: Mutex<()>,
    lock: Option<EntryLock>,
}

#[derive(Debug)]
struct Progress {
    done: Ranges,
    /// Bytes that the journal does not know of.
    unrecorded: u64,
}

impl Repository {
    /// Goes on with an unfinished download of this blob, or begins anew if there is none that agrees with it. `lock` is
    /// that of the blob, and is held until the blob is published.
    ///
    /// # Errors
    /// Malformed for anything but a commit; Io.
    pub fn partial(&self, lock: EntryLock, download: Download) -> Result<Partial> {
        self.cache.create()?;
        // The hub's client takes a repository without snapshots for damaged.
        create_folder(&self.snapshot(&download.commit)?)?;
        Partial::open(&self.blobs(), Some(lock), download)
    }
}

impl Partial {
    /// Goes on with a download in the folder `blobs`, or begins it.
    ///
    /// # Errors
    /// Io.
    pub fn open(blobs: &Path, lock: Option<EntryLock>, download: Download) -> Result<Partial> {
        create_folder(blobs)?;
        let path = partial_path(blobs, &download.blob);
        let journal = journal_path(blobs, &download.blob);
        let known = Journal::read(&journal).filter(|journal| journal.agrees(&download));
        let (file, done) =
            match known.and_then(|journal| Some((reopened(&path, journal.done.end())?, journal.done))) {
                Some(found) => found,
                None => (begun(&path, &journal)?, Ranges::default()),
            };
        let resumed = done.bytes();
        let progress = Mutex::new(Progress { done, unrecorded: 0 });
        let writer = Mutex::new(());
        Ok(Partial { download, file, path, journal, resumed, progress, writer, lock })
    }

    /// Bytes that were there when it was opened.
    pub fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Bytes that are there.
    pub fn done(&self) -> u64 {
        self.progress().done.bytes()
    }

    /// The ranges that are missing, in order; empty once everything is there.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.progress().done.missing(self.download.size)
    }

    /// Writes bytes at their offset, and the journal if much has come since it was last written.
    ///
    /// # Errors
    /// Malformed for bytes behind the end; Io.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.download.size);
        let Some(end) = end else {
            let message = format!(
                "the server sent bytes behind the end: {} at {offset}, but the file has {}",
                bytes.len(),
                self.download.size
            );
            return Err(Error::malformed(message).in_file(self.path.display().to_string()));
        };
        self.file.write_all_at(bytes, offset).map_err(|error| io_error(&error, "write", &self.path))?;
        let mut progress = self.progress();
        progress.done.add(offset..end);
        progress.unrecorded += bytes.len() as u64;
        let is_due = progress.unrecorded >= INTERVAL;
        drop(progress);
        if is_due { self.record() } else { Ok(()) }
    }

    /// Makes what came durable, and notes it in the journal.
    ///
    /// # Errors
    /// Io.
    pub fn record(&self) -> Result<()> {
        let turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut progress = self.progress();
        if progress.unrecorded == 0 {
            return Ok(());
        }
        progress.unrecorded = 0;
        let done = progress.done.clone();
        drop(progress);
        // The bytes first: the journal must never claim what a loss of power took.
        self.file.sync_data().map_err(|error| io_error(&error, "write", &self.path))?;
        let written = Journal::new(&self.download, done).write(&self.journal);
        drop(turn);
        written
    }

    /// Gives the download up: what came was wrong.
    ///
    /// # Errors
    /// Io.
    pub fn discard(self) -> Result<()> {
        self.progress().unrecorded = 0;
        remove(&self.journal)?;
        remove(&self.path)
    }

    /// Another handle of the file, which stays good when the download is published.
    ///
    /// # Errors
    /// Io.
    pub fn file(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| io_error(&error, "open", &self.path))
    }

    /// End of the bytes that are there without a gap from `offset` on; `offset` itself if it is missing.
    pub fn end_of_run(&self, offset: u64) -> u64 {
        self.progress().done.end_of_run(offset)
    }

    /// The digest that the content must have: the one that the blob is named after, else `announced`.
    pub fn expected(&self, announced: Option<&ContentDigest>) -> Option<ContentDigest> {
        self.download.blob.digest().or_else(|| announced.cloned())
    }

    /// Hashes what came. `tick` is told how many bytes more were hashed, and may stop the work. The digest is the one that
    /// the blob is named after; a blob whose name is none is verified by `expected`, or not at all.
    ///
    /// # Errors
    /// Failed for another digest, and then the download is discarded; Io, also if something is missing.
    pub fn verify(
        self,
        expected: Option<&ContentDigest>,
        tick: &dyn Fn(u64) -> std::io::Result<()>,
    ) -> Result<Verified> {
        self.refuse_gaps()?;
        let Some(expected) = self.expected(expected) else { return self.conclude(None, None) };
        let mut from = Positioned { file: &self.file, at: 0 };
        let found = expected.of_content(&mut from, self.download.size, tick);
        let found = found.map_err(|error| io_error(&error, "hash", &self.path))?;
        self.conclude(Some(expected), Some(found))
    }

    /// Ends a download whose content was found to have a digest.
    ///
    /// # Errors
    /// As [`Partial::verify`].
    pub fn conclude(self, expected: Option<ContentDigest>, found: Option<ContentDigest>) -> Result<Verified> {
        self.refuse_gaps()?;
        self.record()?;
        if let (Some(expected), Some(found)) = (expected, &found)
            && *found != expected
        {
            let message = format!(
                "the download has {} {}, but {} was announced",
                found.algorithm(),
                found.digits(),
                expected.digits()
            );
            let error = Error::failed(message).in_file(self.path.display().to_string()).code("E004");
            self.discard()?;
            return Err(error.hint("download it again; if that does not help, a proxy or mirror changes it"));
        }
        Ok(Verified { partial: self, digest: found })
    }

    fn refuse_gaps(&self) -> Result<()> {
        match self.missing().first() {
            None => Ok(()),
            Some(first) => {
                let message = format!("the download is not finished: byte {} is missing", first.start);
                Err(Error::io(message).in_file(self.path.display().to_string()))
            }
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // What cannot be noted is fetched again.
        let _ = self.record();
    }
}

/// A download that is complete, and hashed if there is a digest to compare with.
#[derive(Debug)]
pub struct Verified {
    partial: Partial,
    digest: Option<ContentDigest>,
}

impl Verified {
    /// The digest that the content was found to have; `None` if none was announced.
    pub fn digest(&self) -> Option<&ContentDigest> {
        self.digest.as_ref()
    }

    /// The blob.
    pub fn blob(&self) -> &BlobName {
        &self.partial.download.blob
    }

    /// Moves the file to a path outside the cache, over what is there if `force`.
    ///
    /// # Errors
    /// Io; E007 if there is something, and not `force`.
    pub fn move_to(self, path: &Path, force: bool) -> Result<()> {
        self.refuse_replaced()?;
        let shown = || path.display().to_string();
        let failed = |error: &std::io::Error| io_error(error, "write", path);
        if !force {
            // A second name fails if the path is taken, which a rename does not.
            match std::fs::hard_link(&self.partial.path, path) {
                Ok(()) => std::fs::remove_file(&self.partial.path).map_err(|error| failed(&error))?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let error = Error::io("this file already exists").code("E007").in_file(shown());
                    return Err(error.hint("pass --force to replace it"));
                }
                // Where files have one name only.
                Err(_) if path.symlink_metadata().is_err() => {
                    std::fs::rename(&self.partial.path, path).map_err(|error| failed(&error))?;
                }
                Err(error) => return Err(failed(&error)),
            }
        } else {
            std::fs::rename(&self.partial.path, path).map_err(|error| failed(&error))?;
        }
        remove(&self.partial.journal)
    }

    /// Hands over the lock of the blob.
    pub(super) fn take_lock(&mut self) -> Option<EntryLock> {
        self.partial.lock.take()
    }

    /// Fails if the name of the download leads to another file than the one that was verified: another process works in the
    /// same place.
    ///
    /// # Errors
    /// Io.
    pub(super) fn refuse_replaced(&self) -> Result<()> {
        let Partial { file, path, .. } = &self.partial;
        let own = file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let named = std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        match own.is_some() && own == named {
            true => Ok(()),
            false => Err(Error::io("another process downloads the same file to the same place")
                .in_file(path.display().to_string())
                .hint("wait for it, and run the command again")),
        }
    }

    /// The file with its bytes.
    pub(super) fn path(&self) -> &Path {
        &self.partial.path
    }

    /// Its journal.
    pub(super) fn journal(&self) -> &Path {
        &self.partial.journal
    }

    /// Bytes of its content.
    pub(super) fn size(&self) -> u64 {
        self.partial.download.size
    }
}

/// Reads a file from its start by positioned reads, since others may share its cursor.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl std::io::Read for Positioned<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(out, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// The path of an unfinished download.
pub(super) fn partial_path(blobs: &Path, blob: &BlobName) -> PathBuf {
    blobs.join(format!("{blob}.apr.incomplete"))
}

/// The path of its journal.
pub(super) fn journal_path(blobs: &Path, blob: &BlobName) -> PathBuf {
    blobs.join(format!("{blob}.apr.json"))
}

/// The file of an earlier download, if it has all that its journal says it has.
fn reopened(path: &Path, end: u64) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    (meta.is_file() && meta.len() >= end).then_some(file)
}

/// A new file. One that is there is removed, not emptied: without locks, another process may be writing to it.
fn begun(path: &Path, journal: &Path) -> Result<File> {
    remove(journal)?;
    remove(path)?;
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    opened.map_err(|error| io_error(&error, "write in the cache", path))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(&error, "remove", path)),
        _ => Ok(()),
    }
}
