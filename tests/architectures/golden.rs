//! Folder to GGUF, compared with the converter's file: the same tensors in the same order with the same shapes, types and
//! bytes, and the same keys (whose order is not compared: the converter puts some of Llama's behind `general.file_type`).

use crate::models::{goldens, name, opened, payload, sha256};
use apr_engine::open::OpenedModel;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{Value, ValueType};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use base64::Engine;
use serde_json::Value as Json;
use std::fs;

/// Keys in which a file may differ from the converter's: the exceptions.
const EXCEPT: &[&str] = &["general.quantization_version"];

/// Whether the converter writes the number of released models for a key, whatever the vocabulary says.
fn is_of_released(arch: &Value, key: &str) -> bool {
    arch.as_str() == Some("gemma") && key == "tokenizer.ggml.eot_token_id"
}

/// Starts of keys that a file may have beyond the converter's.
const MORE: &[&str] = &[
    // What GGUF has no key for and llama.cpp passes over: further ids that end a text, flags of added tokens.
    "general.apr.",
    "tokenizer.apr.",
    // What an architecture's keys do not say; llama.cpp passes over it too.
    "bert.apr.",
    "gpt-oss.apr.",
    "llama.apr.tie_word_embeddings",
    "mamba2.apr.",
    "phimoe.apr.",
    "starcoder2.apr.",
    "t5.apr.",
    // llama.cpp's loader asks for it; this converter writes `layer_norm_epsilon` alone.
    "exaone.attention.layer_norm_rms_epsilon",
    // Without it, llama.cpp knows released models alone (`glm4-moe-lite`).
    "deepseek2.expert_gating_func",
    // Without it, llama.cpp takes another factor of sine and cosine than the folder states.
    "laguna.rope.scaling.attn_factor",
];

/// Models whose experts the converter writes in the order gate, up, down, where it sorts those of others, or whose norms it makes
/// of a number of the configuration and puts elsewhere.
const OTHER_ORDER: &[&str] = &["afmoe", "ernie4_5-moe", "laguna", "muse-glimmer"];
/// What is said where the order of tensors is another.
pub const ORDER: &str = "lacks [], has [], or another order";

/// A value in the form of the manifests.
fn shown(value: &Value) -> String {
    if value.kind == ValueType::ARRAY {
        let (of, count) = value.array_head().unwrap();
        let items: Vec<String> = value.items().iter().map(shown).collect();
        return format!("[{}; {count}] {}", of.name().unwrap(), items.join(","));
    }
    let kind = value.kind.name().unwrap();
    let bytes = value.bytes.inline().unwrap();
    match value.kind {
        ValueType::STRING => format!("{kind} {:?}", String::from_utf8_lossy(value.as_bytes().unwrap())),
        ValueType::F32 => format!("{kind} {:08x}", value.as_f32().unwrap().to_bits()),
        ValueType::BOOL => format!("{kind} {}", value.as_bool().unwrap()),
        _ => format!("{kind} {}", value.as_unsigned().map_or(format!("{bytes:?}"), |n| n.to_string())),
    }
}

/// What is different between the file and the manifest, a line each.
pub fn differences(model: &OpenedModel, golden: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    let want: Vec<&Json> = golden["tensors"].as_array().unwrap().iter().collect();
    let order: Vec<&str> = want.iter().map(|t| t["name"].as_str().unwrap()).collect();
    let have: Vec<&str> = model.model.tensors.iter().map(|t| t.name.as_str()).collect();
    if order != have {
        let lacks: Vec<_> = order.iter().filter(|n| !have.contains(n)).collect();
        let more: Vec<_> = have.iter().filter(|n| !order.contains(n)).collect();
        lines.push(format!("tensors: lacks {lacks:?}, has {more:?}, or another order"));
    }
    for tensor in &model.model.tensors {
        let Some(want) = want.iter().find(|t| t["name"] == tensor.name.as_str()) else { continue };
        let mut dims: Vec<u64> = tensor.shape.clone();
        dims.reverse();
        let told = format!("{} {dims:?}", tensor.dtype);
        let wanted: Vec<u64> = want["dims"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let wanted = format!("{} {wanted:?}", want["type"].as_str().unwrap());
        if told != wanted {
            lines.push(format!("{}: {told}, not {wanted}", tensor.name));
        } else if let bytes = payload(model, tensor)
            && sha256(&bytes) != want["sha256"].as_str().unwrap()
            && !is_near(&bytes, &want["values"])
        {
            lines.push(format!("{}: other bytes", tensor.name));
        }
    }
    lines.extend(key_differences(model, golden));
    lines
}

/// Whether F32 values are those of the manifest, or the next ones: exponentials, which the converter takes from torch.
fn is_near(bytes: &[u8], values: &Json) -> bool {
    let Some(values) = values.as_str() else { return false };
    let bits = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap());
    let values = base64::engine::general_purpose::STANDARD.decode(values).unwrap();
    let near = |(a, b): (&[u8], &[u8])| bits(a).abs_diff(bits(b)) <= 1;
    values.len() == bytes.len() && bytes.chunks_exact(4).zip(values.chunks_exact(4)).all(near)
}

