//! A cache and the repositories in it: where things are.

use super::error::io_error;
use super::small_file::create_folder;
use crate::names::{RepositoryId, is_commit};
use apr_sdk::{Error, Result, escape};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Tag of a folder that backup programs pass over; the signature is that of the standard for such tags.
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                   # This folder is a cache of files from the Hugging Face hub.\n\
                   # About such tags: https://bford.info/cachedir/\n";

/// A cache of what came from the hub. Costs nothing until it is asked.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    state: Option<PathBuf>,
    links: bool,
}

impl Cache {
    /// The cache in the folder `root`, which need not exist. What apr remembers about it is kept in the folder `state`, if
    /// there is one.
    pub fn new(root: impl Into<PathBuf>, state: Option<PathBuf>) -> Cache {
        let root = root.into();
        // Links are compared by their path: one that is relative would depend on the working folder.
        let root = std::path::absolute(&root).unwrap_or(root);
        Cache { root, state, links: true }
    }

    /// This cache, with files in snapshots in place of links (`HF_HUB_DISABLE_SYMLINKS`).
    pub fn without_links(self) -> Cache {
        Cache { links: false, ..self }
    }

    /// The folder of the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of what apr remembers about caches.
    pub fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// Returns whether snapshots may hold links.
    pub(super) fn has_links(&self) -> bool {
        self.links
    }

    /// A repository, which need not be in the cache.
    pub fn repository(&self, id: &RepositoryId) -> Repository {
        self.repository_at(id.folder())
    }

    /// The repository in the folder of this name.
    pub(super) fn repository_at(&self, folder: String) -> Repository {
        Repository { cache: self.clone(), folder }
    }

    /// Bytes that are free for files in the cache; `None` if the system does not tell.
    pub fn free_bytes(&self) -> Option<u64> {
        let there = self.root.ancestors().find(|folder| folder.is_dir())?;
        let stat = rustix::fs::statvfs(there).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }

    /// Makes the folder of the cache, and its tag.
    ///
    /// # Errors
    /// Io.
    pub fn create(&self) -> Result<()> {
        create_folder(&self.root)?;
        let tag = self.root.join("CACHEDIR.TAG");
        match std::fs::File::create_new(&tag) {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, TAG.as_bytes()).map_err(|e| io_error(&e, "write", &tag))
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(io_error(&error, "write in the cache", &self.root)),
        }
    }
}

/// A repository in a cache.
#[derive(Clone, Debug)]
pub struct Repository {
    pub(super) cache: Cache,
    folder: String,
}

impl Repository {
    /// Its folder.
    pub fn path(&self) -> PathBuf {
        self.cache.root.join(&self.folder)
    }

    /// The name of its folder: `models--org--name`.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The folder of a commit's files, which need not exist.
    ///
    /// # Errors
    /// Malformed for anything but a commit.
    pub fn snapshot(&self, commit: &str) -> Result<PathBuf> {
        check_commit(commit)?;
        Ok(self.snapshots().join(commit))
    }

    /// The folder of the snapshots.
    pub(super) fn snapshots(&self) -> PathBuf {
        self.path().join("snapshots")
    }

    /// The folder of the blobs.
    pub(super) fn blobs(&self) -> PathBuf {
        self.path().join("blobs")
    }

    /// The folder of its locks.
    pub(super) fn locks(&self) -> PathBuf {
        self.cache.root.join(".locks").join(&self.folder)
    }
}

/// Fails for anything but a commit, before it becomes part of a path.
///
/// # Errors
/// Malformed.
pub(super) fn check_commit(commit: &str) -> Result<()> {
    if is_commit(commit) {
        return Ok(());
    }
    let message = format!("`{}` is not a commit, which has 40 hexadecimal digits", escape(commit, 80));
    Err(Error::malformed(message).hint("check that the endpoint is a hub"))
}
