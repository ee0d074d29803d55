//! The fixtures of `tests/data`, and what the package onnx says of them.

use apr_plugin_onnx::PLUGIN;
use apr_sdk::{
    Carries, ForeignPolicy, LayoutRequest, MemorySource, Model, OpenModel, Options, Reader, Result, Source,
    Writer,
};
use serde_json::Value as Json;
use std::path::PathBuf;

pub const FORMAT: &str = "onnx";

/// Every fixture.
pub const ALL: [&str; 14] = [
    "types-raw",
    "types-typed",
    "beside/model",
    "shapes",
    "graph",
    "training",
    "sparse",
    "lists",
    "ir-3",
    "handmade-order",
    "handmade-lengths",
    "handmade-unknown",
    "handmade-runs",
    "handmade-doubled",
];

pub fn reader() -> Box<dyn Reader> {
    (PLUGIN.reader)(FORMAT).unwrap()
}

pub fn writer() -> Box<dyn Writer> {
    (PLUGIN.writer)(FORMAT).unwrap()
}

pub fn carries() -> Carries {
    apr_testkit::carries(&PLUGIN, FORMAT).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A fixture with the files of its folder that hold its data.
pub fn source(name: &str) -> MemorySource {
    let path = folder().join(format!("{name}.onnx"));
    let own = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut source = MemorySource::new(own.clone(), bytes(&format!("{name}.onnx")));
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && name != own {
            source = source.with(name, std::fs::read(path).unwrap());
        }
    }
    source
}

/// What the package onnx says of a fixture.
pub fn golden(name: &str) -> Json {
    serde_json::from_slice(&bytes(&format!("{name}.onnx.golden.json"))).unwrap()
}

/// An opened model with its source.
pub struct Opened {
    pub open: Box<dyn OpenModel>,
    pub model: Model,
    pub source: MemorySource,
}

impl Opened {
    pub fn new(source: MemorySource) -> Result<Opened> {
        let (open, model) = apr_testkit::read_open(&*reader(), FORMAT, &source, &Options::new())?;
        Ok(Opened { open, model, source })
    }

    pub fn fixture(name: &str) -> Opened {
        Opened::new(source(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn payload(&self, name: &str) -> Vec<u8> {
        apr_testkit::payload(&*self.open, &self.model, self.number(name), &self.source).unwrap()
    }

    pub fn number(&self, name: &str) -> usize {
        let found = self.model.tensors.iter().position(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("no tensor `{name}`"))
    }

    pub fn write(&self, request: &LayoutRequest) -> Result<Vec<(String, Vec<u8>)>> {
        apr_testkit::write_model(&*writer(), &carries(), &*self.open, &self.model, &self.source, request)
    }

    /// Written as one file, or with data beside it.
    pub fn rewrite(&self, policy: ForeignPolicy) -> Vec<(String, Vec<u8>)> {
        let mut request = LayoutRequest::file(&self.source.name(0));
        request.foreign = policy;
        self.write(&request).unwrap()
    }
}

/// Files that were written, as a source.
pub fn reopen(files: &[(String, Vec<u8>)]) -> Opened {
    let mut files = files.iter().cloned();
    let (name, bytes) = files.next().unwrap();
    Opened::new(files.fold(MemorySource::new(name, bytes), |source, (name, bytes)| source.with(name, bytes)))
        .unwrap()
}
