//! The part of the cache that belongs to one repository, and the ways into it.

use crate::cache::{
    BlobName, Cache, ContentDigest, Download, EntryLock, Partial, Proofs, Repository, Verdict,
};
use crate::file::object::Object;
use crate::file::transfer::Transfer;
use crate::http::Client;
use crate::hub::{Listed, Listing, MOST_FILES};
use crate::names::{RepositoryId, check_file, is_commit};
use apr_engine::sizes::show_size;
use apr_sdk::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The part of the cache that belongs to a repository, and what is remembered of its blobs.
#[derive(Clone)]
pub struct Store {
    id: RepositoryId,
    cache: Cache,
    repository: Repository,
    proofs: Arc<Proofs>,
    client: Arc<Client>,
}

impl Store {
    /// The part of a cache that belongs to a repository.
    pub fn new(cache: Cache, id: &RepositoryId, client: &Arc<Client>) -> Store {
        let repository = cache.repository(id);
        let proofs = Arc::new(cache.proofs());
        Store { id: id.clone(), cache, repository, proofs, client: Arc::clone(client) }
    }

    /// The repository's name.
    pub fn id(&self) -> &RepositoryId {
        &self.id
    }

    /// The client that fetches.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The repository in the cache.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The commit of a revision, as far as the cache knows it: of a branch or tag, the one that was last seen; if none was, that
    /// of the only snapshot, which is said.
    ///
    /// # Errors
    /// Io.
    pub fn commit_of(&self, revision: &str) -> Result<Option<String>> {
        if is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        if let Some(commit) = self.repository.commit_of(revision)? {
            return Ok(Some(commit));
        }
        let only = self.repository.only_commit()?;
        if let Some(commit) = &only {
            let message =
                format!("the cache does not know `{revision}`: its only snapshot is read ({commit})");
            self.client.options().observer.warn(&message);
        }
        Ok(only)
    }

    /// The files of a commit that the cache has, and how many it lacks by the listing that was kept; that is unknown without
    /// one.
    ///
    /// # Errors
    /// As [`Repository::file`].
    pub fn snapshot(&self, commit: &str) -> Result<(Listing, Option<usize>)> {
        let tree = self.repository.tree(commit)?;
        let names = match &tree {
            Some(tree) => tree.files.keys().filter(|name| check_file(name).is_ok()).cloned().collect(),
            None => files_below(&self.repository.snapshot(commit)?),
        };
        let mut listing = Listing { commit: commit.to_owned(), ..Listing::default() };
        for name in &names {
            let Some(found) = self.repository.file(commit, name)? else { continue };
            let digest = found.blob.as_ref().and_then(BlobName::digest);
            let digits = digest.as_ref().map(|digest| digest.digits().to_owned());
            let is_sha256 = matches!(digest, Some(ContentDigest::Sha256(_)));
            let (sha256, git_id) = if is_sha256 { (digits, None) } else { (None, digits) };
            listing.files.insert(name.clone(), Listed { size: Some(found.len), git_id, sha256 });
        }
        let missing = tree.map(|_| names.len() - listing.files.len());
        Ok((listing, missing))
    }

    /// The path of a blob of this length, if it is in the cache; a file of another length is none.
    ///
    /// # Errors
    /// As [`Repository::blob`].
    pub fn blob(&self, blob: &BlobName, size: Option<u64>) -> Result<Option<PathBuf>> {
        let found = self.repository.blob(blob)?.filter(|found| size.is_none_or(|size| size == found.len));
        Ok(found.map(|found| found.path))
    }

    /// Hashes a blob, unless it is known to be what its name says.
    ///
    /// # Errors
    /// Failed with the code E004 if it is something else; as [`Repository::prove`].
    pub fn prove(&self, blob: &BlobName) -> Result<()> {
        let tick = |_| self.client.refuse_cancelled().map_err(|_| std::io::Error::other("stopped"));
        match self.repository.prove(blob, &self.proofs, &tick)? {
            Verdict::Right(_) | Verdict::Unknown => Ok(()),
            Verdict::Wrong(found) => {
                let path = self.repository.path().join("blobs").join(blob.as_str());
                let message = format!("the cached file is damaged: its content has {found}");
                let error = Error::failed(message).code("E004").in_file(path.display().to_string());
                Err(error
                    .hint("remove it from the cache, and run the command again: it is then fetched anew"))
            }
        }
    }

