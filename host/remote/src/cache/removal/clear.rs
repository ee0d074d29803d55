//! Plans the removal of what apr put into a cache that others use too, or of everything.

use super::Removal;
use super::plan::{Plan, in_use};
use crate::cache::contents::{Contents, RepositoryContents, SnapshotFile, walk};
use crate::cache::repository::{Cache, Repository};
use apr_sdk::Result;
use std::fs::Metadata;

impl Cache {
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

impl Plan<'_> {
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
        let before = self.bytes;
        let open = self.open(repository);
        let mut others_stay = repository.partials.iter().any(|partial| !partial.is_own);
        for revision in &repository.revisions {
            let own = revision.files.iter().filter(|file: &&SnapshotFile| file.is_own);
            if own.clone().count() == revision.files.len() && !revision.files.is_empty() {
                self.snapshot(repository, revision)?;
                continue;
            }
            others_stay = others_stay || !revision.files.is_empty();
            own.for_each(|file| self.file(&open.snapshots().join(&revision.commit).join(&file.name)));
        }
        for blob in &repository.blobs {
            match goes(&blob.name, blob.is_own) {
                true => self.blob(repository, &blob.name, blob.payload.as_deref()),
                false => others_stay = true,
            }
        }
        for partial in repository.partials.iter().filter(|partial| partial.is_own) {
            self.partial(repository, partial);
        }
        if !others_stay {
            self.shell(&open)?;
        }
        let what = if others_stay { "what apr downloaded" } else { "repository" };
        self.subject(repository, what.to_owned(), before, true);
        Ok(())
    }

    /// The remains of a repository without files: refs and listings, and its folders unless something unknown is in them.
    fn shell(&mut self, open: &Repository) -> Result<()> {
        for part in ["refs", ".no_exist", "trees"] {
            self.everything(&open.path().join(part))?;
        }
        let snapshots = walk(&open.snapshots())?;
        let folders = snapshots.into_iter().filter(|found| found.meta.is_dir()).map(|found| found.path);
        for folder in folders.chain([open.snapshots(), open.blobs(), open.path()]) {
            if let Some(meta) = std::fs::symlink_metadata(&folder).ok().filter(Metadata::is_dir) {
                self.step(&folder, &meta);
            }
        }
        Ok(())
    }
}
