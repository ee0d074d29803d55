//! A folder for short-lived models: in memory if the system offers that, and always cleaned up.

use apr_sdk::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the models of a whole run may take, with room to spare.
const ROOM: u64 = 512 << 20;

/// A scratch folder. Removed on drop, unless the user named it.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Uses `keep`, which is not removed, or a new folder.
    ///
    /// # Errors
    /// Io if it cannot be created; InvalidArgument if `keep` is not empty.
    pub fn new(keep: Option<&Path>) -> Result<Scratch> {
        if let Some(path) = keep {
            let entries = std::fs::create_dir_all(path).and_then(|()| std::fs::read_dir(path));
            if entries.map_err(|e| failed(path, e))?.next().is_some() {
                let shown = path.display().to_string();
                return Err(Error::invalid_argument("the folder for --keep is not empty").in_file(shown));
            }
            return Ok(Scratch { path: path.to_owned(), keep: true });
        }
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let base = in_memory().unwrap_or_else(std::env::temp_dir);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("apr-rosetta-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch { path, keep: false }),
                // Left behind by a process with the same id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
    }

    /// Creates a subfolder.
    ///
    /// # Errors
    /// Io.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).map_err(|e| {
            Error::io(format!("cannot create a folder: {e}")).in_file(path.display().to_string())
        })?;
        Ok(path)
    }

    /// Removes what a step left behind, unless everything is kept.
    pub fn clear(&self, folder: &Path) {
        if !self.keep {
            // What cannot be removed now is removed with the folder.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot create a scratch folder: {error}")).in_file(path.display().to_string())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The system's in-memory folder, if it exists and has room.
fn in_memory() -> Option<PathBuf> {
    let memory = Path::new("/dev/shm");
    let space = rustix::fs::statvfs(memory).ok()?;
    (space.f_bavail.saturating_mul(space.f_frsize) >= ROOM).then(|| memory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_and_a_kept_one_stays() {
        let path = Scratch::new(None).unwrap().folder("a").unwrap();
        assert!(!path.exists());
        let outer = Scratch::new(None).unwrap();
        let kept = outer.folder("outer").unwrap().join("kept");
        Scratch::new(Some(&kept)).unwrap().folder("a").unwrap();
        assert!(kept.join("a").is_dir());
        assert!(Scratch::new(Some(&kept)).is_err(), "what is in it is not ours");
    }
}
