//! BitNet: weights of three values, made of floats once, and never of such values again.

use crate::back::{Tensors, config, tensors, to};
use crate::models::opened;
use apr_sdk::DType;
use apr_sdk::half::from_bf16;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use std::collections::BTreeSet;
use std::path::Path;

const MATRICES: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

fn matrices(tensors: &Tensors) -> Vec<(&str, BTreeSet<u16>)> {
    let is_one = |name: &&String| MATRICES.iter().any(|part| name.ends_with(&format!("{part}.weight")));
    let found = tensors.keys().filter(is_one).map(|name| {
        let (dtype, _, bytes) = &tensors[name];
        assert_eq!(*dtype, DType::BF16, "{name}");
        let magnitudes = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff);
        (name.as_str(), magnitudes.collect())
    });
    found.collect()
}

fn bitnet(folder: &Path) {
    Checkpoint::golden(&root().join("tests/golden/bitnet")).unwrap().write_to(folder).unwrap();
}

#[test]
fn what_has_three_values_stays_however_often_it_is_converted() {
    let (host, scratch) = (host(), Scratch::new());
    let at = |name: &str| scratch.at(name);
    let folder = at("bitnet");
    bitnet(&folder);
    to(&host, "gguf", &folder, &at("one.gguf"));
    to(&host, "huggingface", &at("one.gguf"), &at("back"));
    let back = tensors(&host, &at("back"));
    let found = matrices(&back);
    assert_eq!(found.len(), 14);
    for (name, magnitudes) in found {
        assert_eq!(magnitudes.len(), 2, "{name}");
        let mean = from_bf16(*magnitudes.last().unwrap());
        assert!(magnitudes.contains(&0) && mean > 0.0, "{name}");
    }
    // The library computes with what lies there.
    let said = config(&at("back"));
    assert_eq!(said["model_type"], "bitnet");
    assert_eq!(said["hidden_act"], "silu");
    assert!(!said.keys().any(|key| key.starts_with("quantization_config")), "{said:?}");
    to(&host, "gguf", &at("back"), &at("two.gguf"));
    to(&host, "huggingface", &at("two.gguf"), &at("again"));
    assert!(back == tensors(&host, &at("again")));
    // Told to be floats of which three values are made, they are the three.
    let mut json = crate::back::config_json(&at("back"));
    json["quantization_config"] = serde_json::json!({"quant_method": "bitnet", "linear_class": "autobitlinear",
        "quantization_mode": "online"});
    std::fs::write(at("back").join("config.json"), json.to_string()).unwrap();
    to(&host, "gguf", &at("back"), &at("three.gguf"));
    let sums = |file: &str| tensors(&host, &at(file));
    assert!(sums("two.gguf") == sums("three.gguf"));
}

#[test]
fn floats_are_kept_where_no_target_wants_three_values() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, held, back) = (scratch.at("bitnet"), scratch.at("held.apr"), scratch.at("back"));
    bitnet(&folder);
    to(&host, "apr", &folder, &held);
    assert!(opened(&host, &held).model.dialect == "canonical");
    to(&host, "huggingface", &held, &back);
    assert!(tensors(&host, &folder) == tensors(&host, &back));
    // The library's class makes three values of its floats where the configuration says so, and only there.
    let mut json = crate::back::config_json(&folder);
    json["model_type"] = "bitnet".into();
    json["architectures"] = serde_json::json!(["BitNetForCausalLM"]);
    std::fs::write(folder.join("config.json"), json.to_string()).unwrap();
    let file = scratch.at("plain.gguf");
    to(&host, "gguf", &folder, &file);
    let query = |path: &Path, name: &str| tensors(&host, path)[name].2.clone();
    assert!(query(&folder, "model.layers.0.self_attn.q_proj.weight") == query(&file, "blk.0.attn_q.weight"));
}
