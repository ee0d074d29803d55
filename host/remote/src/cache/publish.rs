//! Publishing: a verified download becomes a blob, and the snapshot of its commit gets a link to it.

use super::blob_name::BlobName;
use super::error::io_error;
use super::lock::EntryLock;
use super::partial::Verified;
use super::repository::Repository;
use super::small_file::{beside, create_folder};
use crate::names::check_file;
use apr_sdk::{Error, Result, escape};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A blob that was published. Its lock is held until this is dropped: link the blob before, or it may be taken for garbage.
#[derive(Debug)]
pub struct Published {
    /// The blob.
    pub blob: BlobName,
    /// State of its place before.
    pub before: Before,
    _lock: Option<EntryLock>,
}

/// State of the place of a blob before it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// The same content, fetched by somebody else meanwhile; it stays.
    Same,
    /// Other content, which was replaced: tell the user, since it was wrong or was made so.
    Other,
}

impl Repository {
    /// Gives a verified download its name among the blobs.
    ///
    /// # Errors
    /// Io.
    pub fn publish(&self, mut verified: Verified) -> Result<Published> {
        verified.refuse_replaced()?;
        let path = self.blobs().join(verified.blob().as_str());
        let before = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Before::Nothing,
            Err(error) => return Err(io_error(&error, "write in the cache", &path)),
            Ok(_) if is_same(&path, verified.path(), verified.size()) => Before::Same,
            // A link that leads nowhere had no content.
            Ok(meta) if meta.is_symlink() && !path.exists() => Before::Nothing,
            Ok(_) => Before::Other,
        };
        let failed = |error: &std::io::Error| io_error(error, "write in the cache", &path);
        match before {
            Before::Same => std::fs::remove_file(verified.path()).map_err(|error| failed(&error))?,
            // A link to the shared store is replaced itself, and not what it leads to.
            _ => std::fs::rename(verified.path(), &path).map_err(|error| failed(&error))?,
        }
        // One that stays behind is about a file that is not there, and is passed over.
        let _ = std::fs::remove_file(verified.journal());
        // What cannot be remembered is hashed again, and is not removed unasked.
        if let Some(digest) = verified.digest() {
            let _ = self.cache.remember(&path, digest);
        }
        if before != Before::Same {
            let _ = self.cache.own(&path);
        }
        let _lock = verified.take_lock();
        Ok(Published { blob: verified.blob().clone(), before, _lock })
    }

    /// Puts a blob into the snapshot of a commit under a file's name, and returns its path there. Without links the blob
    /// itself is moved there if `is_new`, and copied if not, since other snapshots may have it.
    ///
    /// # Errors
    /// Malformed for a name that leads out of the snapshot; Unsupported for one that the file system does not tell from
    /// another; NotFound if the blob is not there; Io.
    pub fn link(&self, commit: &str, name: &str, blob: &BlobName, is_new: bool) -> Result<PathBuf> {
        check_file(name)?;
        let snapshot = self.snapshot(commit)?;
        let path = snapshot.join(name);
        let from = self.blobs().join(blob.as_str());
        if std::fs::symlink_metadata(&from).is_err() {
            return Err(Error::not_found("the blob is not in the cache").in_file(from.display().to_string()));
        }
        let folder = path.parent().unwrap_or(&snapshot);
        check_real(&self.path(), folder)?;
        create_folder(folder)?;
        check_case(folder, &path)?;
        let target = relative_target(name, blob);
        if std::fs::read_link(&path).is_ok_and(|found| found == target) {
            return Ok(path);
        }
        let linked = match self.cache.has_links() {
            true => make_link(&target, &path),
            false => carry(&from, &path, is_new),
        };
        let done = match linked {
            Err(error) if has_no_links(&error) => carry(&from, &path, is_new),
            done => done,
        };
        done.map_err(|error| io_error(&error, "write in the cache", &path))?;
        let _ = self.cache.own(&path);
        Ok(path)
    }
}

/// The target of the link to a blob: one `../` for every folder of the name, and two to leave the snapshots.
fn relative_target(name: &str, blob: &BlobName) -> PathBuf {
    let up = "../".repeat(name.split('/').count() + 1);
    PathBuf::from(format!("{up}blobs/{blob}"))
}

/// Makes a link beside its place and renames it, so that what is there is replaced in one step.
fn make_link(target: &Path, path: &Path) -> std::io::Result<()> {
    let beside = beside(path);
    let linked = std::os::unix::fs::symlink(target, &beside).and_then(|()| std::fs::rename(&beside, path));
    linked.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

/// Moves or copies a blob to where a link to it would be.
fn carry(from: &Path, to: &Path, is_new: bool) -> std::io::Result<()> {
    if is_new {
        return std::fs::rename(from, to);
    }
    let beside = beside(to);
    let copied = std::fs::copy(from, &beside).and_then(|_| std::fs::rename(&beside, to));
    copied.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

/// Returns whether an error says that the file system has no links: which one it is depends on the system.
fn has_no_links(error: &std::io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::PERM | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS))
}

/// Returns whether two files have the same content of `len` bytes.
fn is_same(there: &Path, ours: &Path, len: u64) -> bool {
    let same = || -> std::io::Result<bool> {
        if std::fs::metadata(there)?.len() != len {
            return Ok(false);
        }
        let [mut there, mut ours] = [File::open(there)?.take(len), File::open(ours)?.take(len)];
        let [mut a, mut b] = [vec![0; 1 << 20], vec![0; 1 << 20]];
        loop {
            let n = there.read(&mut a)?;
            if n == 0 {
                return Ok(ours.limit() == 0);
            }
            ours.read_exact(&mut b[..n])?;
            if a[..n] != b[..n] {
                return Ok(false);
            }
        }
    };
    same().unwrap_or(false)
}

/// Fails if a folder below `top` is a link: what is written there would land elsewhere.
fn check_real(top: &Path, folder: &Path) -> Result<()> {
    for folder in folder.ancestors().take_while(|folder| *folder != top) {
        if std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()) {
            let error = Error::io("a folder of the cache is a link, and apr writes through none");
            return Err(error.in_file(folder.display().to_string()).hint("replace the link with a folder"));
        }
    }
    Ok(())
}

/// Fails if `path` exists under a name that differs from its own in case alone, which some file systems take for the same.
fn check_case(folder: &Path, path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let names: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
    match path.file_name() {
        Some(name) if !names.is_empty() && !names.iter().any(|found| found == name) => {
            let name = escape(&name.to_string_lossy(), 200);
            let message =
                format!("the file system does not tell `{name}` from a file whose name differs in case");
            let error = Error::unsupported(message).in_file(path.display().to_string());
            Err(error.hint("set APR_CACHE to a folder on a file system that does"))
        }
        _ => Ok(()),
    }
}
