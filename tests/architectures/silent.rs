//! GGUF files that leave a key out, or state another value than it usually has: what comes back is what llama.cpp computes, or the
//! file is refused as it refuses it.

use crate::back::{config, to};
use crate::models::opened;
use crate::refused::folder;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{ErrorKind, Result};
use apr_tests::{Scratch, host};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// The folder that comes back of a golden's GGUF file whose keys are changed.
fn back(host: &Host, scratch: &Scratch, golden: &str, edit: ConvertOptions) -> (PathBuf, Result<Converted>) {
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(host, "gguf", &folder(scratch, golden, &json!({})), &file);
    let to = Some("huggingface".to_owned());
    let done = convert(host, &ConvertOptions { input: file, output: Some(back.clone()), to, ..edit });
    (back, done)
}

fn without(key: &str) -> ConvertOptions {
    ConvertOptions { unset: vec![key.to_owned()], ..ConvertOptions::default() }
}

#[test]
fn what_readers_take_where_a_file_is_silent_comes_back() {
    let (host, mut wrong) = (host(), Vec::new());
    let cases: [(&str, &str, &str, Json); 11] = [
        ("phi2", "phi2.rope.dimension_count", "partial_rotary_factor", json!(1.0)),
        ("stablelm", "stablelm.rope.dimension_count", "partial_rotary_factor", json!(1.0)),
        ("gpt-neox", "gptneox.rope.dimension_count", "rotary_pct", json!(1.0)),
        ("nemotron", "nemotron.rope.dimension_count", "partial_rotary_factor", json!(1.0)),
        ("glm4", "glm4.rope.dimension_count", "partial_rotary_factor", json!(1.0)),
        ("glm4-moe", "glm4moe.rope.dimension_count", "partial_rotary_factor", json!(1.0)),
        ("command-r", "command-r.logit_scale", "logit_scale", json!(1.0)),
        ("gpt-oss", "gpt-oss.rope.freq_base", "rope_theta", json!(10000.0)),
        ("falcon-h1", "falcon-h1.rope.freq_base", "rope_theta", json!(10000.0)),
        ("glm4-moe", "glm4moe.expert_weights_norm", "norm_topk_prob", json!(false)),
        ("glm-dsa", "glm-dsa.expert_weights_scale", "routed_scaling_factor", json!(1.0)),
    ];
    for (golden, key, name, want) in cases {
        let scratch = Scratch::new();
        let (back, done) = back(&host, &scratch, golden, without(key));
        match done {
            Ok(_) if config(&back).get(name) == Some(&want) => {}
            Ok(_) => {
                wrong.push(format!("{key}: `{name}` is {:?}, not {want}", config(&back).get(name)));
            }
            Err(error) => wrong.push(format!("{key}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_key_that_readers_require_is_required() {
    let (host, mut wrong) = (host(), Vec::new());
    for (golden, key) in [
        ("llama", "llama.attention.layer_norm_rms_epsilon"),
        ("llama", "llama.context_length"),
        ("gpt2", "gpt2.attention.layer_norm_epsilon"),
        ("falcon", "falcon.context_length"),
        ("cohere2", "cohere2.logit_scale"),
    ] {
        let scratch = Scratch::new();
        match back(&host, &scratch, golden, without(key)).1 {
            Err(error)
                if error.kind() == ErrorKind::Malformed && error.message().contains(&format!("`{key}`")) => {}
            Ok(_) => wrong.push(format!("{key}: was converted")),
            Err(error) => wrong.push(format!("{key}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_factor_that_does_not_follow_from_the_lengths_is_carried() {
    let (host, scratch) = (host(), Scratch::new());
    let set = vec![("phi3.rope.scaling.attn_factor:f32".to_owned(), "1.5".to_owned())];
    let (back, done) = back(&host, &scratch, "phi3", ConvertOptions { set, ..ConvertOptions::default() });
    assert_eq!(done.unwrap().warnings, Vec::<String>::new());
    assert_eq!(config(&back)["rope_scaling.attention_factor"], 1.5);
    let again = scratch.at("again.gguf");
    to(&host, "gguf", &back, &again);
    let keys = opened(&host, &again).model;
    let factor = keys.foreign_of("gguf").unwrap().get("phi3.rope.scaling.attn_factor").cloned();
    assert_eq!(factor.and_then(|factor| factor.as_f32()), Some(1.5));
}

#[test]
fn a_note_of_unknown_keys_names_a_few() {
    let (host, scratch) = (host(), Scratch::new());
    let set = (0..40).map(|n| (format!("gguf.llama.tomorrow_{n}:u32"), "1".to_owned())).collect();
    let (_, done) = back(&host, &scratch, "llama", ConvertOptions { set, ..ConvertOptions::default() });
    let done = done.unwrap();
    let note = done.notes.iter().find(|note| note.contains("llama.tomorrow_0")).unwrap();
    assert!(note.ends_with("llama.tomorrow_31 and 8 more"), "{note}");
}
