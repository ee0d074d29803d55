//! Listings of commits, in the form in which the hub's client keeps them (`huggingface_hub` 2.4.0, `_tree_cache.py`).

use super::blob_name::BlobName;
use super::repository::{Repository, check_commit};
use super::small_file;
use apr_sdk::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version of the form. A listing in another is passed over, as the hub's client does.
const VERSION: u32 = 1;

/// The files of a commit. It never changes, because a commit does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    format_version: u32,
    /// The files by their paths, which come from a server: check each before it becomes part of a path here.
    pub files: BTreeMap<String, TreeFile>,
}

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFile {
    /// Bytes of its content.
    pub size: u64,
    /// Git's id of it, or of the pointer to it.
    pub blob_id: String,
    /// SHA-256 of its content, if it is in the large-file storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lfs_sha256: Option<String>,
    /// Bytes of its content, by that storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lfs_size: Option<u64>,
    /// Its hash in the Xet storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xet_hash: Option<String>,
}

impl Tree {
    /// The listing with these files.
    pub fn new(files: BTreeMap<String, TreeFile>) -> Tree {
        Tree { format_version: VERSION, files }
    }

    /// The listing in these bytes; `None` if they are none that is understood.
    fn parse(bytes: &[u8]) -> Option<Tree> {
        serde_json::from_slice(bytes).ok().filter(|tree: &Tree| tree.format_version == VERSION)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

impl TreeFile {
    /// The name of the blob with its content: the SHA-256 for the large-file storage, git's id for the rest.
    ///
    /// # Errors
    /// Malformed for one that no path may be built from.
    pub fn blob(&self) -> Result<BlobName> {
        BlobName::new(self.lfs_sha256.as_ref().unwrap_or(&self.blob_id))
    }
}

impl Repository {
    /// The listing of a commit; `None` if it is not in the cache, or cannot be read.
    ///
    /// # Errors
    /// Malformed for anything but a commit.
    pub fn tree(&self, commit: &str) -> Result<Option<Tree>> {
        let bytes = small_file::read(&self.tree_path(commit)?);
        Ok(bytes.ok().flatten().and_then(|bytes| Tree::parse(&bytes)))
    }

    /// Keeps the listing of a commit.
    ///
    /// # Errors
    /// Malformed for anything but a commit; Io.
    pub fn set_tree(&self, commit: &str, tree: &Tree) -> Result<()> {
        let path = self.tree_path(commit)?;
        // A cache that cannot be written to may have it.
        if self.tree(commit).is_ok_and(|found| found.as_ref() == Some(tree)) {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut out = serde_json::Serializer::with_formatter(&mut bytes, form);
        tree.serialize(&mut out).map_err(|error| {
            Error::io(format!("cannot write the listing: {error}")).in_file(path.display().to_string())
        })?;
        small_file::replace(&path, &bytes)
    }

    pub(super) fn tree_path(&self, commit: &str) -> Result<PathBuf> {
        check_commit(commit)?;
        Ok(self.path().join("trees").join(format!("{commit}.json")))
    }
}
