//! What a configuration states of the rotation, in the words of the library before version 5 and since: what no table knows, and
//! what is said twice, is refused by name.

use crate::back::to;
use crate::refused::{folder, tried};
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, host};
use serde_json::{Value as Json, json};

/// Configurations that are refused, of which golden, and the words of the refusal.
fn refused() -> Vec<(&'static str, Json, ErrorKind, &'static str)> {
    let linear =
        |key: &str, value: Json| json!({"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4, key: value});
    let yarn = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    let window = |key: &str, value: Json| {
        json!({"full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, key: value}})
    };
    let default = json!({"rope_type": "default", "rope_theta": 1e6});
    let (unknown, twice) = (ErrorKind::Unsupported, ErrorKind::Malformed);
    vec![
        (
            "llama",
            json!({"rope_parameters": linear("scale_base", json!(3.0))}),
            unknown,
            "`rope_parameters.scale_base` 3",
        ),
        (
            "qwen2",
            json!({"rope_scaling": linear("scale_base", json!(3.0))}),
            unknown,
            "`rope_scaling.scale_base` 3",
        ),
        (
            "qwen2-moe",
            json!({"rope_scaling": linear("alpha", json!(1000.0))}),
            unknown,
            "`rope_scaling.alpha` 1000",
        ),
        (
            "qwen3-moe",
            json!({"rope_parameters": window("factor", json!(2.0))}),
            unknown,
            "`rope_parameters.full_attention.rope_theta`",
        ),
        (
            "gemma3",
            json!({"rope_parameters": window("factor", json!(2.0))}),
            unknown,
            "`rope_parameters.sliding_attention.factor` 2",
        ),
        (
            "gemma3",
            json!({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "attention_factor": 2.0}}}),
            unknown,
            "`rope_parameters.full_attention.attention_factor` 2",
        ),
        // The library takes the one before version 5, and the other since.
        (
            "llama",
            json!({"rope_theta": 1e6}),
            twice,
            "`rope_theta` is 1000000, `rope_parameters.rope_theta` is 10000",
        ),
        (
            "qwen3",
            json!({"rope_theta": 10000}),
            twice,
            "`rope_theta` is 10000, `rope_parameters.rope_theta` is 1000000",
        ),
        (
            "gemma3",
            json!({"rope_parameters": window("rope_type", json!("default")), "rope_theta": 5e5}),
            twice,
            "`rope_theta` is 500000, `rope_parameters.full_attention.rope_theta` is 1000000",
        ),
        (
            "qwen2",
            json!({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 4.0}}),
            twice,
            "`rope_scaling.rope_type` is \"yarn\", `rope_scaling.type` is \"linear\"",
        ),
        (
            "phi3-moe",
            json!({"original_max_position_embeddings": 77}),
            twice,
            "`original_max_position_embeddings` is 77",
        ),
        // One object beside the other: which counts differs, too.
        (
            "qwen3",
            json!({"rope_scaling": yarn, "rope_parameters": default}),
            twice,
            "`rope_scaling.type` is \"yarn\", `rope_parameters.rope_type` is \"default\"",
        ),
        (
            "qwen3",
            json!({"rope_scaling": {"rope_type": "default"}, "rope_parameters": default}),
            twice,
            "`rope_theta` is 10000 according to `rope_scaling`, but 1000000 according to `rope_parameters`",
        ),
    ]
}

#[test]
fn what_is_said_of_the_rotation_beyond_the_table_or_twice_is_refused_by_name() {
    let (host, mut wrong) = (host(), Vec::new());
    for (golden, keys, kind, words) in refused() {
        let (scratch, what) = (Scratch::new(), format!("{golden} {keys}"));
        let output = scratch.at("out.gguf");
        match tried(&host, "gguf", &folder(&scratch, golden, &keys), &output) {
            Ok(_) => wrong.push(format!("{what}: was converted")),
            Err(error) if error.kind() == kind && error.message().contains(words) && !output.exists() => {}
            Err(error) => wrong.push(format!("{what}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_said_twice_alike_or_counts_for_nothing_is_accepted() {
    let host = host();
    let yarn = json!({"type": "yarn", "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
        "mscale": 0.7, "finetuned": true, "rope_theta": 1e6});
    for (golden, keys) in [
        ("llama", json!({"rope_theta": 10000})),
        ("qwen2", json!({"rope_scaling": yarn})),
        ("qwen3", json!({"rope_parameters": yarn})),
        ("qwen3", json!({"rope_parameters": yarn, "rope_scaling": yarn, "rope_theta": 1_000_000})),
        ("qwen3-moe", json!({"rope_parameters": yarn})),
        (
            "gemma3",
            json!({"rope_theta": null, "rope_local_base_freq": null, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
        ),
    ] {
        let scratch = Scratch::new();
        to(&host, "gguf", &folder(&scratch, golden, &keys), &scratch.at("out.gguf"));
    }
}
