//! Reads the folder of one repository, and of the shared store.

use super::walk::{Found, entries, walk};
use super::{Blob, Kind, PartialFile, Payload, RepositoryContents, Revision, SnapshotFile};
use crate::cache::memory::Ownership;
use crate::cache::repository::Cache;
use crate::cache::{shared_store, small_file};
use crate::names::is_commit;
use apr_sdk::{Result, escape};
use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::path::Path;

/// Kinds and the starts of their folders' names.
const KINDS: [(&str, Kind); 4] = [
    ("models", Kind::Model),
    ("datasets", Kind::Dataset),
    ("spaces", Kind::Space),
    ("kernels", Kind::Kernel),
];

/// The kind and name of the repository in a folder of this name.
pub fn kind_and_name(folder: &str) -> Option<(Kind, String)> {
    let (kind, name) = folder.split_once("--")?;
    let (_, kind) = KINDS.iter().find(|(word, _)| *word == kind)?;
    (!name.is_empty()).then(|| (*kind, name.replace("--", "/")))
}

/// The payloads of the store in the folder `blobs` of a cache.
///
/// # Errors
/// Io.
pub fn payloads(store: &Path) -> Result<Vec<Payload>> {
    let mut payloads = Vec::new();
    for (folder, _) in entries(store)? {
        for (path, meta) in entries(&folder)? {
            if meta.is_file() && store.parent().is_some_and(|root| shared_store::is_payload(root, &path)) {
                payloads.push(Payload { path, bytes: meta.len() });
            }
        }
    }
    Ok(payloads)
}

/// The contents of a repository's folder.
///
/// # Errors
/// Io.
pub fn repository(
    cache: &Cache,
    folder: &str,
    kind: Kind,
    name: String,
    meta: &Metadata,
    ownership: &Ownership,
) -> Result<RepositoryContents> {
    let path = cache.root().join(folder);
    let mut out = RepositoryContents {
        folder: folder.to_owned(),
        kind,
        name,
        revisions: Vec::new(),
        blobs: Vec::new(),
        partials: Vec::new(),
        damage: Vec::new(),
        loose_bytes: 0,
    };
    if !meta.is_dir() {
        let what = if meta.is_symlink() { "a link, which is not followed" } else { "a file and no folder" };
        out.damage.push(format!("it is {what}"));
        return Ok(out);
    }
    for (at, meta) in entries(&path.join("blobs"))? {
        add_blob(&mut out, cache, &at, &meta, ownership);
    }
    let mut refs = refs(&mut out, &path)?;
    for (at, meta) in entries(&path.join("snapshots"))? {
        let commit = file_name(&at);
        if !meta.is_dir() || !is_commit(&commit) {
            if commit != ".DS_Store" {
                out.damage.push(format!("`snapshots/{}` is no snapshot", escape(&commit, 80)));
            }
            continue;
        }
        let found = walk(&at)?;
        let files = found.iter().filter(|found| !found.meta.is_dir());
        let files = files.map(|found| snapshot_file(&mut out, cache, &at, found, ownership)).collect();
        let refs = refs.remove(&commit).unwrap_or_default();
        out.revisions.push(Revision { commit, refs, files });
    }
    for (part, at) in ["blobs", "snapshots", "refs"].map(|part| (part, path.join(part))) {
        if std::fs::symlink_metadata(&at).is_ok_and(|meta| !meta.is_dir()) {
            out.damage.push(format!("`{part}` is not a folder"));
        }
    }
    Ok(out)
}

fn add_blob(
    out: &mut RepositoryContents,
    cache: &Cache,
    path: &Path,
    meta: &Metadata,
    ownership: &Ownership,
) {
    let name = file_name(path);
    let is_own = cache.is_own(path, meta, ownership);
    if let Some(stem) = name.strip_suffix(".incomplete") {
        // `{etag}.apr` is apr's, `{etag}.{8 digits}` the hub client's, `{etag}` that of older ones.
        let blob = stem.split_once('.').map_or(stem, |(blob, _)| blob).to_owned();
        let is_own = stem.ends_with(".apr");
        out.partials.push(PartialFile { name, blob, bytes: bytes_of(meta), is_own });
        return;
    }
    let is_other = [".lock", ".tmp", ".apr.json", ".shared"].iter().any(|end| name.ends_with(end));
    if name.starts_with('.') || is_other {
        return;
    }
    if meta.is_file() {
        out.blobs.push(Blob { name, bytes: bytes_of(meta), payload: None, is_own });
        return;
    }
    let payload = shared_store::payload_of(cache.root(), path);
    let bytes = payload.as_deref().and_then(|payload| std::fs::symlink_metadata(payload).ok());
    if bytes.is_none() {
        out.damage.push(format!("the blob `{}` leads nowhere", escape(&name, 80)));
    }
    out.blobs.push(Blob { name, bytes: bytes.map_or(0, |meta| meta.len()), payload, is_own });
}

/// The refs by the commits that they hold.
fn refs(out: &mut RepositoryContents, path: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let folder = path.join("refs");
    let mut refs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in walk(&folder)?.iter().filter(|found| found.meta.is_file()) {
        let name = below(&folder, &found.path);
        if name.ends_with(".tmp") || name.ends_with(".DS_Store") {
            continue;
        }
        let content = small_file::read(&found.path)?.unwrap_or_default();
        let commit = String::from_utf8_lossy(&content).trim().to_owned();
        match is_commit(&commit) {
            true => refs.entry(commit).or_default().push(name),
            false => out.damage.push(format!("the ref `{}` holds no commit", escape(&name, 80))),
        }
    }
    Ok(refs)
}

fn snapshot_file(
    out: &mut RepositoryContents,
    cache: &Cache,
    snapshot: &Path,
    found: &Found,
    ownership: &Ownership,
) -> SnapshotFile {
    let name = below(snapshot, &found.path);
    let is_own = cache.is_own(&found.path, &found.meta, ownership);
    if !found.meta.is_symlink() {
        out.loose_bytes += bytes_of(&found.meta);
        return SnapshotFile { name, blob: None, bytes: Some(found.meta.len()), is_own };
    }
    let target = std::fs::read_link(&found.path).unwrap_or_default();
    let blob = file_name(&target);
    let bytes = std::fs::metadata(&found.path).ok().filter(Metadata::is_file).map(|meta| meta.len());
    if bytes.is_none() {
        let commit = file_name(snapshot);
        out.damage.push(format!("`{}` of {} leads nowhere", escape(&name, 120), &commit[..12]));
    }
    SnapshotFile { name, blob: Some(blob), bytes, is_own }
}

/// Bytes that removing a file frees: none as long as it has another name.
fn bytes_of(meta: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    if meta.is_file() && meta.nlink() == 1 { meta.len() } else { 0 }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn below(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned()
}

impl RepositoryContents {
    /// The names of the blobs that snapshots refer to, but for those of the snapshots that `left_out` names.
    pub fn referenced(&self, left_out: &dyn Fn(&Revision, &SnapshotFile) -> bool) -> HashSet<&str> {
        let files = self.revisions.iter().flat_map(|r| r.files.iter().map(move |file| (r, file)));
        files.filter(|(r, file)| !left_out(r, file)).filter_map(|(_, file)| file.blob.as_deref()).collect()
    }
}
