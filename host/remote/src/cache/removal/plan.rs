//! Plans the removal of a repository or a revision, and has the steps that all plans are made of.

use super::{Removal, Step, Subject, below};
use crate::cache::blob_name::BlobName;
use crate::cache::contents::{Contents, PartialFile, RepositoryContents, Revision, walk};
use crate::cache::partial::journal_path;
use crate::cache::repository::{Cache, Repository};
use crate::cache::shared_store;
use apr_sdk::{Error, Result, escape};
use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folders of a repository in the order in which they go: what refers to something before what it refers to.
const ORDER: [&str; 5] = ["snapshots", "refs", ".no_exist", "trees", "blobs"];

impl Cache {
    /// Plans to remove a repository, or these of its revisions with what only they refer to.
    ///
    /// # Errors
    /// NotFound for a commit that is none of its revisions; Io, also if another process is fetching a file of the repository.
    pub fn plan_removal(&self, repository: &RepositoryContents, commits: Option<&[&str]>) -> Result<Removal> {
        let mut plan = Plan::new(self);
        let shown = self.root().join(&repository.folder).display().to_string();
        if let Some(blob) = plan.busy(repository).first() {
            let error = Error::io(format!("another process is downloading its blob {blob}"));
            return Err(error.in_file(shown).hint("wait for it to finish, or stop it"));
        }
        let Some(commits) = commits else {
            plan.repository(repository)?;
            return Ok(plan.finish());
        };
        let is_there = |commit: &&&str| repository.revisions.iter().any(|of| of.commit == **commit);
        if let Some(gone) = commits.iter().find(|commit| !is_there(commit)) {
            let error = Error::not_found(format!("the cache has no snapshot of `{}`", escape(gone, 80)));
            return Err(error.in_file(shown).hint("run `apr cache ls` to list the revisions that are there"));
        }
        // The last ones take the repository with them.
        match repository.revisions.iter().all(|revision| commits.contains(&revision.commit.as_str())) {
            true => plan.repository(repository)?,
            false => plan.revisions(repository, commits)?,
        }
        Ok(plan.finish())
    }
}

/// A removal that is being planned.
pub struct Plan<'a> {
    pub cache: &'a Cache,
    pub removal: Removal,
    /// The paths that go, so that none is listed twice.
    pub listed: HashSet<PathBuf>,
    /// Payloads that a blob among these leads to.
    payloads: Vec<PathBuf>,
    /// Bytes so far, payloads apart.
    pub bytes: u64,
}

