//! The fixtures in `tests/data`, and how tests read, write and compare them.

use apr_plugin_gguf::{Gguf, PLUGIN};
use apr_sdk::{
    Bytes, Carries, LayoutRequest, MemorySource, Model, Options, Result, Source, Value, json::value_to_json,
};
use apr_testkit::Opened;
use sha2::{Digest, Sha256};
use std::path::Path;

/// The bytes of a fixture; the parts of a set lie in a folder of its name.
pub fn bytes(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let set = name.split_once("-00").map_or("", |(set, _)| set);
    std::fs::read(folder.join(set).join(name)).unwrap()
}

/// Fixtures as the files of one model.
pub fn source(names: &[&str]) -> MemorySource {
    let first = MemorySource::new(names[0], bytes(names[0]));
    names[1..].iter().fold(first, |source, name| source.with(*name, bytes(name)))
}

/// Opens a model, with its parts if it has any.
pub fn open(source: &dyn Source) -> Result<Opened> {
    open_with(source, &Options::new())
}

/// Like [`open`], with options for the reader.
pub fn open_with(source: &dyn Source, options: &Options) -> Result<Opened> {
    apr_testkit::read_with_parts(&Gguf, "gguf", source, options)
}

/// What the format carries.
pub fn carries() -> Carries {
    apr_testkit::carries(&PLUGIN, "gguf").unwrap()
}

/// Writes a model that was opened.
pub fn write(
    opened: &Opened,
    model: &Model,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Result<Vec<(String, Vec<u8>)>> {
    apr_testkit::write(&Gguf, &carries(), model, source, &|n| opened.payload(n, source), request)
}

/// What writing the model of `source` again gives.
pub fn rewrite(source: &dyn Source, request: &LayoutRequest) -> Result<Vec<(String, Vec<u8>)>> {
    let opened = open(source)?;
    write(&opened, &opened.model, source, request)
}

/// The payload of every tensor.
pub fn payloads(opened: &Opened, source: &dyn Source) -> Vec<Vec<u8>> {
    (0..opened.model.tensors.len()).map(|n| opened.payload(n, source).unwrap()).collect()
}

/// Files that were written, as the files of one model; the first in the order of names is file 0.
pub fn written(mut files: Vec<(String, Vec<u8>)>) -> MemorySource {
    files.sort();
    let mut files = files.into_iter();
    let (name, bytes) = files.next().unwrap();
    files.fold(MemorySource::new(name, bytes), |source, (name, bytes)| source.with(name, bytes))
}

/// The bytes of a value, read from the file if it is not held.
pub fn value_bytes(value: &Value, source: &dyn Source) -> Vec<u8> {
    match &value.bytes {
        Bytes::Inline(held) => held.to_vec(),
        Bytes::Extent(extent) => source.view(*extent).unwrap().to_vec(),
    }
}

/// A value as the golden files have it: long ones by their digest.
pub fn value_json(value: &Value, golden: &serde_json::Value, source: &dyn Source) -> serde_json::Value {
    let bytes = value_bytes(value, source);
    match golden.get("sha256") {
        Some(_) => serde_json::json!({"t": value.kind.name().unwrap(), "sha256": sha256(&bytes)}),
        None => value_to_json(value.kind, &bytes).unwrap(),
    }
}

/// A digest in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
