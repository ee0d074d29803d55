//! The small files of a cache: read whole, and replaced whole, so that no reader sees half of one.

use super::error::io_error;
use apr_sdk::{Error, Result};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a small file. The listing of a repository has some 200 bytes a file: this is 10^5 files and more.
const MOST: u64 = 64 << 20;

/// The content of a small file; `None` if it is absent, or is no regular file.
///
/// # Errors
/// Io; LimitExceeded above 64 MiB.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    // A pipe with this name must not make the reader wait.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error(&error, "read", path)),
    };
    let meta = file.metadata().map_err(|error| io_error(&error, "read", path))?;
    if !meta.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| io_error(&error, "read", path))?;
    if bytes.len() as u64 > MOST {
        let message = format!("the file exceeds the limit of {MOST} bytes");
        return Err(Error::limit(message).in_file(path.display().to_string()));
    }
    Ok(Some(bytes))
}

/// Returns whether an error says that there is nothing at a path.
pub(super) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Replaces a small file, or makes it, with the folders above it: writes a file beside it and renames that.
///
/// # Errors
/// Io.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder)?;
    let beside = beside(path);
    let written = write_new(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        io_error(&error, "write", path)
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// A name beside `path` that no other process and no other thread uses. Ends in `.tmp`, as those of the hub's client do.
pub(super) fn beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.{}.{count}.tmp", std::process::id()))
}

/// Makes a folder and those above it.
///
/// # Errors
/// Io.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| io_error(&error, "create this folder", folder))
}
