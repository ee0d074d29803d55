//! Locks of blobs: one process fetches a blob, and the others wait for it. They save work and no more: on some network
//! file systems every process gets them, so nothing is right only because a lock is held.

use super::blob_name::BlobName;
use super::error::io_error;
use super::repository::Repository;
use super::small_file::create_folder;
use apr_sdk::Result;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which whoever waits is told, and told again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// The mode of a lock file: a group that shares a cache must be able to wait for its locks.
const MODE: u32 = 0o664;

/// Holds the lock of a blob until it is dropped. The file stays, as the hub's client leaves it.
#[derive(Debug)]
pub struct EntryLock {
    /// `None` where the file system has no locks.
    _file: Option<File>,
}

impl Repository {
    /// Waits for the lock of a blob, the same one that the hub's client takes. `tick` is called before every wait, with the
    /// path of the lock file once every ten seconds; its error ends the wait.
    ///
    /// # Errors
    /// Io; what `tick` raises.
    pub fn lock(&self, blob: &BlobName, tick: &dyn Fn(Option<&Path>) -> Result<()>) -> Result<EntryLock> {
        self.lock_with(blob, PATIENCE, tick)
    }

    /// The lock of a blob if nobody holds it; `None` if somebody does.
    ///
    /// # Errors
    /// Io.
    pub(super) fn try_lock(&self, blob: &BlobName) -> Result<Option<EntryLock>> {
        let path = self.lock_path(blob);
        create_folder(&self.locks())?;
        let file = open(&path).map_err(|error| io_error(&error, "write in the cache", &path))?;
        taken(file, &path)
    }

    /// Returns whether a process holds the lock of a blob. Makes no lock file.
    pub(super) fn is_locked(&self, blob: &BlobName) -> bool {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.lock_path(blob));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The same with another patience.
    pub(super) fn lock_with(
        &self,
        blob: &BlobName,
        patience: Duration,
        tick: &dyn Fn(Option<&Path>) -> Result<()>,
    ) -> Result<EntryLock> {
        let path = self.lock_path(blob);
        let mut told = Instant::now();
        loop {
            if let Some(lock) = self.try_lock(blob)? {
                return Ok(lock);
            }
            let is_due = told.elapsed() >= patience;
            if is_due {
                told = Instant::now();
            }
            tick(is_due.then_some(path.as_path()))?;
            std::thread::sleep(PAUSE);
        }
    }

    fn lock_path(&self, blob: &BlobName) -> PathBuf {
        self.locks().join(format!("{blob}.lock"))
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    // A link with this name may lead to any file; a pipe waits for its other end.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let created = options.clone().write(true).create_new(true).mode(MODE).open(path);
    match created {
        Ok(file) => {
            // The umask must not take the group's right away. Some file systems have no modes.
            let _ = file.set_permissions(std::fs::Permissions::from_mode(MODE));
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            match options.clone().write(true).open(path) {
                // Somebody else's, without a right to write: reading suffices for a lock.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => options.read(true).open(path),
                opened => opened,
            }
        }
        Err(error) => Err(error),
    }
}

fn taken(file: File, path: &Path) -> Result<Option<EntryLock>> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(EntryLock { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => match error.kind() {
                ErrorKind::Interrupted => {}
                // A file system without locks: the names of partial files and renames must do.
                ErrorKind::Unsupported => return Ok(Some(EntryLock { _file: None })),
                _ => return Err(io_error(&error, "lock", path)),
            },
        }
    }
}
