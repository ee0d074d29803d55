//! Folders in memory.

use apr_plugin_huggingface::PLUGIN;
use apr_sdk::{Look, MemorySource, Model, Options, Reader, Result, Score, Source};

pub const FORMAT: &str = "huggingface";

pub const CONFIG: &str = r#"{
  "architectures": [
    "LlamaForCausalLM"
  ],
  "hidden_size": 16,
  "model_type": "llama",
  "pad_token_id": null,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "factor": 8.0,
    "rope_type": "llama3"
  }
}
"#;

pub fn reader() -> Box<dyn Reader> {
    (PLUGIN.reader)(FORMAT).unwrap()
}

/// A folder of these files.
pub fn folder(files: &[(&str, &[u8])]) -> MemorySource {
    files.iter().fold(MemorySource::folder("tiny"), |source, (name, bytes)| source.with(*name, *bytes))
}

/// A configuration and a weights file, which this plugin never looks into.
pub fn smallest() -> MemorySource {
    folder(&[("config.json", CONFIG.as_bytes()), ("model.safetensors", b"not looked into")])
}

pub fn read(source: &dyn Source) -> Result<Model> {
    apr_testkit::read(&*reader(), FORMAT, source, &Options::new())
}

/// The score of a folder of these names whose `config.json` begins with `head`.
pub fn probe_folder(names: &[&str], head: &str) -> Score {
    let entries: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let head = head.as_bytes();
    reader().probe(&Look { name: "tiny", len: 0, head, tail: &[], is_folder: true, entries: &entries })
}
