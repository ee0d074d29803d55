//! Plans the removal of what is of no use: downloads that were interrupted, and blobs that no snapshot refers to.

use super::Removal;
use super::plan::{Plan, in_use};
use crate::cache::contents::{Contents, RepositoryContents, walk};
use crate::cache::repository::Cache;
use apr_sdk::Result;
use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// Age after which a temporary file is nobody's: each exists for the length of one write.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Cache {
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
}

impl Plan<'_> {
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
