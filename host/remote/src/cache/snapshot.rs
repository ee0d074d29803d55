//! Snapshots: the files of a commit, each a link to its blob.

use super::blob_name::BlobName;
use super::error::io_error;
use super::repository::{Repository, check_commit};
use super::shared_store;
use super::small_file::{create_folder, is_absent};
use super::tree::Tree;
use crate::names::{check_file, is_commit};
use apr_sdk::{Error, Result};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file that is in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// Its path: in a snapshot, or that of a blob.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// Its blob; `None` for a file that lies in a snapshot itself, because there were no links.
    pub blob: Option<BlobName>,
}

impl Repository {
    /// A file of a commit, through its links; `None` if it is not in the cache, or its link leads nowhere.
    ///
    /// # Errors
    /// Malformed for a name that leads out of the snapshot, or a link that leads out of the cache; Io.
    pub fn file(&self, commit: &str, name: &str) -> Result<Option<CachedFile>> {
        check_file(name)?;
        self.cached(&self.snapshot(commit)?.join(name))
    }

    /// A blob; `None` if it is not in the cache, or its link leads nowhere.
    ///
    /// # Errors
    /// Malformed for a link that leads out of the cache; Io.
    pub fn blob(&self, name: &BlobName) -> Result<Option<CachedFile>> {
        let found = self.cached(&self.blobs().join(name.as_str()))?;
        Ok(found.map(|found| CachedFile { blob: Some(name.clone()), ..found }))
    }

    fn cached(&self, path: &Path) -> Result<Option<CachedFile>> {
        let failed = |error: &std::io::Error| io_error(error, "open", path);
        let (meta, resolved) = match std::fs::metadata(path).and_then(|meta| Ok((meta, path.canonicalize()?)))
        {
            Ok(found) => found,
            Err(error) if leads_nowhere(&error) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        if !meta.is_file() {
            return Ok(None);
        }
        self.check_confined(path, &resolved)?;
        let link = std::fs::read_link(path).ok();
        let name = link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let blob = name.and_then(|name| BlobName::new(name).ok());
        Ok(Some(CachedFile { path: path.to_owned(), len: meta.len(), blob }))
    }

    /// Fails for a file that is neither among the repository's own, nor in the store that repositories share.
    fn check_confined(&self, path: &Path, resolved: &Path) -> Result<()> {
        let within = |folder: PathBuf| folder.canonicalize().is_ok_and(|folder| resolved.starts_with(folder));
        let root = self.cache.root();
        let in_store = || root.canonicalize().is_ok_and(|root| shared_store::is_payload(&root, resolved));
        if within(self.blobs()) || within(self.snapshots()) || in_store() {
            return Ok(());
        }
        let error = Error::malformed("the link points outside the cache").in_file(path.display().to_string());
        Err(error.hint("remove the link; the next download makes it anew"))
    }

    /// The commits that there are snapshots of, sorted.
    ///
    /// # Errors
    /// Io.
    pub fn commits(&self) -> Result<Vec<String>> {
        let folder = self.snapshots();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(io_error(&error, "list", &folder)),
        };
        let names = entries.flatten().filter(|entry| entry.path().is_dir());
        let mut commits: Vec<String> = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_commit(name))
            .collect();
        commits.sort();
        Ok(commits)
    }

    /// The commit of the only snapshot with a file in it; `None` if there is none, or several. Serves a machine without network that has a
    /// snapshot and no ref to it: say so to the user.
    ///
    /// # Errors
    /// Io.
    pub fn only_commit(&self) -> Result<Option<String>> {
        let mut commits = self.commits()?;
        let snapshots = self.snapshots();
        commits.retain(|commit| {
            std::fs::read_dir(snapshots.join(commit)).is_ok_and(|mut all| all.next().is_some())
        });
        Ok(if commits.len() == 1 { commits.pop() } else { None })
    }

    /// The files of a listing that a commit's snapshot lacks, or has at another length; sorted. Names that no system can
    /// hold are not among them.
    ///
    /// # Errors
    /// As [`Repository::file`].
    pub fn missing(&self, commit: &str, tree: &Tree) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for (name, file) in tree.files.iter().filter(|(name, _)| check_file(name).is_ok()) {
            if self.file(commit, name)?.is_none_or(|found| found.len != file.size) {
                missing.push(name.clone());
            }
        }
        Ok(missing)
    }

    /// Returns whether it is known that a commit has no such file.
    ///
    /// # Errors
    /// Malformed for a name that leads out of the folder.
    pub fn is_absent(&self, commit: &str, name: &str) -> Result<bool> {
        Ok(std::fs::metadata(self.absence(commit, name)?).is_ok_and(|meta: Metadata| meta.is_file()))
    }

    /// Notes that a commit has no such file, which the hub said together with the commit.
    ///
    /// # Errors
    /// Malformed for a name that leads out of the folder; Io.
    pub fn set_absent(&self, commit: &str, name: &str) -> Result<()> {
        let path = self.absence(commit, name)?;
        path.parent().map_or(Ok(()), create_folder)?;
        match std::fs::File::create_new(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(io_error(&error, "write", &path)),
            _ => Ok(()),
        }
    }

    fn absence(&self, commit: &str, name: &str) -> Result<PathBuf> {
        check_commit(commit)?;
        check_file(name)?;
        Ok(self.path().join(".no_exist").join(commit).join(name))
    }
}

/// Returns whether an error says that a path, or the link at it, leads nowhere.
pub(super) fn leads_nowhere(error: &std::io::Error) -> bool {
    is_absent(error) || error.raw_os_error() == Some(LOOP)
}

/// The system's number of a circular link.
const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();
