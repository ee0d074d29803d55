//! The store that the repositories of a cache share (`huggingface_hub` 2.4.0, `utils/_shared_blobs.py`): a blob may be a
//! link to a payload in it. apr reads through it, adds nothing to it, and removes a payload only once no blob leads to it.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// The file that marks a store, and its content.
const MARKER: (&str, &str) = (".huggingface-shared-blobs", "1\n");

/// Returns whether the folder `blobs` of a cache is such a store, of the one layout that is known.
pub fn is_marked(root: &Path) -> bool {
    let store = root.join("blobs");
    let marker = store.join(MARKER.0);
    is_real(&store, true)
        && is_real(&marker, false)
        && std::fs::read(&marker).is_ok_and(|c| c == MARKER.1.as_bytes())
}

/// Returns whether `path` is that of a payload in the store of the cache `root`: `ROOT/blobs/xx/{64 digits}`, without a
/// link on the way to it. Both paths are resolved, or lexical from the same start.
pub fn is_payload(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root.join("blobs")) else { return false };
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    let Some([prefix, hash]) = parts.as_deref() else { return false };
    let is_hex = hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_named = hash.len() == 64 && is_hex && hash.get(..2) == Some(*prefix);
    is_named && is_marked(root) && path.parent().is_some_and(|folder| is_real(folder, true))
}

fn is_real(path: &Path, is_folder: bool) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| if is_folder { meta.is_dir() } else { meta.is_file() })
}

/// The payload that a blob is a link to, by the link's text alone; `None` for anything but a link into the store.
pub fn payload_of(root: &Path, blob: &Path) -> Option<PathBuf> {
    let target = std::fs::read_link(blob).ok()?;
    let mut path = if target.is_absolute() { PathBuf::new() } else { blob.parent()?.to_owned() };
    for part in target.components() {
        match part {
            Component::ParentDir => drop(path.pop().then_some(())?),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    (is_payload(root, &path) && is_real(&path, false)).then_some(path)
}

/// The blobs that lead to a payload, by its list of references, each checked; `None` if the list cannot be read, and then
/// nothing can be said about the payload.
fn references(root: &Path, payload: &Path) -> Option<Vec<PathBuf>> {
    let list = payload.with_extension("refs");
    let text = is_real(&list, false).then(|| std::fs::read_to_string(&list).ok())??;
    let is_blob = |line: &&str| {
        let parts: Vec<&str> = line.split('/').collect();
        matches!(parts[..], [repository, "blobs", blob] if repository.contains("--") && !["", ".", ".."].contains(&blob))
    };
    let blobs = text.lines().filter(is_blob).map(|line| root.join(line));
    Some(blobs.filter(|blob| payload_of(root, blob).as_deref() == Some(payload)).collect())
}

/// Returns whether no blob but those that `removed` names leads to a payload.
pub fn is_free(root: &Path, payload: &Path, removed: &dyn Fn(&Path) -> bool) -> bool {
    references(root, payload).is_some_and(|blobs| blobs.iter().all(|blob| removed(blob)))
}

/// Removes a payload if no blob leads to it, under its lock; returns the bytes that this freed.
///
/// # Errors
/// Any error of the system's; then the payload stays.
pub fn sweep(root: &Path, payload: &Path) -> std::io::Result<u64> {
    let _lock = lock(&payload.with_extension("lock"))?;
    if !is_payload(root, payload) || !is_free(root, payload, &|_| false) {
        return Ok(0);
    }
    let meta = std::fs::symlink_metadata(payload)?;
    std::fs::remove_file(payload)?;
    std::fs::remove_file(payload.with_extension("refs"))?;
    Ok(meta.len())
}

/// The lock of a payload, which its writers take, too.
fn lock(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o666).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("the lock is not a regular file"));
    }
    file.lock()?;
    Ok(file)
}
