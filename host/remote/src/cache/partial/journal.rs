//! The journal of an unfinished download. It holds no address: those are signed, and expire.

use super::Download;
use super::ranges::Ranges;
use crate::cache::small_file;
use apr_sdk::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The version of the form.
const VERSION: u32 = 1;

/// State of a download: the bytes that came.
#[derive(Debug, Serialize, Deserialize)]
pub struct Journal {
    format_version: u32,
    commit: String,
    etag: String,
    size: u64,
    /// The ranges that are in the file, and durable.
    pub done: Ranges,
}

impl Journal {
    /// The journal of a download of which these ranges came.
    pub fn new(download: &Download, done: Ranges) -> Journal {
        Journal {
            format_version: VERSION,
            commit: download.commit.clone(),
            etag: download.blob.as_str().to_owned(),
            size: download.size,
            done,
        }
    }

    /// The journal at `path`; `None` if there is none that can be read.
    pub fn read(path: &Path) -> Option<Journal> {
        let bytes = small_file::read(path).ok().flatten()?;
        let journal: Journal = serde_json::from_slice(&bytes).ok()?;
        (journal.format_version == VERSION && journal.done.is_valid(journal.size)).then_some(journal)
    }

    /// Returns whether it is about the same content. The commit may be another: a blob has one content in all of them.
    pub fn agrees(&self, download: &Download) -> bool {
        self.etag == download.blob.as_str() && self.size == download.size
    }

    /// Writes it, durably.
    ///
    /// # Errors
    /// Io.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(|error| {
            Error::io(format!("cannot write the journal: {error}")).in_file(path.display().to_string())
        })?;
        small_file::replace(path, &bytes)
    }
}
