//! Proofs: the digests that blobs were found to have, so that none is hashed again until it changes.

use super::stamp::Stamp;
use super::state_file::StateFile;
use crate::cache::blob_name::{BlobName, ContentDigest};
use crate::cache::error::io_error;
use crate::cache::repository::{Cache, Repository};
use apr_sdk::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The digests of blobs as they were when they were hashed; empty without a state folder.
#[derive(Debug)]
pub struct Proofs {
    file: Option<StateFile>,
    known: Mutex<HashMap<Stamp, ContentDigest>>,
}

/// The judgement of a blob by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The content is what the name says.
    Right(ContentDigest),
    /// The content has this digest, and by its name should have another.
    Wrong(ContentDigest),
    /// The name is no digest, and says nothing of the content.
    Unknown,
}

#[derive(Serialize, Deserialize)]
struct Line {
    stamp: Stamp,
    digest: ContentDigest,
}

impl Cache {
    /// The digests that are remembered of blobs.
    pub fn proofs(&self) -> Proofs {
        let file = self.state().map(proofs_file);
        let lines = file.as_ref().map(StateFile::read::<Line>).unwrap_or_default();
        let known = lines.into_iter().map(|line| (line.stamp, line.digest)).collect();
        Proofs { file, known: Mutex::new(known) }
    }

    /// Remembers the digest of the blob at `path`. Without a state folder, nothing is.
    ///
    /// # Errors
    /// Io.
    pub(in crate::cache) fn remember(&self, path: &Path, digest: &ContentDigest) -> Result<()> {
        let Some(state) = self.state() else { return Ok(()) };
        let meta = std::fs::metadata(path).map_err(|error| io_error(&error, "read", path))?;
        proofs_file(state).append(&[Line { stamp: Stamp::of(&meta), digest: digest.clone() }], newest)
    }
}

fn proofs_file(state: &Path) -> StateFile {
    StateFile::new(state.join("cache-proofs"), "apr cache proofs 1")
}

/// The newer half of the lines.
fn newest(mut lines: Vec<Line>) -> Vec<Line> {
    lines.split_off(lines.len() / 2)
}

impl Proofs {
    /// The digest of a file, if it was hashed and has not changed since.
    fn get(&self, stamp: &Stamp) -> Option<ContentDigest> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(stamp).cloned()
    }

    fn add(&self, stamp: Stamp, digest: &ContentDigest) -> Result<()> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(stamp, digest.clone());
        let line = Line { stamp, digest: digest.clone() };
        self.file.as_ref().map_or(Ok(()), |file| file.append(&[line], newest))
    }
}

impl Repository {
    /// Judges a blob by its name: hashes it, unless it is remembered. `tick` is told how many bytes more were hashed, and may
    /// stop the work.
    ///
    /// # Errors
    /// NotFound if it is not in the cache; Io, also if it changes meanwhile.
    pub fn prove(
        &self,
        blob: &BlobName,
        proofs: &Proofs,
        tick: &dyn Fn(u64) -> std::io::Result<()>,
    ) -> Result<Verdict> {
        self.judge(blob, Some(proofs), proofs, tick)
    }

    /// Judges a blob by its name, whatever is remembered of it: disks forget, too.
    ///
    /// # Errors
    /// As [`Repository::prove`].
    pub fn verify(
        &self,
        blob: &BlobName,
        proofs: &Proofs,
        tick: &dyn Fn(u64) -> std::io::Result<()>,
    ) -> Result<Verdict> {
        self.judge(blob, None, proofs, tick)
    }

    fn judge(
        &self,
        blob: &BlobName,
        remembered: Option<&Proofs>,
        proofs: &Proofs,
        tick: &dyn Fn(u64) -> std::io::Result<()>,
    ) -> Result<Verdict> {
        let Some(expected) = blob.digest() else { return Ok(Verdict::Unknown) };
        let found = self.blob(blob)?;
        let path = self.blobs().join(blob.as_str());
        let shown = path.display().to_string();
        let Some(_) = found else {
            return Err(Error::not_found("the blob is not in the cache").in_file(shown));
        };
        let failed = |error: &std::io::Error| io_error(error, "hash", &path);
        let mut file = File::open(&path).map_err(|error| failed(&error))?;
        let stamp = Stamp::of(&file.metadata().map_err(|error| failed(&error))?);
        // A digest by another algorithm proves nothing of this name.
        let known = remembered.and_then(|proofs| proofs.get(&stamp));
        let digest = match known.filter(|known| known.algorithm() == expected.algorithm()) {
            Some(digest) => digest,
            None => {
                let len = stamp.size();
                let digest = expected.of_content(&mut file, len, tick).map_err(|error| failed(&error))?;
                let after = Stamp::of(&file.metadata().map_err(|error| failed(&error))?);
                if after != stamp {
                    let error = Error::io("the file changed while it was hashed").in_file(shown);
                    return Err(error.hint("try again once nothing writes to it"));
                }
                // A memory that cannot be kept, on a full disk say, does not change the verdict.
                let _ = proofs.add(stamp, &digest);
                digest
            }
        };
        Ok(if digest == expected { Verdict::Right(digest) } else { Verdict::Wrong(digest) })
    }
}
