//! Model folders with one tensor's bytes changed, converted and loaded.

use apr_engine::contract::Quality;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::Result;
use apr_sdk::half::to_bf16;
use apr_testkit::Checkpoint;
use apr_tests::Scratch;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a checkpoint's folder, and lets `alter` change the payload of one of its tensors.
pub fn altered(scratch: &Scratch, model: &Checkpoint, tensor: &str, alter: &dyn Fn(&mut [u8])) -> PathBuf {
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    let path = folder.join(&model.shards[0].0);
    let mut bytes = fs::read(&path).unwrap();
    let len = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header: Json = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let at = |n: usize| usize::try_from(header[tensor]["data_offsets"][n].as_u64().unwrap()).unwrap();
    alter(&mut bytes[8 + len + at(0)..8 + len + at(1)]);
    fs::write(&path, bytes).unwrap();
    folder
}

/// Changes `config.json` of a folder.
pub fn configure(folder: &Path, key: &str, value: Json) {
    let path = folder.join("config.json");
    let mut config: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config[key] = value;
    fs::write(&path, config.to_string()).unwrap();
}

/// Converts with these wishes.
pub fn converted(
    host: &Host,
    input: &Path,
    (format, output): (&str, &Path),
    quality: Quality,
) -> Result<Converted> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        strict: quality.strict,
        relaxed: quality.relaxed,
        allow_nonfinite: quality.allow_nonfinite,
        ..ConvertOptions::default()
    };
    convert(host, &options)
}

/// BF16 values as bytes.
pub fn bf16(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(|value| to_bf16(value).to_le_bytes()).collect()
}