impl Plan<'_> {
    pub fn new(cache: &Cache) -> Plan<'_> {
        let removal = Removal::default();
        Plan { cache, removal, listed: HashSet::new(), payloads: Vec::new(), bytes: 0 }
    }

    pub fn open(&self, repository: &RepositoryContents) -> Repository {
        self.cache.repository_at(repository.folder.clone())
    }

    /// Everything in the folder of a repository.
    pub fn repository(&mut self, repository: &RepositoryContents) -> Result<()> {
        let before = self.bytes;
        let path = self.open(repository).path();
        for part in ORDER {
            self.everything(&path.join(part))?;
        }
        self.everything(&path)?;
        self.payloads.extend(repository.blobs.iter().filter_map(|blob| blob.payload.clone()));
        self.subject(repository, "repository".to_owned(), before, repository.is_own());
        Ok(())
    }

    /// Revisions, and the blobs that no other refers to.
    fn revisions(&mut self, repository: &RepositoryContents, commits: &[&str]) -> Result<()> {
        let goes = |revision: &Revision| commits.contains(&revision.commit.as_str());
        let still = repository.referenced(&|revision, _| goes(revision));
        for revision in repository.revisions.iter().filter(|revision| goes(revision)) {
            let before = self.bytes;
            self.snapshot(repository, revision)?;
            let files = revision.files.iter().filter_map(|file| file.blob.as_deref());
            let names: HashSet<&str> = files.filter(|blob| !still.contains(blob)).collect();
            for blob in repository.blobs.iter().filter(|blob| names.contains(blob.name.as_str())) {
                self.blob(repository, &blob.name, blob.payload.as_deref());
            }
            let what = format!("revision {}", revision.commit);
            self.subject(repository, what, before, revision.files.iter().any(|file| file.is_own));
        }
        Ok(())
    }

    /// A snapshot, and what else is kept about its commit.
    pub fn snapshot(&mut self, repository: &RepositoryContents, revision: &Revision) -> Result<()> {
        let path = self.open(repository).path();
        self.everything(&path.join("snapshots").join(&revision.commit))?;
        for name in &revision.refs {
            self.file(&path.join("refs").join(name));
        }
        self.everything(&path.join(".no_exist").join(&revision.commit))?;
        self.file(&path.join("trees").join(format!("{}.json", revision.commit)));
        Ok(())
    }

    /// Payloads of the shared store that nothing leads to.
    pub fn unused_payloads(&mut self, contents: &Contents) {
        self.payloads.extend(contents.payloads.iter().map(|payload| payload.path.clone()));
    }

    /// The blobs of a repository that a process is fetching.
    pub fn busy(&self, repository: &RepositoryContents) -> Vec<String> {
        let open = self.open(repository);
        let partials = repository.partials.iter().map(|partial| &partial.blob);
        let names = partials.chain(repository.blobs.iter().map(|blob| &blob.name));
        let is_busy = |name: &&String| BlobName::new(name).is_ok_and(|blob| open.is_locked(&blob));
        names.filter(is_busy).cloned().collect()
    }

    pub fn blob(&mut self, repository: &RepositoryContents, name: &str, payload: Option<&Path>) {
        let blobs = self.open(repository).blobs();
        self.file(&blobs.join(name));
        if let Ok(blob) = BlobName::new(name) {
            self.file(&journal_path(&blobs, &blob));
        }
        self.payloads.extend(payload.map(Path::to_owned));
    }

    /// An unfinished download, with its journal if it is apr's.
    pub fn partial(&mut self, repository: &RepositoryContents, partial: &PartialFile) {
        let blobs = self.open(repository).blobs();
        self.file(&blobs.join(&partial.name));
        if let Some(blob) = BlobName::new(&partial.blob).ok().filter(|_| partial.is_own) {
            self.file(&journal_path(&blobs, &blob));
        }
    }

    /// A file or link, if it is there.
    pub fn file(&mut self, path: &Path) {
        let Ok(meta) = std::fs::symlink_metadata(path) else { return };
        if !meta.is_dir() {
            self.step(path, &meta);
        }
    }

    /// A folder with everything in it, or the file or link that is there instead.
    pub fn everything(&mut self, path: &Path) -> Result<()> {
        for found in walk(path)? {
            self.step(&found.path, &found.meta);
        }
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            self.step(path, &meta);
        }
        Ok(())
    }

    pub fn step(&mut self, path: &Path, meta: &Metadata) {
        if !self.listed.insert(path.to_owned()) {
            return;
        }
        let is_last_name = meta.is_file() && meta.nlink() == 1;
        let bytes = if is_last_name { meta.len() } else { 0 };
        let identity = (!meta.is_dir()).then(|| (meta.dev(), meta.ino()));
        self.bytes += bytes;
        self.removal.steps.push(Step { below: below(self.cache, path), identity, bytes });
    }

    pub fn subject(&mut self, repository: &RepositoryContents, what: String, before: u64, is_own: bool) {
        let bytes = self.bytes - before;
        self.removal.subjects.push(Subject { repository: repository.shown(), what, bytes, is_own });
    }

    /// The removal, with the payloads that nothing leads to any more.
    pub fn finish(mut self) -> Removal {
        self.payloads.sort();
        self.payloads.dedup();
        let root = self.cache.root();
        for payload in &self.payloads {
            let bytes = std::fs::symlink_metadata(payload).map_or(0, |meta| meta.len());
            if shared_store::is_free(root, payload, &|blob| self.listed.contains(blob)) {
                self.removal.payloads.push((payload.clone(), bytes));
                let what = format!("shared blob {}", below(self.cache, payload).display());
                let subject = Subject { repository: String::new(), what, bytes, is_own: false };
                self.removal.subjects.push(subject);
            }
        }
        self.removal.kept.dedup();
        self.removal
    }
}

/// The sentence about a repository that stays.
pub fn in_use(repository: &RepositoryContents) -> String {
    format!("{}: another process is downloading it", repository.shown())
}
