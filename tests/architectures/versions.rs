//! Configurations that versions 4 and 5 of the library read differently, or that only one of them saves.

use crate::altered::configure;
use crate::back::{config, config_json, to};
use crate::models::opened;
use crate::refused::{folder, tried};
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, host};
use serde_json::{Value as Json, json};

#[test]
fn what_versions_of_the_library_read_differently_is_refused_by_name() {
    let (host, mut wrong) = (host(), Vec::new());
    let flat = |said: Json| json!({"rope_scaling": null, "rope_parameters": said});
    for (golden, keys, words) in [
        ("bert", json!({"position_embedding_type": null}), "`position_embedding_type`"),
        ("roberta", json!({"position_embedding_type": null}), "`position_embedding_type`"),
        ("granite-moe", json!({"position_embedding_type": null}), "`position_embedding_type`"),
        ("apertus", json!({"rope_scaling": null}), "`rope_scaling`"),
        ("gpt-oss", json!({"rope_scaling": null}), "`rope_scaling`"),
        ("olmo3", json!({"rope_theta": 10000.0}), "`rope_theta` 10000"),
        // Neither counts what lies beside the kinds of layers.
        (
            "olmo3",
            flat(json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})),
            "`rope_parameters.rope_type` \"yarn\"",
        ),
        (
            "olmo3",
            flat(json!({"rope_type": "default", "rope_theta": 1e6})),
            "`rope_parameters.rope_theta` 1000000",
        ),
    ] {
        let (scratch, what) = (Scratch::new(), format!("{golden} {keys}"));
        match tried(&host, "gguf", &folder(&scratch, golden, &keys), &scratch.at("out.gguf")) {
            Ok(_) => wrong.push(format!("{what}: was converted")),
            Err(error) if error.kind() == ErrorKind::Unsupported && error.message().contains(words) => {}
            Err(error) => wrong.push(format!("{what}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_versions_of_the_library_read_alike_is_accepted() {
    let host = host();
    let both = |base: f64| {
        json!({"full_attention": {"rope_type": "default", "rope_theta": base},
            "sliding_attention": {"rope_type": "default", "rope_theta": base}})
    };
    for (golden, keys) in [
        ("granite-hybrid", json!({"position_embedding_type": null})),
        ("granite-swa", json!({"position_embedding_type": null})),
        ("olmo3", json!({"rope_theta": 10000.0, "rope_scaling": null, "rope_parameters": both(10000.0)})),
        ("olmo3", json!({"rope_theta": null, "rope_scaling": null, "rope_parameters": both(10000.0)})),
        // As version 5 saves it.
        (
            "gpt-oss",
            json!({"rope_theta": null, "rope_scaling": null, "rope_parameters": {"rope_type": "default", "rope_theta": 150_000.0}}),
        ),
    ] {
        let scratch = Scratch::new();
        to(&host, "gguf", &folder(&scratch, golden, &keys), &scratch.at("out.gguf"));
    }
}

#[test]
fn no_scaling_of_a_side_of_text_counts_before_that_of_the_root() {
    let (host, scratch) = (host(), Scratch::new());
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    let folder = folder(&scratch, "mistral3", &json!({"rope_scaling": yarn}));
    let mut text = config_json(&folder)["text_config"].clone();
    text["rope_scaling"] = Json::Null;
    configure(&folder, "text_config", text);
    let file = scratch.at("m.gguf");
    to(&host, "gguf", &folder, &file);
    let keys = opened(&host, &file).model;
    assert_eq!(keys.foreign_of("gguf").unwrap().get("mistral3.rope.scaling.type"), None);
}

#[test]
fn the_rotation_of_a_mistral_comes_back_as_either_version_reads_it() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = folder(&scratch, "mistral3", &json!({}));
    let mut text = config_json(&folder)["text_config"].clone();
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    text["rope_scaling"] = yarn;
    configure(&folder, "text_config", text);
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    let said = config(&back);
    for key in ["rope_theta", "rope_parameters.rope_theta"] {
        assert_eq!(said[key].as_f64(), Some(1e9), "{key}: {said:?}");
    }
    for object in ["rope_scaling", "rope_parameters"] {
        assert_eq!(said[&format!("{object}.rope_type")], "yarn", "{said:?}");
        assert_eq!(said[&format!("{object}.factor")].as_f64(), Some(4.0), "{said:?}");
    }
    to(&host, "gguf", &back, &scratch.at("again.gguf"));
}

/// Version 5 states experts of every Nemotron-H, and those that take part by the list of layers alone.
#[test]
fn a_nemotron_h_has_experts_if_a_layer_does() {
    let host = host();
    let experts = json!({"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 7688,
        "moe_shared_expert_intermediate_size": 7688, "norm_topk_prob": true, "n_group": 1, "topk_group": 1,
        "routed_scaling_factor": 1.0, "num_nextn_predict_layers": 0});
    let scratch = Scratch::new();
    let dense = folder(&scratch, "nemotron-h", &experts);
    let words = json!(["linear_attention", "full_attention", "mlp", "linear_attention"]);
    for key in ["layers_block_type", "layer_types"] {
        let mut json = config_json(&dense);
        for old in ["hybrid_override_pattern", "layers_block_type"] {
            json.as_object_mut().unwrap().remove(old);
        }
        json[key] = words.clone();
        std::fs::write(dense.join("config.json"), json.to_string()).unwrap();
        let file = scratch.at(&format!("{key}.gguf"));
        let done = to(&host, "gguf", &dense, &file);
        assert!(!done.notes.iter().any(|note| note.contains("unknown to the table")), "{:?}", done.notes);
        let keys = opened(&host, &file).model;
        let arch = keys.foreign_of("gguf").unwrap().get("general.architecture").cloned().unwrap();
        assert_eq!(arch.as_str(), Some("nemotron_h"), "{key}");
    }
}
