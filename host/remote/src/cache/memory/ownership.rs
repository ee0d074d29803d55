//! The record of what apr put into caches that others use too: nothing else is removed unasked.

use super::stamp::Stamp;
use super::state_file::StateFile;
use crate::cache::error::io_error;
use crate::cache::repository::Cache;
use apr_sdk::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The files and links of one cache that apr made; empty without a state folder.
#[derive(Debug, Default)]
pub struct Ownership {
    /// By their paths in the cache.
    made: HashMap<PathBuf, Stamp>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    root: PathBuf,
    path: PathBuf,
    stamp: Stamp,
}

impl Cache {
    /// The record of what apr put into this cache.
    pub(in crate::cache) fn ownership(&self) -> Ownership {
        let lines = self.state().map(|state| record(state).read::<Line>()).unwrap_or_default();
        let here = lines.into_iter().filter(|line| line.root == self.root());
        Ownership { made: here.map(|line| (line.path, line.stamp)).collect() }
    }

    /// Records that apr made the file or link at `path`, which is in this cache.
    ///
    /// # Errors
    /// Io.
    pub(in crate::cache) fn own(&self, path: &Path) -> Result<()> {
        let (Some(state), Ok(below)) = (self.state(), path.strip_prefix(self.root())) else { return Ok(()) };
        let meta = std::fs::symlink_metadata(path).map_err(|error| io_error(&error, "read", path))?;
        let root = self.root().to_owned();
        record(state).append(&[Line { root, path: below.to_owned(), stamp: Stamp::of(&meta) }], there)
    }
}

fn record(state: &Path) -> StateFile {
    StateFile::new(state.join("cache-own"), "apr cache own 1")
}

/// The lines whose files are still there.
fn there(mut lines: Vec<Line>) -> Vec<Line> {
    lines.retain(|line| is_there(&line.root.join(&line.path), &line.stamp));
    lines
}

fn is_there(path: &Path, stamp: &Stamp) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| Stamp::of(&meta).is_same_content(stamp))
}

impl Ownership {
    /// Returns whether apr made what is now at `path` in the cache, `below` being its path from the cache's folder.
    pub fn has(&self, below: &Path, now: &Stamp) -> bool {
        self.made.get(below).is_some_and(|made| made.is_same_content(now))
    }
}
