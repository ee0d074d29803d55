//! What folders say.

use crate::fixture::{CONFIG, FORMAT, folder, probe_folder, read, smallest};
use apr_sdk::{MemorySource, Score, Source};

#[test]
fn a_configuration_and_weights_make_a_model() {
    let source = smallest();
    let model = read(&source).unwrap();
    assert_eq!(model.dialect, "hf");
    let record = &model.foreign_of(FORMAT).unwrap().files[0];
    let keys: Vec<_> = record.typed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(record.name, "config.json");
    assert_eq!(
        keys,
        [
            "architectures",
            "hidden_size",
            "model_type",
            "rms_norm_eps",
            "rope_scaling.factor",
            "rope_scaling.rope_type"
        ]
    );
    assert_eq!(record.get("hidden_size").unwrap().as_i64(), Some(16));
    assert_eq!(record.get("rms_norm_eps").unwrap().as_f64(), Some(1e-5));
    assert_eq!(model.parts.len(), 1);
    assert_eq!(model.parts[0].format, "safetensors");
    assert_eq!(source.name(model.parts[0].file), "model.safetensors");
}

#[test]
fn a_weights_file_in_a_folder_chooses_itself_or_its_shard_set() {
    for (opened, part) in [
        ("other.safetensors", "other.safetensors"),
        ("pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"),
        ("config.json", "model.safetensors"),
    ] {
        let names = [
            "model.safetensors",
            "other.safetensors",
            "pytorch_model.bin.index.json",
            "pytorch_model-00002-of-00002.bin",
        ];
        let mut source = MemorySource::new(opened, if opened == "config.json" { CONFIG } else { "" });
        for name in names.iter().filter(|name| **name != opened) {
            source = source.with(*name, "");
        }
        if opened != "config.json" {
            source = source.with("config.json", CONFIG);
        }
        let model = read(&source).unwrap();
        assert_eq!(source.name(model.parts[0].file), part, "{opened}");
    }
}

#[test]
fn records_have_their_order_and_tokenizers_are_not_read() {
    let source = folder(&[
        ("tokenizer.json", b"{}"),
        ("special_tokens_map.json", br#"{"bos_token": "<s>"}"#),
        ("model.safetensors", b""),
        ("config.json", CONFIG.as_bytes()),
        ("generation_config.json", br#"{"bos_token_id": 1, "hidden_size": 17}"#),
    ]);
    let metered = apr_testkit::MeteringSource::new(&source);
    let model = read(&metered).unwrap();
    let foreign = model.foreign_of(FORMAT).unwrap();
    let names: Vec<_> = foreign.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json"]);
    assert_eq!(foreign.get("hidden_size").unwrap().as_i64(), Some(16));
    let objects =
        CONFIG.len() + br#"{"bos_token": "<s>"}"#.len() + br#"{"bos_token_id": 1, "hidden_size": 17}"#.len();
    assert_eq!(metered.bytes_read(), objects as u64);
}

#[test]
fn probing_wants_a_configuration_that_says_a_model_and_weights() {
    assert_eq!(probe_folder(&["config.json", "model.safetensors"], CONFIG), Score::MAGIC);
    assert_eq!(probe_folder(&["config.json", "model.safetensors"], "{\"_class_name\": 1}"), Score::NO);
    assert_eq!(probe_folder(&["config.json", "model.gguf"], CONFIG), Score::NO);
    assert_eq!(probe_folder(&["config.json", "training_args.bin"], CONFIG), Score::NO);
    assert_eq!(probe_folder(&["model.safetensors"], ""), Score::NO);
}
