//! Plans removals: of a repository, of a revision, of what nothing refers to, of what apr fetched.

use super::{Removal, Step, Subject, below};
use crate::cache::blob_name::BlobName;
use crate::cache::contents::{Contents, PartialFile, RepositoryContents, Revision, SnapshotFile, walk};
use crate::cache::partial::journal_path;
use crate::cache::repository::{Cache, Repository};
use crate::cache::shared_store;
use apr_sdk::{Error, Result};
use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Age after which a temporary file is nobody's: each exists for the length of one write.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The folders of a repository in the order in which they go: what refers to something before what it refers to.
const ORDER: [&str; 5] = ["snapshots", "refs", ".no_exist", "trees", "blobs"];

impl Cache {
    /// Plans to remove a repository, or one of its revisions with what only that refers to.
    ///
    /// # Errors
    /// Io, also if another process is fetching a file of the repository.
    pub fn plan_removal(&self, repository: &RepositoryContents, commit: Option<&str>) -> Result<Removal> {
        let mut plan = Plan::new(self);
        let revision = repository.revisions.iter().find(|revision| Some(revision.commit.as_str()) == commit);
        match revision {
            // The last one takes the repository with it.
            Some(revision) if repository.revisions.len() > 1 => plan.revision(repository, revision)?,
            _ => {
                let busy = plan.busy(repository);
                if let Some(blob) = busy.first() {
                    let error = Error::io(format!("another process is downloading its blob {blob}"));
                    let shown = self.root().join(&repository.folder).display().to_string();
                    return Err(error.in_file(shown).hint("wait for it to finish, or stop it"));
                }
                plan.repository(repository)?;
            }
        }
        Ok(plan.finish())
    }

    /// Plans to remove what is of no use: downloads that were interrupted, and blobs that no snapshot refers to. Those of others
    /// only with `all`; nothing that a process is fetching.
    ///
    /// # Errors
    /// Io.
    pub fn plan_gc(&self, contents: &Contents, all: bool) -> Result<Removal> {
        let mut plan = Plan::new(self);
        for repository in &contents.repositories {
            plan.garbage(repository, all)?;
        }
        if all {
            plan.unused_payloads(contents);
        }
        Ok(plan.finish())
    }

    /// Plans to remove what apr put into the cache and nobody else refers to; with `all`, every repository.
    ///
    /// # Errors
    /// Io.
    pub fn plan_clear(&self, contents: &Contents, all: bool) -> Result<Removal> {
        let mut plan = Plan::new(self);
        for repository in &contents.repositories {
            match all {
                true if plan.busy(repository).is_empty() => plan.repository(repository)?,
                true => plan.removal.kept.push(in_use(repository)),
                false => plan.own(repository)?,
            }
        }
        if all {
            plan.unused_payloads(contents);
        }
        Ok(plan.finish())
    }
}

fn in_use(repository: &RepositoryContents) -> String {
    format!("{}: another process is downloading it", repository.shown())
}

/// A removal that is being planned.
struct Plan<'a> {
    cache: &'a Cache,
    removal: Removal,
    /// The paths that go, so that none is listed twice.
    listed: HashSet<PathBuf>,
    /// Payloads that a blob among these leads to.
    payloads: Vec<PathBuf>,
    /// Bytes so far, payloads apart.
    bytes: u64,
}

