//! Checks the golden manifests themselves: each model's folder, regenerated from names and shapes alone, has
//! the hashes that its generator recorded, and the data about the converter's file is consistent. README.md
//! describes the folders.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

use apr_testkit::Checkpoint;
use apr_tests::{Scratch, root};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const ALIGNMENT: u64 = 32;

/// The folders that hold a golden manifest, sorted.
fn goldens() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("tests/golden")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = folders.filter(|path| path.join("golden.json").is_file()).collect();
    found.sort();
    assert!(!found.is_empty(), "no golden manifest");
    found
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn folders_are_the_ones_that_the_converter_read() {
    for golden in goldens() {
        let described = json(&golden.join("tensors.json"));
        let model = Checkpoint::golden(&golden).unwrap();
        let rows =
            described["files"].as_array().unwrap().iter().flat_map(|f| f["tensors"].as_array().unwrap());
        assert_eq!(rows.clone().count(), model.tensors().count());
        for (row, tensor) in rows.zip(model.tensors()) {
            assert_eq!(text(&row["name"]), tensor.name);
            let hash = sha256(&model.payload(tensor).unwrap());
            assert_eq!(hash, text(&row["sha256"]), "{}: {}", golden.display(), tensor.name);
        }
        let scratch = Scratch::new();
        let folder = scratch.at(&model.name);
        model.write_to(&folder).unwrap();
        for file in described["files"].as_array().unwrap() {
            let bytes = fs::read(folder.join(text(&file["name"]))).unwrap();
            assert_eq!(sha256(&bytes), text(&file["sha256"]), "{}: {}", golden.display(), file["name"]);
        }
        assert!(folder.join("config.json").is_file() && folder.join("tokenizer.json").is_file());
        assert_eq!(folder.join("model.safetensors.index.json").is_file(), model.shards.len() > 1);
    }
}

#[test]
fn manifests_add_up() {
    for golden in goldens() {
        let name = golden.file_name().unwrap().to_str().unwrap();
        let manifest = json(&golden.join("golden.json"));
        assert_eq!(text(&manifest["architecture"]), name);
        assert!(manifest["made_by"].as_object().unwrap().values().all(|v| !text(v).is_empty()));
        let mut end = 0;
        for tensor in manifest["tensors"].as_array().unwrap() {
            assert_eq!(tensor["offset"].as_u64().unwrap(), end, "{name}: {}", tensor["name"]);
            let (width, elements) = match text(&tensor["type"]) {
                "F32" => (4, 1),
                "F16" | "BF16" => (2, 1),
                "MXFP4" => (17, 32),
                "NVFP4" => (36, 64),
                other => panic!("{name}: a tensor of type {other}"),
            };
            let count: u64 = numbers(&tensor["dims"]).iter().product();
            end += (count / elements * width).next_multiple_of(ALIGNMENT);
            assert_eq!(text(&tensor["sha256"]).len(), 64);
        }
        let len = manifest["file_len"].as_u64().unwrap();
        assert!(
            len > end && (len - end).is_multiple_of(ALIGNMENT),
            "{name}: {len} bytes, {end} of them data"
        );
        let tensors = manifest["tensors"].as_array().unwrap();
        let names: HashSet<_> = tensors.iter().map(|t| text(&t["name"])).collect();
        assert_eq!(names.len(), tensors.len(), "{name}: a name twice");
        check_kvs(name, manifest["kvs"].as_array().unwrap());
    }
}

fn check_kvs(name: &str, kvs: &[Value]) {
    assert_eq!(text(&kvs[0]["key"]), "general.architecture", "{name}");
    let keys: HashSet<_> = kvs.iter().map(|kv| text(&kv["key"])).collect();
    assert_eq!(keys.len(), kvs.len(), "{name}: a key twice");
    for key in
        ["general.name", "general.quantization_version", "tokenizer.ggml.model", "tokenizer.ggml.tokens"]
    {
        assert!(keys.contains(key), "{name}: no {key}");
    }
    for kv in kvs {
        match (text(&kv["type"]), kv["count"].as_u64()) {
            ("arr", Some(count)) => match kv.get("value") {
                Some(items) => assert_eq!(items.as_array().unwrap().len() as u64, count, "{name}: {kv}"),
                None => assert_eq!(text(&kv["sha256"]).len(), 64, "{name}: {kv}"),
            },
            ("f32", None) => {
                let bits = u32::from_str_radix(text(&kv["bits"]), 16).unwrap();
                assert_eq!(f64::from(f32::from_bits(bits)), kv["value"].as_f64().unwrap(), "{name}: {kv}");
            }
            ("arr", None) | (_, Some(_)) => panic!("{name}: {kv}"),
            _ => assert!(kv.get("value").is_some(), "{name}: {kv}"),
        }
    }
}

#[test]
fn nothing_lies_about_unused_and_all_of_it_is_small() {
    let all = root().join("tests/golden");
    let mut used = HashSet::new();
    let folders = goldens();
    for golden in &folders {
        for path in json(&golden.join("tensors.json"))["companions"].as_object().unwrap().values() {
            used.insert(all.join(text(path)));
        }
        used.extend(["tensors.json", "golden.json", "logits.json"].map(|name| golden.join(name)));
    }
    let (mut bytes, most) = (0, 48_000 * folders.len() as u64);
    let mut waiting = folders;
    waiting.push(all.join("tokenizers"));
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                bytes += path.metadata().unwrap().len();
                assert!(used.contains(&path), "{}: no model of the goldens has this file", path.display());
            }
        }
    }
    assert!(bytes < most, "the goldens take {bytes} bytes");
}
