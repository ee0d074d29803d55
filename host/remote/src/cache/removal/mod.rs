//! Removals: planned as a list, announced by it, and carried out by it and nothing else.

mod clear;
mod garbage;
mod plan;
mod unlink;

use super::repository::Cache;
use super::shared_store;
use apr_sdk::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use unlink::Root;

/// Files and folders to remove from a cache, in an order that leaves no link to what is gone.
#[derive(Debug, Default)]
pub struct Removal {
    /// Files, links and folders.
    steps: Vec<Step>,
    /// Payloads of the shared store that nothing leads to afterwards, and their bytes.
    payloads: Vec<(PathBuf, u64)>,
    /// Things that go, as users know them.
    pub subjects: Vec<Subject>,
    /// Reasons why something stays that was meant, a sentence each.
    pub kept: Vec<String>,
}

/// Something that users know and that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The repository, `org/name` or `datasets/org/name`; empty for what belongs to none.
    pub repository: String,
    /// The thing: `revision 0123…`, `blob …`, `partial download …`.
    pub what: String,
    /// Bytes that this frees.
    pub bytes: u64,
    /// True if apr put it there.
    pub is_own: bool,
}

/// One thing that is removed.
#[derive(Debug)]
struct Step {
    /// Its path in the cache.
    below: PathBuf,
    /// Its device and inode when it was planned; `None` for a folder, which goes only if it is empty.
    identity: Option<(u64, u64)>,
    /// Bytes that it frees.
    bytes: u64,
}

/// Result of a removal.
#[derive(Debug, Default)]
pub struct Removed {
    /// Bytes that were freed.
    pub bytes: u64,
    /// Files and links that were removed.
    pub files: usize,
    /// Reasons why something stayed, a sentence each.
    pub left: Vec<String>,
}

impl Removal {
    /// Bytes that it frees.
    pub fn bytes(&self) -> u64 {
        let steps = self.steps.iter().map(|step| step.bytes);
        steps.chain(self.payloads.iter().map(|(_, bytes)| *bytes)).sum()
    }

    /// Returns whether nothing would be removed.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.payloads.is_empty()
    }

    /// Adds another removal behind this one.
    pub fn add(&mut self, other: Removal) {
        self.steps.extend(other.steps);
        self.payloads.extend(other.payloads);
        self.subjects.extend(other.subjects);
        self.kept.extend(other.kept);
    }

    /// Removes it all. What changed since it was planned stays, as do folders that are not empty.
    ///
    /// # Errors
    /// Io if the cache cannot be opened, or nothing in it can be removed.
    pub fn run(&self, cache: &Cache) -> Result<Removed> {
        let mut removed = Removed::default();
        if self.is_empty() {
            return Ok(removed);
        }
        let root = Root::open(cache.root())?;
        let mut first = None;
        let mut stopped = HashSet::new();
        for step in &self.steps {
            // A link that cannot be removed keeps what it leads to.
            let repository = step.below.iter().next();
            if stopped.contains(&repository) {
                continue;
            }
            let done = match step.identity {
                Some(identity) => root.remove_file(&step.below, identity),
                None => root.remove_folder(&step.below).map(|_| false),
            };
            match done {
                Ok(true) => {
                    removed.bytes += step.bytes;
                    removed.files += 1;
                }
                Ok(false) if step.identity.is_none() => {}
                Ok(false) => removed.left.push(format!("{}: it changed meanwhile", step.below.display())),
                Err(error) => {
                    let error = super::error::io_error(&error, "remove", &cache.root().join(&step.below));
                    removed.left.push(format!("{}: {}", step.below.display(), error.message()));
                    first.get_or_insert(error);
                    stopped.insert(repository);
                }
            }
        }
        for (payload, _) in &self.payloads {
            match shared_store::sweep(cache.root(), payload) {
                Ok(bytes) => removed.bytes += bytes,
                Err(error) => removed.left.push(format!("{}: {error}", payload.display())),
            }
        }
        match first {
            Some(error) if removed.files == 0 && removed.bytes == 0 => Err(nothing_removed(error)),
            _ => Ok(removed),
        }
    }
}

fn nothing_removed(error: Error) -> Error {
    error.with_hint("check that you may write to the cache; nothing was removed")
}

/// The path from the cache's folder.
fn below(cache: &Cache, path: &Path) -> PathBuf {
    path.strip_prefix(cache.root()).unwrap_or(path).to_owned()
}
