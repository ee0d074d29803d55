//! Digests of a model's files: a SHA-256 of each, as `sha256sum` prints it.

use crate::crew::map;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::wording::hex;
use apr_sdk::{Extent, Result};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Its path relative to the model's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// Number of bytes read at once.
const PIECE: usize = 1 << 20;

/// The digests of all files that a model was opened from, each file once. They are read side by side, a piece at a time.
///
/// # Errors
/// Io; Cancelled.
pub fn file_digests(engine: &Engine, opened: &OpenedModel) -> Result<Vec<FileDigest>> {
    let mut names = HashSet::new();
    let mut files = opened.files.all();
    // A split model that was opened by one of its parts has that part once as itself and once as a part.
    files.retain(|file| !file.is_folder() && names.insert(file.name.clone()));
    let numbers = (0..).zip(opened.files.all()).filter(|(_, file)| !file.is_folder());
    opened.files.will_read(numbers.map(|(number, file)| Extent::new(number, 0, file.len)))?;
    let total = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.len));
    let done = AtomicU64::new(0);
    let digests = map(engine.crew.as_ref(), files.len(), &|_, number| {
        let file = &files[number];
        let mut sum = Sha256::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < file.len {
            engine.check_cancelled()?;
            let len = usize::try_from(file.len - at).map_or(PIECE, |left| left.min(PIECE));
            file.read_at(at, &mut piece[..len]).map_err(|error| opened.files.show(error))?;
            sum.update(&piece[..len]);
            at += len as u64;
            let done = done.fetch_add(len as u64, Ordering::Relaxed) + len as u64;
            engine.progress.bytes(done, total, &file.name);
        }
        Ok(FileDigest { name: file.name.clone(), bytes: file.len, sha256: hex(&sum.finalize()) })
    })?;
    opened.files.refuse_changed()?;
    Ok(digests)
}
