//! The contents of a cache: every repository with its revisions, blobs and unfinished downloads, also those of other kinds and
//! those that are damaged.

mod scan;
mod walk;

pub use walk::walk;

use super::memory::{Ownership, Stamp};
use super::repository::{Cache, Repository};
use super::shared_store;
use apr_sdk::Result;
use std::path::PathBuf;
use walk::entries;

/// Names that are no repositories, and that systems leave in any folder.
const PASSED_OVER: [&str; 5] = [".locks", "CACHEDIR.TAG", ".DS_Store", "Thumbs.db", "desktop.ini"];

/// All that is in a cache.
#[derive(Debug, Default)]
pub struct Contents {
    /// The repositories, by the names of their folders.
    pub repositories: Vec<RepositoryContents>,
    /// The payloads of the store that repositories share.
    pub payloads: Vec<Payload>,
    /// Paths that belong to no cache.
    pub strays: Vec<PathBuf>,
}

/// The kind of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A model.
    Model,
    /// A data set, which apr neither fetches nor opens.
    Dataset,
    /// A program of the hub.
    Space,
    /// Code for a device.
    Kernel,
}

/// Contents of the folder of a repository.
#[derive(Debug)]
pub struct RepositoryContents {
    /// The name of the folder.
    pub folder: String,
    /// The kind, by the folder's name.
    pub kind: Kind,
    /// The name of the repository, as the hub writes it.
    pub name: String,
    /// The snapshots, by commit.
    pub revisions: Vec<Revision>,
    /// The blobs, by name.
    pub blobs: Vec<Blob>,
    /// Downloads that are not finished.
    pub partials: Vec<PartialFile>,
    /// Faults of it, a sentence each.
    pub damage: Vec<String>,
    /// Bytes of files that lie in snapshots themselves, because there were no links.
    pub loose_bytes: u64,
}

/// A snapshot.
#[derive(Debug)]
pub struct Revision {
    /// Its commit.
    pub commit: String,
    /// The branches and tags that were at it.
    pub refs: Vec<String>,
    /// The files.
    pub files: Vec<SnapshotFile>,
}

/// A file of a snapshot.
#[derive(Debug)]
pub struct SnapshotFile {
    /// Its path in the snapshot.
    pub name: String,
    /// The name of the blob that it is a link to; `None` for a file that lies in the snapshot itself.
    pub blob: Option<String>,
    /// Its bytes; `None` if its link leads nowhere.
    pub bytes: Option<u64>,
    /// True if apr made it.
    pub is_own: bool,
}

/// A blob.
#[derive(Debug)]
pub struct Blob {
    /// Its name.
    pub name: String,
    /// Its bytes; 0 if it is a link that leads nowhere.
    pub bytes: u64,
    /// The payload in the shared store that it is a link to.
    pub payload: Option<PathBuf>,
    /// True if apr fetched it.
    pub is_own: bool,
}

/// A download that is not finished.
#[derive(Debug)]
pub struct PartialFile {
    /// The name of its file.
    pub name: String,
    /// The name of the blob that it would become.
    pub blob: String,
    /// Bytes of its file.
    pub bytes: u64,
    /// True if it is of apr, which resumes it; other programs do not.
    pub is_own: bool,
}

/// A payload of the shared store.
#[derive(Debug)]
pub struct Payload {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
}

impl Kind {
    /// The kind in a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Dataset => "dataset",
            Kind::Space => "space",
            Kind::Kernel => "kernel",
        }
    }
}

impl RepositoryContents {
    /// Bytes of the repository: of its blobs, also of those in the shared store, and of what is not finished.
    pub fn bytes(&self) -> u64 {
        let blobs = self.blobs.iter().map(|blob| blob.bytes);
        let partials = self.partials.iter().map(|partial| partial.bytes);
        blobs.chain(partials).sum::<u64>() + self.loose_bytes
    }

