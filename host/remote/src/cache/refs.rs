//! Refs: the commit that a branch or tag was at when it was last looked up.

use super::repository::{Repository, check_commit};
use super::small_file;
use crate::names::{check_revision, is_commit};
use apr_sdk::{Error, Result, escape};
use std::path::PathBuf;
use std::time::Duration;

/// Wait before an empty ref is read again: old clients empty it before they write it.
const RACE: Duration = Duration::from_millis(20);

impl Repository {
    /// The commit that a revision was at when it was last looked up; itself for a commit, `None` if it never was.
    ///
    /// # Errors
    /// InvalidArgument for a name that no revision can have; Malformed for a ref that holds something else; Io.
    pub fn commit_of(&self, revision: &str) -> Result<Option<String>> {
        if is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        let path = self.ref_path(revision)?;
        match settled(|| self.read_ref(revision))? {
            Some(commit) if is_commit(&commit) => Ok(Some(commit)),
            Some(other) if !other.is_empty() => {
                let message = format!("the ref holds `{}`, which is not a commit", escape(&other, 80));
                let error = Error::malformed(message).in_file(path.display().to_string());
                Err(error.hint("remove the file; the next download writes it anew"))
            }
            _ => Ok(None),
        }
    }

    /// Notes that a revision is at this commit. A ref that says so already is not written, and none is for a commit.
    ///
    /// # Errors
    /// InvalidArgument for a name that no revision can have; Malformed for anything but a commit; Io.
    pub fn set_ref(&self, revision: &str, commit: &str) -> Result<()> {
        check_commit(commit)?;
        if is_commit(revision) || self.read_ref(revision)?.as_deref() == Some(commit) {
            return Ok(());
        }
        // No line feed: the hub's own client would take it for a part of the commit.
        small_file::replace(&self.ref_path(revision)?, commit.as_bytes())
    }

    fn read_ref(&self, revision: &str) -> Result<Option<String>> {
        let bytes = small_file::read(&self.ref_path(revision)?)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
    }

    fn ref_path(&self, revision: &str) -> Result<PathBuf> {
        check_revision(revision)?;
        Ok(self.path().join("refs").join(revision))
    }
}

/// Result of `read`, or of reading again a moment later if that is empty.
fn settled(read: impl Fn() -> Result<Option<String>>) -> Result<Option<String>> {
    let content = read()?;
    if content.as_ref().is_some_and(String::is_empty) {
        std::thread::sleep(RACE);
        return read();
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn an_empty_ref_is_read_again() {
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            Ok(Some(if reads.get() == 1 { String::new() } else { "0123".to_owned() }))
        };
        assert_eq!((settled(read).unwrap().as_deref(), reads.get()), (Some("0123"), 2));
        assert_eq!((settled(read).unwrap().as_deref(), reads.get()), (Some("0123"), 3));
    }
}
