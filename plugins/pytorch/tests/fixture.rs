//! The fixtures of `tests/data`, and what torch says of them.

use apr_plugin_pytorch::PLUGIN;
use apr_sdk::{Carries, Limits, MemorySource, Model, OpenModel, Options, Reader, Result, Writer};
use serde_json::Value as Json;
use std::path::PathBuf;

pub const FORMAT: &str = "pytorch";

pub fn reader() -> Box<dyn Reader> {
    (PLUGIN.reader)(FORMAT).unwrap()
}

pub fn writer() -> Box<dyn Writer> {
    (PLUGIN.writer)(FORMAT).unwrap()
}

pub fn carries() -> Carries {
    apr_testkit::carries(&PLUGIN, FORMAT).unwrap()
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The names of the single-file fixtures.
pub fn single_files() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| [".pt", ".pth", ".ckpt"].iter().any(|ext| name.ends_with(ext)));
    names.sort();
    assert!(names.len() >= 18, "{names:?}");
    names
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What torch says of a fixture.
pub fn golden(name: &str) -> Json {
    serde_json::from_slice(&bytes(&format!("{name}.golden.json"))).unwrap()
}

/// Opens one file in memory.
pub fn open(bytes: &[u8]) -> Result<(Box<dyn OpenModel>, Model, MemorySource)> {
    open_with(bytes, &Options::new())
}

pub fn open_with(bytes: &[u8], options: &Options) -> Result<(Box<dyn OpenModel>, Model, MemorySource)> {
    let source = MemorySource::new("model.pt", bytes);
    let (open, model) = apr_testkit::read_limited(&*reader(), FORMAT, &source, options, &Limits::default())?;
    Ok((open, model, source))
}
