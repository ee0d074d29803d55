//! The fixtures of `tests/data`, and what NumPy says of them.

use apr_plugin_numpy::PLUGIN;
use apr_sdk::{
    Carries, LayoutRequest, Limits, MemorySource, Model, OpenModel, Options, Reader, Result, Writer,
};
use serde_json::Value as Json;
use sha2::Digest;
use std::path::PathBuf;

pub fn reader(format: &str) -> Box<dyn Reader> {
    (PLUGIN.reader)(format).unwrap()
}

pub fn writer(format: &str) -> Box<dyn Writer> {
    (PLUGIN.writer)(format).unwrap()
}

pub fn carries(format: &str) -> Carries {
    apr_testkit::carries(&PLUGIN, format).unwrap()
}

pub fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    std::fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The names of the fixtures that NumPy can read, and what it says of each.
pub fn golden() -> Vec<(String, Json)> {
    let json: Json = serde_json::from_slice(&bytes("golden.json")).unwrap();
    let all = json.as_object().unwrap().clone().into_iter();
    all.filter(|(name, _)| name != "versions").collect()
}

/// A model that was opened in memory.
pub struct Opened {
    pub open: Box<dyn OpenModel>,
    pub model: Model,
    pub source: MemorySource,
}

impl Opened {
    /// Opens `bytes`, whose name says which format they are.
    pub fn new(name: &str, bytes: &[u8], options: &Options) -> Result<Opened> {
        let format = if name.ends_with(".npz") { "npz" } else { "npy" };
        let source = MemorySource::new(name, bytes);
        let (open, model) =
            apr_testkit::read_limited(&*reader(format), format, &source, options, &Limits::default())?;
        Ok(Opened { open, model, source })
    }

    pub fn fixture(name: &str) -> Opened {
        Opened::new(name, &bytes(name), &Options::new()).unwrap()
    }

    pub fn payload(&self, index: usize) -> Vec<u8> {
        apr_testkit::payload(&*self.open, &self.model, index, &self.source).unwrap()
    }

    /// What is read, in golden.json's form.
    pub fn said(&self) -> Json {
        let tensors = self.model.tensors.iter().enumerate().map(|(n, tensor)| {
            let digest = sha2::Sha256::digest(self.payload(n));
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({"name": tensor.name, "dtype": dtype(tensor.dtype.name()), "shape": tensor.shape, "sha256": digest})
        });
        tensors.collect()
    }

    /// Written as an archive, or as one array if the request says so.
    pub fn written(&self, request: &LayoutRequest) -> Vec<u8> {
        let format = if request.file_name.ends_with(".npy") { "npy" } else { "npz" };
        apr_testkit::write_model(
            &*writer(format),
            &carries(format),
            &*self.open,
            &self.model,
            &self.source,
            request,
        )
        .unwrap()
        .remove(0)
        .1
    }
}

/// Golden names say how many bits a complex number has in all; so do those of the table.
fn dtype(name: &str) -> String {
    name.to_owned()
}
