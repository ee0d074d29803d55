//! The models of `tests/golden`, and what is read of files.

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_host::host::Host;
use apr_sdk::{Bytes, Payload, Tensor};
use apr_tests::{is_one_way, is_packed, root};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The models whose weights are floats, all of which GGUF has.
pub fn goldens() -> Vec<PathBuf> {
    all().into_iter().filter(|path| !is_packed(name(path)) && !is_one_way(name(path))).collect()
}

/// Those whose weights are packed.
pub fn packed() -> Vec<PathBuf> {
    all().into_iter().filter(|path| is_packed(name(path))).collect()
}

fn all() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("tests/golden")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = folders.filter(|path| path.join("golden.json").is_file()).collect();
    found.sort();
    found
}

pub fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn opened(host: &Host, path: &Path) -> OpenedModel {
    open(host, path, &OpenOptions::default()).unwrap()
}

pub fn payload(model: &OpenedModel, tensor: &Tensor) -> Vec<u8> {
    let Payload::Extent { extent, view: None } = tensor.payload else { panic!("{}", tensor.name) };
    let bytes = model.fetch(&Bytes::Extent(extent)).unwrap();
    bytes.inline().unwrap().to_vec()
}
