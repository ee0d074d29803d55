//! The models of `tests/golden`, and what is read of files.

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_host::host::Host;
use apr_sdk::{Bytes, Payload, Tensor};
use apr_tests::root;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The models whose architecture has a table; the others are planned.
pub const TABLES: &[&str] = &[
    "bert",
    "bloom",
    "command-r",
    "deepseek2",
    "deepseek2-lite",
    "falcon",
    "falcon-40b",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt-neox",
    "gpt2",
    "jina-bert-v2",
    "llama",
    "llama3",
    "mistral",
    "mixtral",
    "mpt",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi3",
    "qwen2",
    "qwen2-moe",
    "qwen3",
    "qwen3-moe",
    "roberta",
    "stablelm",
    "starcoder2",
    "t5",
];

pub fn goldens() -> Vec<PathBuf> {
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
