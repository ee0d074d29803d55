//! What fuzzing starts from: the plugins' fixtures, files of several joined into one input; the same models as APR; our
//! own manifests.

use crate::property::{NEXT_FILE, Subject, example_packed, example_programs};
use apr_sdk::{LayoutRequest, MemorySource};
use apr_testkit::{carried, read_with_parts, write};
use std::path::Path;

/// The files in a folder and its folders, in the order of names.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}-{inner}"), bytes)));
        } else {
            found.push((name, std::fs::read(&path).unwrap()));
        }
    }
    found
}

/// Models of a format.
pub fn models(id: &str) -> Vec<(String, Vec<u8>)> {
    match id {
        "apr" => written_as_apr(),
        "ggml_legacy" => fixtures(&Subject::ggml_legacy()),
        "gguf" => fixtures(&Subject::gguf()),
        "npy" => fixtures(&Subject::npy()),
        "npz" => fixtures(&Subject::npz()),
        "onnx" => fixtures(&Subject::onnx()),
        "pytorch" => fixtures(&Subject::pytorch()),
        "safetensors" => fixtures(&Subject::safetensors()),
        other => panic!("no seeds of {other}"),
    }
}

/// Files of an older layout of APR: `header_64`, with a 64-byte header, or `version_1`.
pub fn older_apr(layout: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = files(&apr_tests::root().join("plugins/apr/tests").join(layout));
    all.retain(|(name, bytes)| {
        name.ends_with(".apr") && !name.starts_with("rejects-") && bytes.len() < 16 << 10
    });
    all
}

/// Archives of several programs.
pub fn archives() -> Vec<(String, Vec<u8>)> {
    let mut all = files(&apr_tests::root().join("sdk/zip/tests/data"));
    all.retain(|(name, _)| name.ends_with(".zip"));
    all
}

/// Importance matrices in both forms.
pub fn importance() -> Vec<(String, Vec<u8>)> {
    let mut all = files(&apr_tests::root().join("plugins/quants/tests/data"));
    all.retain(|(name, _)| name.ends_with(".gguf") || name.ends_with(".dat"));
    all
}

/// Models of a format that are one file.
pub fn single_models(id: &str) -> Vec<(String, Vec<u8>)> {
    models(id).into_iter().filter(|(name, _)| !name.ends_with("-joined")).collect()
}

/// The fixtures of a plugin: single files, and each folder of several as one input.
fn fixtures(subject: &Subject) -> Vec<(String, Vec<u8>)> {
    let data = apr_tests::root().join("plugins").join(&subject.folder).join("tests/data");
    let extensions = &subject.manifest.extensions;
    let is_model = |name: &str| extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")));
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() && is_model(&name) {
            seeds.push((name, std::fs::read(&path).unwrap()));
        } else if path.is_dir() && name != "rejects" {
            let mut set = files(&path);
            set.retain(|(name, _)| !name.ends_with(".golden.json"));
            let known =
                |name: &str| is_model(name) || name.ends_with(".index.json") || name.ends_with(".data");
            // Names that an input cannot give back.
            if !set.iter().all(|(name, _)| known(name)) {
                continue;
            }
            // The index is opened first, data last.
            set.sort_by_key(|(name, _)| (name.ends_with(".data"), is_model(name)));
            seeds.push((format!("{name}-joined"), join(&set)));
        }
    }
    seeds.sort();
    seeds
}

fn join(set: &[(String, Vec<u8>)]) -> Vec<u8> {
    set.iter().map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>().join(NEXT_FILE)
}

/// The other formats' small fixtures, and some of them in several shards.
fn written_as_apr() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for from in [Subject::gguf(), Subject::safetensors()] {
        let all = fixtures(&from);
        for (name, bytes) in all.iter().filter(|(name, b)| b.len() < 16 << 10 && !name.ends_with("-joined")) {
            let one = LayoutRequest::file("model.apr");
            seeds.extend(as_apr(&from, bytes, &one).map(|bytes| (format!("{name}.apr"), bytes)));
        }
        let mut several = LayoutRequest::folder("model");
        several.max_shard_size = Some(64);
        let small = all.iter().filter(|(_, bytes)| bytes.len() < 2 << 10).take(4);
        for (name, bytes) in small {
            seeds.extend(as_apr(&from, bytes, &several).map(|bytes| (format!("{name}-shards.apr"), bytes)));
        }
    }
    seeds
}

/// A model written as APR, joined; `None` if APR cannot hold it or it becomes more files than an input can be.
fn as_apr(from: &Subject, bytes: &[u8], request: &LayoutRequest) -> Option<Vec<u8>> {
    let to = Subject::apr();
    let source = MemorySource::new(format!("model.{}", from.id()), bytes);
    let opened = read_with_parts(&*from.reader, from.id(), &source, &from.options(false)).ok()?;
    carried(&to.manifest, &opened.model).ok()?;
    let payload = |index| opened.payload(index, &source);
    let files =
        write(to.writer.as_deref().unwrap(), &to.manifest.carries, &opened.model, &source, &payload, request)
            .unwrap();
    (files.len() <= 5).then(|| join(&files))
}

/// Our plugins' manifests: as text, and in sections of both byte orders.
pub fn manifests() -> Vec<(String, Vec<u8>)> {
    let plugins = [
        &apr_plugin_apr::PLUGIN,
        &apr_plugin_ggml_legacy::PLUGIN,
        &apr_plugin_gguf::PLUGIN,
        &apr_plugin_onnx::PLUGIN,
        &apr_plugin_pytorch::PLUGIN,
        &apr_plugin_safetensors::PLUGIN,
    ];
    let mut seeds = Vec::new();
    for (n, plugin) in plugins.into_iter().enumerate() {
        seeds.push((format!("{n}.text"), plugin.manifest.as_bytes().to_vec()));
        seeds.push((format!("{n}.little"), section(plugin.manifest, u32::to_le_bytes)));
        seeds.push((format!("{n}.big"), section(plugin.manifest, u32::to_be_bytes)));
    }
    seeds
}

/// A section as `apr_abi::manifest` describes it.
fn section(text: &str, number: fn(u32) -> [u8; 4]) -> Vec<u8> {
    use apr_abi::manifest::{HEAD_LEN, MAGIC, UNWINDS};
    let numbers = [HEAD_LEN as u32, text.len() as u32, apr_abi::ABI.0, apr_abi::ABI.1, UNWINDS, 0];
    let mut bytes = MAGIC.to_vec();
    numbers.into_iter().for_each(|n| bytes.extend(number(n)));
    for (word, len) in [("0.11.3", 16), ("x86_64-unknown-linux-gnu", 48), ("rustc 1.89.0", 64)] {
        bytes.extend(word.bytes().chain(std::iter::repeat(0)).take(len));
    }
    bytes.extend(text.bytes());
    bytes
}

/// Packed checkpoints: the fixtures of every scheme.
pub fn packed() -> Vec<(String, Vec<u8>)> {
    let folder = apr_tests::root().join("tests/packed/fixtures");
    let seed = |name: String| {
        let input = example_packed(&files(&folder.join(&name)));
        (name, input)
    };
    apr_tests::names_in(&folder).into_iter().map(seed).collect()
}

/// Programs of the kinds that models have.
pub fn programs() -> Vec<(String, Vec<u8>)> {
    example_programs()
}

/// Object files of several systems with a manifest section, made by `tests/corpus/library/build`.
pub fn libraries() -> Vec<(String, Vec<u8>)> {
    let mut seeds = files(&apr_tests::root().join("tests/corpus/library"));
    seeds.retain(|(name, _)| name.starts_with("seed-"));
    seeds
}
