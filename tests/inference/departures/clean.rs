//! Models that are the same: each of many families, converted, against what it was converted from.

use super::compared;
use crate::golden::{cases, folder, models};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, program};
use std::process::Command;

#[test]
fn converted_models_are_called_clean() {
    let (mut count, mut wrong) = (0, Vec::new());
    for model in models() {
        if count == 32 {
            break;
        }
        // Those that give hidden states have no logits to compare.
        if cases(&model).iter().all(|case| case.hidden) {
            continue;
        }
        let scratch = Scratch::new();
        let source = scratch.at("model");
        Checkpoint::golden(&folder(&model)).unwrap().write_to(&source).unwrap();
        let converted = scratch.at("model.gguf");
        let done = Command::new(program()).arg("convert").args([&source, &converted]).arg("-q").output().unwrap();
        // Some families have no form in that format.
        if !done.status.success() {
            continue;
        }
        let told = compared(&converted, &source, &[]);
        if told.get("first").is_none() {
            let error = told["error"].to_string();
            assert!(error.contains("cannot be run") || error.contains("encoder"), "{model}: {error}");
            continue;
        }
        count += 1;
        let unseen = told["unseen"].as_array().map_or(1, Vec::len);
        // GGUF cannot say that a Gemma has the exact GELU: the two compute differently, and that is what is found.
        if model == "gemma" && told["unseen"].to_string().contains("GELU") {
            continue;
        }
        if !told["first"].is_null() || unseen > 0 || !told["prompt"].is_null() {
            wrong.push(format!("{model}: {} {} {}", told["first"], told["unseen"], told["prompt"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 30, "{count}");
}
