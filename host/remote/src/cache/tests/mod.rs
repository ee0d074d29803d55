//! Tests of the cache as a whole, against layouts as the hub's own client leaves them.

mod reading;
mod removal;
mod steps;
mod writing;

use super::*;
use crate::names::RepositoryId;
use apr_sdk::Result;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The commits of the model in these tests.
const COMMIT: &str = "1111111111111111111111111111111111111111";
const OTHER: &str = "2222222222222222222222222222222222222222";

/// The files of the model.
const FILES: [(&str, &[u8]); 3] =
    [("config.json", b"{\"a\":1}"), ("model.safetensors", &[b'w'; 5000]), ("onnx/model.onnx", &[b'o'; 400])];

/// A folder that goes with the test, with a cache in it, and a state folder.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("apr-cache-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Scratch { folder: folder.canonicalize().unwrap() }
    }

    fn cache(&self) -> Cache {
        Cache::new(self.folder.join("hub"), Some(self.folder.join("state")))
    }

    fn model(&self) -> Repository {
        self.cache().repository(&RepositoryId::new("org/tiny").unwrap())
    }

    /// The path of something of the model.
    fn at(&self, below: &str) -> PathBuf {
        self.folder.join("hub/models--org--tiny").join(below)
    }

    /// Everything in the cache: folders end in `/`, links show their targets, and files their length and mode.
    fn listing(&self) -> Vec<String> {
        let root = self.folder.join("hub");
        let found = contents::walk(&root).unwrap();
        let mut lines: Vec<String> = found
            .iter()
            .map(|found| {
                let name = found.path.strip_prefix(&root).unwrap().display();
                match &found.meta {
                    meta if meta.is_dir() => format!("{name}/"),
                    meta if meta.is_symlink() => {
                        format!("{name} -> {}", std::fs::read_link(&found.path).unwrap().display())
                    }
                    meta => format!("{name} {} {:o}", meta.len(), meta.mode() & 0o777),
                }
            })
            .collect();
        lines.sort();
        lines
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git_id(content: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The etag that the hub gives a file: weights are in the large-file storage.
fn etag(name: &str, content: &[u8]) -> BlobName {
    let is_large = name.ends_with(".safetensors") || name.ends_with(".onnx");
    BlobName::new(&if is_large { sha256(content) } else { git_id(content) }).unwrap()
}

/// The listing of a commit with these files.
fn tree(files: &[(&str, &[u8])]) -> Tree {
    let file = |name: &str, content: &[u8]| TreeFile {
        size: content.len() as u64,
        blob_id: git_id(content),
        lfs_sha256: (!name.ends_with(".json")).then(|| sha256(content)),
        lfs_size: (!name.ends_with(".json")).then_some(content.len() as u64),
        xet_hash: None,
    };
    Tree::new(files.iter().map(|(name, content)| ((*name).to_owned(), file(name, content))).collect())
}

/// Writes a file and the folders above it.
fn write(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Makes a link and the folders above it.
fn link(target: &str, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

/// The model as `huggingface_hub` 2.4.0 leaves it after `snapshot_download` of `main` and a failed `hf_hub_download` of a
/// file that the commit has not; seen after a run against a server of these files.
fn by_hub_client(scratch: &Scratch) {
    by_hub_client_at(scratch, "main", COMMIT, &FILES);
    write(&scratch.at(&format!(".no_exist/{COMMIT}/absent.json")), b"");
}

fn by_hub_client_at(scratch: &Scratch, revision: &str, commit: &str, files: &[(&str, &[u8])]) {
    let root = scratch.folder.join("hub");
    write(&root.join("CACHEDIR.TAG"), b"Signature: 8a477f597d28d172789f06886806bc55\n");
    write(&scratch.at("refs").join(revision), commit.as_bytes());
    let mut listed: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
    for (name, content) in files {
        let blob = etag(name, content);
        write(&root.join(format!(".locks/models--org--tiny/{blob}.lock")), b"");
        write(&scratch.at("blobs").join(blob.as_str()), content);
        let up = "../".repeat(name.split('/').count() + 1);
        link(&format!("{up}blobs/{blob}"), &scratch.at("snapshots").join(commit).join(name));
        let mut entry = serde_json::json!({"size": content.len(), "blob_id": git_id(content)});
        if !name.ends_with(".json") {
            entry["lfs_sha256"] = sha256(content).into();
            entry["lfs_size"] = content.len().into();
        }
        listed.insert(name, entry);
    }
    let document = serde_json::json!({"format_version": 1, "files": listed});
    write(&scratch.at(&format!("trees/{commit}.json")), document.to_string().as_bytes());
}

/// Puts one file of the model into the cache, as a download does.
fn fill(model: &Repository, commit: &str, name: &str, content: &[u8]) -> Result<PathBuf> {
    let blob = etag(name, content);
    let lock = model.lock(&blob, &|_| Ok(()))?;
    let download = Download { commit: commit.to_owned(), blob: blob.clone(), size: content.len() as u64 };
    let is_new = match model.blob(&blob)? {
        Some(_) => false,
        None => {
            let partial = model.partial(lock, download)?;
            for range in partial.missing() {
                let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                partial.write_at(range.start, &content[start..end])?;
            }
            model.publish(partial.verify(None, &|_| Ok(()))?)?.before != Before::Same
        }
    };
    model.link(commit, name, &blob, is_new)
}

/// Fills the cache with a commit as a pull does: the ref first, then the listing, then the files.
fn pull(model: &Repository, revision: &str, commit: &str, files: &[(&str, &[u8])]) -> Result<()> {
    model.set_ref(revision, commit)?;
    model.set_tree(commit, &tree(files))?;
    files.iter().try_for_each(|(name, content)| fill(model, commit, name, content).map(drop))
}
