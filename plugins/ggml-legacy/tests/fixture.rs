//! The fixtures in `tests/data`, and how tests open and compare them.

use apr_plugin_ggml_legacy::GgmlLegacy;
use apr_sdk::{MemorySource, Options, Result, Source, json::value_to_json};
use apr_testkit::Opened;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of the fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The names of the fixtures, `rejects` left out.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".bin") || name.ends_with(".ggml"));
    names.sort();
    names
}

/// The bytes of a fixture.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// What the generator says of a fixture.
pub fn golden(name: &str) -> Json {
    let stem = name.rsplit_once('.').unwrap().0;
    serde_json::from_slice(&bytes(&format!("{stem}.golden.json"))).unwrap()
}

/// A fixture as a source.
pub fn source(name: &str) -> MemorySource {
    MemorySource::new(name, bytes(name))
}

/// Options that decode older blocks.
pub fn decoding() -> Options {
    Options::new().with("old-blocks", "f32")
}

/// Opens a file.
pub fn open(source: &dyn Source, options: &Options) -> Result<Opened> {
    apr_testkit::read_with_parts(&GgmlLegacy, "ggml_legacy", source, options)
}

/// Everything that was read, as the golden files have it, but for the digests of values.
pub fn described(opened: &Opened, source: &dyn Source) -> Json {
    let tensors = opened.model.tensors.iter().enumerate().map(|(n, tensor)| {
        json!({
            "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape,
            "sha256": sha256(&opened.payload(n, source).unwrap()),
        })
    });
    let keys = opened.model.foreign[0].files[0]
        .typed
        .iter()
        .map(|(key, value)| json!([key, value_to_json(value.kind, value.bytes.inline().unwrap()).unwrap()]));
    json!({"keys": keys.collect::<Vec<_>>(), "tensors": tensors.collect::<Vec<_>>()})
}

/// A digest in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