    /// The lock of a blob, unless it is long in coming: two processes that each wait for what the other holds would wait for
    /// ever.
    ///
    /// # Errors
    /// Cancelled; Io.
    pub fn lock_soon(&self, blob: &BlobName) -> Result<EntryLock> {
        let late = Cell::new(0);
        self.repository.lock(blob, &|path: Option<&Path>| {
            if let Some(path) = path {
                late.set(late.get() + 1);
                let why = format!("another process holds {}", path.display());
                self.client.options().observer.waits(&why);
            }
            if late.get() == 3 {
                return Err(Error::io("another process still fetches it"));
            }
            self.client.refuse_cancelled()
        })
    }

    /// The lock of a blob, which the hub's client takes too; says so if it is long in coming.
    ///
    /// # Errors
    /// Cancelled; Io.
    pub fn lock(&self, blob: &BlobName) -> Result<EntryLock> {
        self.repository.lock(blob, &|late: Option<&Path>| {
            if let Some(path) = late {
                let why = format!("another process holds {}", path.display());
                self.client.options().observer.waits(&why);
            }
            self.client.refuse_cancelled()
        })
    }

    /// Returns whether a blob in the cache is what its name says. One that is not is about to be fetched anew, which is said.
    ///
    /// # Errors
    /// As [`Repository::prove`].
    pub fn is_right(&self, blob: &BlobName) -> Result<bool> {
        match self.prove(blob) {
            Err(error) if error.kind() == ErrorKind::Failed => {
                self.client.options().observer.warn(error.message());
                Ok(false)
            }
            proved => proved.map(|()| true),
        }
    }

    /// Bytes that are free for files in the cache, as far as the system tells.
    pub fn free_bytes(&self) -> Option<u64> {
        self.cache.free_bytes()
    }

    /// Notes the commit of a revision; a commit needs no note.
    ///
    /// # Errors
    /// Io.
    pub fn note_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if is_commit(revision) { Ok(()) } else { self.repository.set_ref(revision, commit) }
    }

    /// Gives a blob its name in the snapshot of a commit.
    ///
    /// # Errors
    /// As [`Repository::link`].
    pub fn link(&self, commit: &str, name: &str, blob: &BlobName) -> Result<()> {
        self.repository.link(commit, name, blob, false).map(drop)
    }

    /// Unfinished download of a file that is not in the cache yet, under its lock.
    ///
    /// # Errors
    /// Io, also if the disk has too little space.
    pub fn partial(
        &self,
        object: &Object,
        lock: EntryLock,
        blob: &BlobName,
        commit: &str,
    ) -> Result<Partial> {
        let download = Download { commit: commit.to_owned(), blob: blob.clone(), size: object.size() };
        let partial = self.repository.partial(lock, download)?;
        let missing = object.size() - partial.done();
        match self.cache.free_bytes() {
            Some(free) if free < missing => {
                let message = format!(
                    "the disk of the cache has {} left, and the file needs {}",
                    show_size(free),
                    show_size(missing)
                );
                let error = Error::io(message).in_file(self.cache.root().display().to_string());
                Err(error
                    .hint("free some space (`apr cache ls`), or set APR_CACHE to a folder on another disk"))
            }
            _ => Ok(partial),
        }
    }

    /// Ends the transfer of a [`Store::partial`]: waits, verifies, publishes, and puts the file into the snapshot of its commit.
    ///
    /// # Errors
    /// The failure that ended the transfer; Failed with the code E004 for content that is not what the hub promised; Io.
    pub fn end(&self, transfer: &Transfer, commit: &str, name: &str) -> Result<()> {
        let Some(verified) = transfer.finish()? else { return Ok(()) };
        let published = self.repository.publish(verified)?;
        if published.before == crate::cache::Before::Other {
            let message = format!("the cache had a damaged copy of {name}, which was replaced");
            self.client.options().observer.warn(&message);
        }
        self.repository.link(commit, name, &published.blob, true).map(drop)
    }
}

/// The names of the files in a folder and those below it, as far as they are names.
fn files_below(folder: &Path) -> Vec<String> {
    /// Folders in folders.
    const DEEPEST: usize = 16;
    let mut names = Vec::new();
    let mut waiting = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{prefix}{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEEPEST => {
                    waiting.push((entry.path(), format!("{name}/"), depth + 1));
                }
                Ok(kind) if !kind.is_dir() && names.len() < MOST_FILES => names.push(name),
                _ => {}
            }
        }
    }
    names.retain(|name| check_file(name).is_ok());
    names.sort();
    names
}