fn key_differences(model: &OpenedModel, golden: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    let keys = &model.model.foreign_of("gguf").unwrap().files[0].typed;
    let wanted = golden["kvs"].as_array().unwrap();
    for kv in wanted {
        let key = kv["key"].as_str().unwrap();
        match keys.iter().find(|(k, _)| k == key) {
            None => lines.push(format!("lacks {key} = {}", kv["value"])),
            Some(_) if EXCEPT.contains(&key) => {}
            Some(_)
                if keys.iter().any(|(k, arch)| k == "general.architecture" && is_of_released(arch, key)) => {}
            Some((_, value)) => {
                let value = Value { kind: value.kind, bytes: model.fetch(&value.bytes).unwrap() };
                if !same(&value, kv) {
                    lines.push(format!("{key}: {}, not {kv}", apr_sdk::escape(&shown(&value), 300)));
                }
            }
        }
    }
    for (key, value) in keys {
        let more = MORE.iter().any(|start| key.starts_with(start));
        if !more && wanted.iter().all(|kv| kv["key"] != key.as_str()) {
            lines.push(format!(
                "has {key}, which the converter does not write ({})",
                value.kind.name().unwrap()
            ));
        }
    }
    lines
}

/// The names that the converter gives WordPiece, whose splitter is one: llama.cpp looks at names for BPE alone.
const WORDPIECE: &[&str] = &["bert-bge", "jina-v2-en"];

/// Whether two names of pre-tokenizers stand for one splitter: the converter tells them apart by vocabularies.
fn same_splitter(name: &str, other: &str) -> bool {
    if WORDPIECE.contains(&name) && WORDPIECE.contains(&other) {
        return true;
    }
    let table = include_str!("../../plugins/gguf/src/tokenizer/pre.json");
    let table: Json = serde_json::from_str(table).unwrap();
    let has = |entry: &Json, name: &str| entry["names"].as_array().unwrap().iter().any(|n| n[0] == name);
    table.as_array().unwrap().iter().any(|entry| has(entry, name) && has(entry, other))
}

/// Whether a value is what the manifest says.
fn same(value: &Value, want: &Json) -> bool {
    if want["key"] == "tokenizer.ggml.pre" && value.as_str() != want["value"].as_str() {
        return same_splitter(value.as_str().unwrap(), want["value"].as_str().unwrap());
    }
    if value.kind.name() != want["type"].as_str() {
        return false;
    }
    match value.kind {
        ValueType::ARRAY => {
            let (of, count) = value.array_head().unwrap();
            let of_same = want["of"].is_null() || of.name() == want["of"].as_str();
            let same = match want.get("value").and_then(Json::as_array) {
                Some(items) => value.items().iter().zip(items).all(|(have, want)| same_scalar(have, want)),
                None => want["sha256"].as_str() == Some(&sha256(&value.bytes.inline().unwrap()[12..])),
            };
            of_same && Some(count) == want["count"].as_u64() && same
        }
        ValueType::F32 => want["bits"] == format!("{:08x}", value.as_f32().unwrap().to_bits()),
        _ => same_scalar(value, &want["value"]),
    }
}

fn same_scalar(value: &Value, want: &Json) -> bool {
    match value.kind {
        ValueType::STRING => value.as_str() == want.as_str(),
        ValueType::BOOL => value.as_bool() == want.as_bool(),
        ValueType::F32 => value.as_f32().map(f64::from) == want.as_f64(),
        ValueType::I32 => value.as_i32().map(i64::from) == want.as_i64(),
        ValueType::I64 => value.as_i64() == want.as_i64(),
        _ => value.as_unsigned() == want.as_u64() && want.as_u64().is_some(),
    }
}

#[test]
fn a_folder_becomes_the_file_that_llama_cpp_s_converter_writes() {
    let host = host();
    let mut failed = Vec::new();
    for path in goldens() {
        let golden: Json = serde_json::from_slice(&fs::read(path.join("golden.json")).unwrap()).unwrap();
        let model = Checkpoint::golden(&path).unwrap();
        let scratch = Scratch::new();
        let folder = scratch.at(&model.name);
        model.write_to(&folder).unwrap();
        let output = scratch.at("out.gguf");
        let options = ConvertOptions {
            input: folder.clone(),
            output: Some(output.clone()),
            ..ConvertOptions::default()
        };
        match convert(&host, &options) {
            Err(error) => failed.push(format!("{}: {error:#?}", name(&path))),
            Ok(_) => {
                let ordered = |line: &&String| !OTHER_ORDER.contains(&name(&path)) || !line.ends_with(ORDER);
                let lines = differences(&opened(&host, &output), &golden);
                failed.extend(lines.iter().filter(ordered).map(|line| format!("{}: {line}", name(&path))));
                // The same through APR, but that the file does not say what its folder was called.
                let (held, again) = (scratch.at("held.apr"), scratch.at("again.gguf"));
                for (input, output) in [(&folder, &held), (&held, &again)] {
                    let options = ConvertOptions {
                        input: input.clone(),
                        output: Some(output.clone()),
                        ..ConvertOptions::default()
                    };
                    convert(&host, &options).unwrap();
                }
                let lines = differences(&opened(&host, &again), &golden);
                let lines = lines.iter().filter(ordered).filter(|line| !line.contains("general."));
                failed.extend(lines.map(|line| format!("{} through APR: {line}", name(&path))));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