    /// The revision that a user means by a commit, the start of one that no other has, a branch or a tag.
    pub fn revision(&self, named: &str) -> Option<&Revision> {
        const SHORTEST: usize = 4;
        let exact =
            |revision: &&Revision| revision.commit == named || revision.refs.iter().any(|r| r == named);
        self.revisions.iter().find(exact).or_else(|| {
            let starts = |revision: &&Revision| named.len() >= SHORTEST && revision.commit.starts_with(named);
            let mut found = self.revisions.iter().filter(starts);
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// Bytes of a revision's files, each blob once.
    pub fn bytes_of(&self, revision: &Revision) -> u64 {
        let mut seen = std::collections::HashSet::new();
        let once =
            revision.files.iter().filter(|file| file.blob.as_ref().is_none_or(|blob| seen.insert(blob)));
        once.filter_map(|file| file.bytes).sum()
    }

    /// Number of files in all snapshots.
    pub fn n_files(&self) -> usize {
        self.revisions.iter().map(|revision| revision.files.len()).sum()
    }

    /// Returns whether apr put anything into it that is still there.
    pub fn is_own(&self) -> bool {
        let files = self.revisions.iter().flat_map(|revision| &revision.files);
        self.blobs.iter().any(|blob| blob.is_own)
            || self.partials.iter().any(|partial| partial.is_own)
            || files.into_iter().any(|file| file.is_own)
    }

    /// The name as users type it: `datasets/org/name` for another kind.
    pub fn shown(&self) -> String {
        match self.kind {
            Kind::Model => self.name.clone(),
            kind => format!("{}s/{}", kind.word(), self.name),
        }
    }
}

impl Contents {
    /// The repository that a user means by `org/name`, by `datasets/org/name` for another kind, or by its folder's name.
    pub fn repository(&self, named: &str) -> Option<&RepositoryContents> {
        let named = named.strip_prefix("hf://").unwrap_or(named);
        let named = named.strip_prefix("models/").unwrap_or(named);
        self.repositories.iter().find(|of| of.shown() == named || of.folder == named)
    }

    /// Bytes of everything in the cache; a payload that several repositories share counts once.
    pub fn bytes(&self) -> u64 {
        let own = |repository: &RepositoryContents| {
            let shared = repository.blobs.iter().filter(|blob| blob.payload.is_some()).map(|blob| blob.bytes);
            repository.bytes() - shared.sum::<u64>()
        };
        self.repositories.iter().map(own).sum::<u64>() + self.payloads.iter().map(|p| p.bytes).sum::<u64>()
    }
}

impl Cache {
    /// Everything in the cache; nothing if there is no cache.
    ///
    /// # Errors
    /// Io; LimitExceeded.
    pub fn contents(&self) -> Result<Contents> {
        let ownership = self.ownership();
        let mut contents = Contents::default();
        let is_store = shared_store::is_marked(self.root());
        // The folder itself may be a link: the user named it.
        let root = self.root().canonicalize().unwrap_or(self.root().to_owned());
        for (path, meta) in entries(&root)? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let path = self.root().join(&name);
            match scan::kind_and_name(&name) {
                _ if PASSED_OVER.contains(&name.as_str()) => {}
                _ if name == "blobs" && is_store => contents.payloads = scan::payloads(&path)?,
                Some((kind, repository)) => {
                    contents
                        .repositories
                        .push(scan::repository(self, &name, kind, repository, &meta, &ownership)?);
                }
                None => contents.strays.push(path),
            }
        }
        Ok(contents)
    }

    /// The repository of these contents.
    pub fn repository_of(&self, contents: &RepositoryContents) -> Repository {
        self.repository_at(contents.folder.clone())
    }

    /// Returns whether apr made the file or link at `path` in this cache.
    fn is_own(&self, path: &std::path::Path, meta: &std::fs::Metadata, ownership: &Ownership) -> bool {
        path.strip_prefix(self.root()).is_ok_and(|below| ownership.has(below, &Stamp::of(meta)))
    }
}
