//! Places that downloads go to.

use crate::cache::{BlobName, Cache};
use crate::file::store::Store;
use apr_sdk::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The folder for unfinished downloads in a folder that the user named.
pub const UNFINISHED: &str = ".apr-download";

/// Place that files go to.
pub enum Target<'a> {
    /// The cache, and the commit whose snapshot gets a name for each file.
    Cache(&'a Store, &'a str),
    /// A folder that the user named.
    Folder {
        /// The folder.
        folder: &'a Path,
        /// True to replace what is there.
        force: bool,
    },
}

impl Target<'_> {
    /// Returns whether a file is there with its content; of one in the cache, unless only planned, that is found out by
    /// hashing it, and it gets its name in the snapshot.
    pub fn has(&self, name: &str, blob: &BlobName, bytes: u64, is_plan: bool) -> Result<bool> {
        match self {
            Target::Cache(store, commit) => {
                let is_there =
                    store.blob(blob, Some(bytes))?.is_some() && (is_plan || store.is_right(blob)?);
                if is_there && !is_plan {
                    store.link(commit, name, blob)?;
                }
                Ok(is_there)
            }
            Target::Folder { folder, force } => {
                let path = folder.join(name);
                let Ok(meta) = path.metadata() else { return Ok(false) };
                if meta.is_file() && meta.len() == bytes && has_content(&path, blob, bytes)? {
                    return Ok(true);
                }
                match *force && meta.is_file() {
                    true => Ok(false),
                    false => Err(Error::io("the file is there, with other content")
                        .code("E007")
                        .in_file(path.display().to_string())
                        .hint("pass --force to replace it")),
                }
            }
        }
    }

    /// Bytes on disk of what an earlier download left of a file.
    pub fn partly(&self, blob: &BlobName) -> u64 {
        let Target::Cache(store, _) = self else { return 0 };
        let path = store.repository().path().join("blobs").join(format!("{blob}.apr.incomplete"));
        path.metadata().map_or(0, |meta| meta.blocks() * 512)
    }

    /// Bytes that are free there, as far as the system tells.
    pub fn free_bytes(&self) -> Option<u64> {
        match self {
            Target::Cache(store, _) => store.free_bytes(),
            Target::Folder { folder, .. } => Cache::new(*folder, None).free_bytes(),
        }
    }
}

/// Returns whether a file has the content that a blob is named after.
fn has_content(path: &Path, blob: &BlobName, bytes: u64) -> Result<bool> {
    let Some(expected) = blob.digest() else { return Ok(false) };
    let read =
        std::fs::File::open(path).and_then(|mut file| expected.of_content(&mut file, bytes, &|_| Ok(())));
    let found =
        read.map_err(|e| Error::io(format!("cannot read: {e}")).in_file(path.display().to_string()))?;
    Ok(found == expected)
}
