//! The fixtures of `tests/data`, and what the format's own library says of them.

use apr_plugin_safetensors::PLUGIN;
use apr_sdk::{
    Carries, Extent, FileId, Limits, LogLevel, MemorySource, Model, OpenModel, Options, Reader, Result,
    Source, Writer,
};
use serde_json::Value as Json;
use std::path::PathBuf;

pub const FORMAT: &str = "safetensors";

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

/// The names of the single-file fixtures that begin, or do not begin, with `handmade_`.
pub fn single_files(handmade: bool) -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".safetensors") && name.starts_with("handmade_") == handmade);
    names.sort();
    assert!(names.len() >= 9, "{names:?}");
    names
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What the format's own library says of a fixture.
pub fn golden(name: &str) -> Json {
    serde_json::from_slice(&bytes(&format!("{name}.golden.json"))).unwrap()
}

/// Opens one file in memory.
pub fn open(bytes: &[u8]) -> Result<(Box<dyn OpenModel>, Model, MemorySource)> {
    let source = MemorySource::new("model.safetensors", bytes);
    let (open, model) =
        apr_testkit::read_limited(&*reader(), FORMAT, &source, &Options::new(), &Limits::default())?;
    Ok((open, model, source))
}

/// A file with this header and data.
pub fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A folder in memory: file 0 is the folder itself.
pub struct Folder(MemorySource);

impl Folder {
    pub fn new(files: &[(String, Vec<u8>)]) -> Folder {
        let folder = MemorySource::new("", Vec::new());
        Folder(files.iter().fold(folder, |folder, (name, bytes)| folder.with(name, bytes.clone())))
    }
}

impl Source for Folder {
    fn name(&self, file: FileId) -> String {
        self.0.name(file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.0.view(extent)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        self.0.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(self.0.entries()?.into_iter().filter(|name| !name.is_empty()).collect())
    }

    fn is_folder(&self) -> bool {
        true
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }
}
