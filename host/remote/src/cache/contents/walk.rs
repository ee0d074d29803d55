//! Walks a folder without following a link.

use crate::cache::error::io_error;
use crate::cache::small_file::is_absent;
use apr_sdk::{Error, Result};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// Folders within folders. Repositories have two or three.
const DEEPEST: usize = 64;
/// Entries of a folder and those below. The largest data sets have some hundred thousand files.
const MOST: usize = 1 << 22;

/// Something in a folder: a file, a link, or a folder.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Its own metadata; a link's for a link.
    pub meta: Metadata,
}

/// Everything below a folder, each folder behind what is in it; nothing if it is absent.
///
/// # Errors
/// Io; LimitExceeded.
pub fn walk(folder: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let is_folder = std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir());
    if is_folder {
        descend(folder, 0, &mut found)?;
    }
    Ok(found)
}

fn descend(folder: &Path, depth: usize, found: &mut Vec<Found>) -> Result<()> {
    for (path, meta) in entries(folder)? {
        if depth >= DEEPEST || found.len() >= MOST {
            let error = Error::limit("the folder has too many entries, or folders within folders");
            return Err(error.in_file(folder.display().to_string()));
        }
        if meta.is_dir() {
            descend(&path, depth + 1, found)?;
        }
        found.push(Found { path, meta });
    }
    Ok(())
}

/// Entries of a folder, sorted; nothing if it is absent or a link.
///
/// # Errors
/// Io.
pub fn entries(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let failed = |error: &std::io::Error| io_error(error, "list", folder);
    match std::fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        match std::fs::symlink_metadata(&path) {
            Ok(meta) => entries.push((path, meta)),
            // Somebody removed it meanwhile.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(io_error(&error, "read", &path)),
        }
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}
