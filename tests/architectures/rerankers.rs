//! Qwen3-Reranker: of its head, GGUF has the rows of two tokens.

use crate::golden::differences;
use crate::models::opened;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{Error, Result};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

fn tried(host: &Host, format: &str, input: &Path, output: &Path) -> Result<Converted> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    convert(host, &options)
}

/// The folder of a golden model, and its GGUF file.
fn reranker(host: &Host, scratch: &Scratch, golden: &str) -> (PathBuf, PathBuf) {
    let (folder, file) = (scratch.at(golden), scratch.at("out.gguf"));
    Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap().write_to(&folder).unwrap();
    tried(host, "gguf", &folder, &file).unwrap();
    (folder, file)
}

fn is_refused(error: &Error, words: &[&str]) {
    assert_eq!(error.tensor_name(), Some("cls.output.weight"), "{error:?}");
    assert!(words.iter().all(|word| error.message().contains(word)), "{error:?}");
}

#[test]
fn a_reranker_with_a_head_of_its_own_becomes_a_file_that_gives_no_folder_back() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file) = reranker(&host, &scratch, "qwen3-reranker-untied");
    let golden = fs::read(root().join("tests/golden/qwen3-reranker-untied/golden.json")).unwrap();
    let golden: Json = serde_json::from_slice(&golden).unwrap();
    assert_eq!(differences(&opened(&host, &file), &golden), Vec::<String>::new());
    let error = tried(&host, "huggingface", &file, &scratch.at("back")).unwrap_err();
    is_refused(&error, &["`token_embd.weight`", "`yes` and `no`", "not in the file"]);
    // APR has all of it.
    let held = scratch.at("held.apr");
    tried(&host, "apr", &folder, &held).unwrap();
    tried(&host, "huggingface", &held, &scratch.at("again")).unwrap();
}

#[test]
fn rows_that_are_not_the_embedding_s_are_of_another_head() {
    let (host, scratch) = (host(), Scratch::new());
    let (_, file) = reranker(&host, &scratch, "qwen3-reranker");
    let (back, again) = (scratch.at("back"), scratch.at("again.gguf"));
    tried(&host, "huggingface", &file, &back).unwrap();
    // Its name tells what it is.
    tried(&host, "gguf", &back, &again).unwrap();
    let of_file = |path: &Path| crate::back::tensors(&host, path);
    assert!(of_file(&file) == of_file(&again));
    let model = opened(&host, &file).model;
    let rows = model.tensors.iter().find(|tensor| tensor.name == "cls.output.weight").unwrap();
    let apr_sdk::Payload::Extent { extent, .. } = &rows.payload else { panic!("{rows:?}") };
    let mut bytes = fs::read(&file).unwrap();
    bytes[usize::try_from(extent.offset + extent.len - 2).unwrap()] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = tried(&host, "huggingface", &file, &scratch.at("other")).unwrap_err();
    is_refused(&error, &["`token_embd.weight`", "not in the file"]);
}
