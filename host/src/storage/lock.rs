//! The lock file of an output: one writer at a time.

use super::error::{io_error, path_error};
use super::open_file::is_at;
use super::target::{Target, remove};
use apr_sdk::{Error, Result};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Holds the lock file of an output until dropped.
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Locks an output.
    ///
    /// # Errors
    /// Io if another writer holds it, or the folder cannot be written.
    pub fn take(target: &Target) -> Result<Lock> {
        let path = target.beside(".apr-lock");
        Lock::at(path, &target.show(target.home()), &target.show(&target.path))
    }

    /// Locks the file at `path` in `folder`, on behalf of `output`, a name for messages.
    fn at(path: PathBuf, folder: &str, output: &str) -> Result<Lock> {
        loop {
            let mut options = OpenOptions::new();
            options.write(true);
            // A link with this name may lead to any file, chosen by someone else; a pipe waits for its
            // reader.
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
            let created = options.clone().create_new(true).open(&path);
            let is_new = created.is_ok();
            let opened = match created {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => match options.open(&path) {
                    // Its holder was done just now.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    opened => opened,
                },
                created => created,
            };
            let file = opened.map_err(|e| {
                if std::fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
                    return irregular(&path);
                }
                let error = io_error(&e, "write in this folder").in_file(folder);
                error.hint("choose a folder you can write to; nothing was written")
            })?;
            if !file.metadata().is_ok_and(|meta| meta.is_file()) {
                return Err(irregular(&path));
            }
            match untroubled(|| file.try_lock()) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let error = Error::io("another apr process is writing this output").in_file(output);
                    return Err(error.hint("wait for it to finish, or choose another name"));
                }
                Err(TryLockError::Error(e)) => {
                    if is_new {
                        remove(&path);
                    }
                    return Err(path_error(&e, "lock", &path));
                }
            }
            // The previous holder may have removed the file between our open and our lock.
            if is_at(&file, &path) {
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

/// Tries for a lock until no signal comes between: one that is handled is no reason to give up.
pub(crate) fn untroubled(
    try_lock: impl Fn() -> std::result::Result<(), TryLockError>,
) -> std::result::Result<(), TryLockError> {
    loop {
        match try_lock() {
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is held, so that no one else's lock is removed.
        remove(&self.path);
    }
}

fn irregular(path: &Path) -> Error {
    let error = Error::io("the name of apr's lock file is taken by something that is not a regular file");
    error.in_file(path.display().to_string()).hint("remove it, or write elsewhere")
}

/// Removes a lock file that nobody holds.
pub(crate) fn sweep_lock(path: &Path) {
    if path.symlink_metadata().is_ok() {
        drop(Lock::at(path.to_owned(), "", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_signal_does_not_end_the_try_and_an_error_does() {
        let tries = Cell::new(0);
        let interrupted = || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 | 2 => Err(TryLockError::Error(ErrorKind::Interrupted.into())),
                _ => Ok(()),
            }
        };
        untroubled(interrupted).unwrap();
        assert_eq!(tries.get(), 3);
        assert!(untroubled(|| Err(TryLockError::WouldBlock)).is_err());
        assert!(untroubled(|| Err(TryLockError::Error(ErrorKind::Unsupported.into()))).is_err());
    }
}