impl Plan<'_> {
    fn new(cache: &Cache) -> Plan<'_> {
        let removal = Removal::default();
        Plan { cache, removal, listed: HashSet::new(), payloads: Vec::new(), bytes: 0 }
    }

    fn open(&self, repository: &RepositoryContents) -> Repository {
        self.cache.repository_at(repository.folder.clone())
    }

    /// Everything in the folder of a repository.
    fn repository(&mut self, repository: &RepositoryContents) -> Result<()> {
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

    /// A revision, and the blobs that no other refers to.
    fn revision(&mut self, repository: &RepositoryContents, revision: &Revision) -> Result<()> {
        let before = self.bytes;
        self.snapshot(repository, revision)?;
        let still = repository.referenced(&|of, _| of.commit == revision.commit);
        let files = revision.files.iter().filter_map(|file| file.blob.as_deref());
        let names: HashSet<&str> = files.filter(|blob| !still.contains(blob)).collect();
        for blob in repository.blobs.iter().filter(|blob| names.contains(blob.name.as_str())) {
            self.blob(repository, &blob.name, blob.payload.as_deref());
        }
        self.subject(repository, format!("revision {}", revision.commit), before, repository.is_own());
        Ok(())
    }

    /// A snapshot, and what else is kept about its commit.
    fn snapshot(&mut self, repository: &RepositoryContents, revision: &Revision) -> Result<()> {
        let path = self.open(repository).path();
        self.everything(&path.join("snapshots").join(&revision.commit))?;
        for name in &revision.refs {
            self.file(&path.join("refs").join(name));
        }
        self.everything(&path.join(".no_exist").join(&revision.commit))?;
        self.file(&path.join("trees").join(format!("{}.json", revision.commit)));
        Ok(())
    }

    /// Things of no use in a repository.
    fn garbage(&mut self, repository: &RepositoryContents, all: bool) -> Result<()> {
        let busy = self.busy(repository);
        for partial in repository.partials.iter().filter(|partial| all || partial.is_own) {
            if busy.contains(&partial.blob) {
                self.removal.kept.push(in_use(repository));
                continue;
            }
            let before = self.bytes;
            self.partial(repository, partial);
            self.subject(repository, format!("partial download of {}", partial.blob), before, partial.is_own);
        }
        let used = repository.referenced(&|_, _| false);
        let unused = repository.blobs.iter().filter(|blob| all || blob.is_own);
        for blob in unused.filter(|blob| !used.contains(blob.name.as_str())) {
            if busy.contains(&blob.name) {
                self.removal.kept.push(in_use(repository));
                continue;
            }
            let before = self.bytes;
            self.blob(repository, &blob.name, blob.payload.as_deref());
            self.subject(repository, format!("unused blob {}", blob.name), before, blob.is_own);
        }
        self.leftovers(repository, &busy)
    }

    /// Files that apr made for the length of one write, and journals of downloads that are no more.
    fn leftovers(&mut self, repository: &RepositoryContents, busy: &[String]) -> Result<()> {
        let open = self.open(repository);
        let blobs = open.blobs();
        let before = self.bytes;
        let n_listed = self.listed.len();
        for found in walk(&open.path())? {
            let name = found.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            let journal_of = name.strip_suffix(".apr.json").filter(|_| found.path.parent() == Some(&blobs));
            let is_lone = journal_of.is_some_and(|blob| {
                let is_busy = busy.iter().any(|busy| busy == blob);
                !is_busy && !blobs.join(format!("{blob}.apr.incomplete")).exists()
            });
            if is_lone || is_abandoned(&name, &found.meta) {
                self.file(&found.path);
            }
        }
        if self.listed.len() > n_listed {
            self.subject(repository, "temporary files".to_owned(), before, true);
        }
        Ok(())
    }

    /// Everything that apr put into a repository.
    fn own(&mut self, repository: &RepositoryContents) -> Result<()> {
        if !repository.is_own() {
            return Ok(());
        }
        let busy = self.busy(repository);
        if !busy.is_empty() {
            self.removal.kept.push(in_use(repository));
            return Ok(());
        }
        let others = repository.referenced(&|_, file| file.is_own);
        let goes = |name: &str, is_own: bool| is_own && !others.contains(name);
        let is_foreign = |revision: &Revision| revision.files.iter().any(|file| !file.is_own);
        let stays = repository.revisions.iter().any(is_foreign)
            || repository.partials.iter().any(|partial| !partial.is_own)
            || repository.blobs.iter().any(|blob| !goes(&blob.name, blob.is_own));
        if !stays {
            return self.repository(repository);
        }
        let before = self.bytes;
        let open = self.open(repository);
        for revision in &repository.revisions {
            match is_foreign(revision) {
                false => self.snapshot(repository, revision)?,
                true => {
                    let own = revision.files.iter().filter(|file: &&SnapshotFile| file.is_own);
                    own.for_each(|file| {
                        self.file(&open.snapshots().join(&revision.commit).join(&file.name));
                    });
                }
            }
        }
        for blob in repository.blobs.iter().filter(|blob| goes(&blob.name, blob.is_own)) {
            self.blob(repository, &blob.name, blob.payload.as_deref());
        }
        for partial in repository.partials.iter().filter(|partial| partial.is_own) {
            self.partial(repository, partial);
        }
        self.subject(repository, "what apr downloaded".to_owned(), before, true);
        Ok(())
    }

    /// Payloads of the shared store that nothing leads to.
    fn unused_payloads(&mut self, contents: &Contents) {
        self.payloads.extend(contents.payloads.iter().map(|payload| payload.path.clone()));
    }

    /// The blobs of a repository that a process is fetching.
    fn busy(&self, repository: &RepositoryContents) -> Vec<String> {
        let open = self.open(repository);
        let partials = repository.partials.iter().map(|partial| &partial.blob);
        let names = partials.chain(repository.blobs.iter().map(|blob| &blob.name));
        let is_busy = |name: &&String| BlobName::new(name).is_ok_and(|blob| open.is_locked(&blob));
        names.filter(is_busy).cloned().collect()
    }

    fn blob(&mut self, repository: &RepositoryContents, name: &str, payload: Option<&Path>) {
        let blobs = self.open(repository).blobs();
        self.file(&blobs.join(name));
        if let Ok(blob) = BlobName::new(name) {
            self.file(&journal_path(&blobs, &blob));
        }
        self.payloads.extend(payload.map(Path::to_owned));
    }

    /// An unfinished download, with its journal if it is apr's.
    fn partial(&mut self, repository: &RepositoryContents, partial: &PartialFile) {
        let blobs = self.open(repository).blobs();
        self.file(&blobs.join(&partial.name));
        if let Some(blob) = BlobName::new(&partial.blob).ok().filter(|_| partial.is_own) {
            self.file(&journal_path(&blobs, &blob));
        }
    }

    /// A file or link, if it is there.
    fn file(&mut self, path: &Path) {
        let Ok(meta) = std::fs::symlink_metadata(path) else { return };
        if !meta.is_dir() {
            self.step(path, &meta);
        }
    }

    /// A folder with everything in it, or the file or link that is there instead.
    fn everything(&mut self, path: &Path) -> Result<()> {
        for found in walk(path)? {
            self.step(&found.path, &found.meta);
        }
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            self.step(path, &meta);
        }
        Ok(())
    }

    fn step(&mut self, path: &Path, meta: &Metadata) {
        if !self.listed.insert(path.to_owned()) {
            return;
        }
        let is_last_name = meta.is_file() && meta.nlink() == 1;
        let bytes = if is_last_name { meta.len() } else { 0 };
        let identity = (!meta.is_dir()).then(|| (meta.dev(), meta.ino()));
        self.bytes += bytes;
        self.removal.steps.push(Step { below: below(self.cache, path), identity, bytes });
    }

    fn subject(&mut self, repository: &RepositoryContents, what: String, before: u64, is_own: bool) {
        let bytes = self.bytes - before;
        self.removal.subjects.push(Subject { repository: repository.shown(), what, bytes, is_own });
    }

    /// The removal, with the payloads that nothing leads to any more.
    fn finish(mut self) -> Removal {
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

/// Returns whether a file is one that apr made to rename it, and never came to do so.
fn is_abandoned(name: &str, meta: &Metadata) -> bool {
    let Some(stem) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp")) else { return false };
    let numbers = stem.rsplit('.').take(2);
    let is_ours =
        stem.split('.').count() > 2 && numbers.into_iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let age = meta.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    is_ours && !meta.is_dir() && age.is_some_and(|age| age > ABANDONED)
}
