//! The lock file: pins plugins by the digest of their file, so that another build with the same id is
//! refused: step 4 of loading.

use super::trust::untrusted;
use crate::storage::small_file::{open_regular, read_bytes};
use apr_sdk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// A pinned plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEntry {
    /// The plugin's id.
    pub id: String,
    /// SHA-256 of its library, in lower-case hexadecimal.
    pub sha256: String,
    /// The kind of place where it was found when it was pinned; for people.
    #[serde(default)]
    pub tier: String,
}

/// The contents of the lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The pinned plugins, by id.
    #[serde(default)]
    pub plugins: Vec<LockEntry>,
}

impl Lock {
    /// Reads a lock file (JSON); a missing file counts as empty.
    ///
    /// # Errors
    /// Plugin if it exists but cannot be read: it must not be ignored.
    pub fn read(path: &Path) -> Result<Lock> {
        let text = match read_bytes(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lock::default()),
            Err(error) => return Err(unreadable(path, &error.to_string())),
        };
        serde_json::from_slice(&text).map_err(|error| unreadable(path, &error.to_string()))
    }

    /// Pins plugin `id` to one build, replacing an earlier pin.
    pub fn pin(&mut self, id: &str, sha256: String, tier: &str) {
        self.forget(id);
        self.plugins.push(LockEntry { id: id.to_owned(), sha256, tier: tier.to_owned() });
    }

    /// Removes the pin of `id`; returns whether there was one.
    pub fn forget(&mut self, id: &str) -> bool {
        let before = self.plugins.len();
        self.plugins.retain(|entry| entry.id != id);
        self.plugins.len() < before
    }

    /// Writes the lock file through a temporary file and a rename: half a lock file would lock out
    /// everything.
    ///
    /// # Errors
    /// Io.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.put(path).map_err(|error| {
            let message = format!("cannot write the lock file: {error}");
            Error::io(message).in_file(path.display().to_string())
        })
    }

    fn put(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let temporary = path.with_extension(format!("lock-{}", std::process::id()));
        let put = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
        if put.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        put
    }
}

fn unreadable(path: &Path, why: &str) -> Error {
    let message = format!("cannot read the lock file `{}`", path.display());
    Error::plugin(message).cause(why).hint("repair or remove it")
}

/// SHA-256 of a file, in lower-case hexadecimal.
///
/// # Errors
/// Io if it cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    let digest = digest(path).map_err(|error| Error::io(format!("cannot read it: {error}")))?;
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn digest(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut file = open_regular(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest.finalize().into()),
            n => digest.update(&buffer[..n]),
        }
    }
}

/// Checks the library of plugin `id` against the lock file.
///
/// # Errors
/// Plugin with `E_UNTRUSTED`.
pub(super) fn check(path: &Path, id: &str, lock: &Result<Lock>, listed_only: bool) -> Result<()> {
    let lock = lock.as_ref().map_err(Error::clone)?;
    let mut entries = lock.plugins.iter().filter(|entry| entry.id == id).peekable();
    if entries.peek().is_none() {
        return if listed_only {
            Err(untrusted(format!("the lock file does not list plugin `{id}`")))
        } else {
            Ok(())
        };
    }
    let digest = sha256(path)?;
    if entries.any(|entry| entry.sha256.eq_ignore_ascii_case(&digest)) {
        return Ok(());
    }
    Err(untrusted(format!("its SHA-256 is {digest}, but the lock file pins another build of `{id}`")))
}
