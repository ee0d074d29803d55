//! Models without a head: what their class and their outermost class make of that, through GGUF and back.

use crate::altered::configure;
use crate::back::{config, to};
use crate::refused::tried;
use apr_host::convert::{ConvertOptions, convert};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// The folder of a golden without the head of its own, whose configuration says this.
fn headless(scratch: &Scratch, name: &str, keys: &Json) -> PathBuf {
    let mut model = Checkpoint::golden(&root().join("tests/golden").join(name)).unwrap();
    let folder = scratch.at(name);
    for (_, tensors) in &mut model.shards {
        tensors.retain(|tensor| !tensor.name.ends_with("lm_head.weight"));
    }
    model.write_to(&folder).unwrap();
    for (key, value) in keys.as_object().unwrap() {
        configure(&folder, key, value.clone());
    }
    folder
}

#[test]
fn a_head_of_its_own_that_is_missing_is_refused_by_key_and_tensor() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = headless(&scratch, "llama", &json!({"tie_word_embeddings": false}));
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).unwrap_err();
    let said = "`tie_word_embeddings` is false, but the model has no `lm_head.weight`";
    assert_eq!((error.message(), error.tensor_name()), (said, Some("lm_head.weight")));
    assert!(error.hint_text().unwrap().contains("--set tie_word_embeddings=true"), "{error}");
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    let set = vec![("tie_word_embeddings".to_owned(), "true".to_owned())];
    let options =
        ConvertOptions { input: folder, output: Some(file.clone()), set, ..ConvertOptions::default() };
    convert(&host, &options).unwrap();
    to(&host, "huggingface", &file, &back);
    assert_eq!(config(&back)["tie_word_embeddings"], true);
}

#[test]
fn a_body_that_is_saved_alone_needs_no_head_and_comes_back_untied() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = Checkpoint::golden(&root().join("tests/golden/llama")).unwrap();
    for (_, tensors) in &mut model.shards {
        tensors.retain(|tensor| tensor.name != "lm_head.weight");
        for tensor in tensors {
            tensor.name = tensor.name.strip_prefix("model.").unwrap().to_owned();
        }
    }
    let (folder, file, back) = (scratch.at("llama"), scratch.at("m.gguf"), scratch.at("back"));
    model.write_to(&folder).unwrap();
    configure(&folder, "tie_word_embeddings", false.into());
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    assert_eq!(config(&back)["tie_word_embeddings"], false);
    assert_eq!(config(&back)["architectures"], json!(["LlamaModel"]));
    // So does a class without one. GGUF has no name of its own for Mistral.
    for (golden, class, own) in
        [("mistral", "MistralModel", "LlamaModel"), ("qwen3", "Qwen3Model", "Qwen3Model")]
    {
        let keys = json!({"architectures": [class], "tie_word_embeddings": false});
        let folder = headless(&scratch, golden, &keys);
        let [file, back] = ["gguf", "back"].map(|end| scratch.at(&format!("{golden}.{end}")));
        let done = to(&host, "gguf", &folder, &file);
        assert!(done.warnings.iter().any(|said| said.contains("has no head")), "{:?}", done.warnings);
        to(&host, "huggingface", &file, &back);
        assert_eq!(config(&back)["architectures"], json!([own]), "{golden}");
        assert_eq!(config(&back)["tie_word_embeddings"], false, "{golden}");
    }
}

#[test]
fn a_head_that_the_outermost_class_ties_comes_back_as_one() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = headless(&scratch, "mistral3", &json!({}));
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    assert_eq!(config(&back)["architectures"], json!(["MistralForCausalLM"]));
    assert_eq!(config(&back)["tie_word_embeddings"], true);
}
