//! The store that the repositories of a cache share (`huggingface_hub` 2.4.0, `utils/_shared_blobs.py`): a blob may be a
//! link to a payload in it. apr reads through it, and adds nothing to it.

use std::path::Path;

/// The file that marks a store, and its content.
const MARKER: (&str, &str) = (".huggingface-shared-blobs", "1\n");

/// Returns whether the folder `blobs` of a cache is such a store, of the one layout that is known.
pub fn is_marked(root: &Path) -> bool {
    let store = root.join("blobs");
    let marker = store.join(MARKER.0);
    std::fs::symlink_metadata(&store).is_ok_and(|meta| meta.is_dir())
        && std::fs::symlink_metadata(&marker).is_ok_and(|meta| meta.is_file())
        && std::fs::read(&marker).is_ok_and(|content| content == MARKER.1.as_bytes())
}

/// Returns whether `path` is that of a payload in the store of the cache `root`: `ROOT/blobs/xx/{64 digits}`, without a
/// link on the way. Both paths are resolved.
pub fn is_payload(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root.join("blobs")) else { return false };
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    let Some([prefix, hash]) = parts.as_deref() else { return false };
    let is_hex = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    hash.len() == 64 && is_hex && hash.get(..2) == Some(*prefix) && is_marked(root)
}
