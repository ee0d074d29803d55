//! Tokenizers of folders through GGUF files, whatever is done with what only a folder can say.

use crate::saved::tokenizer;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::ForeignPolicy;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::json;
use std::fs;

#[test]
fn a_chat_template_of_its_own_file_comes_back_under_every_policy() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = scratch.at("folder");
    Checkpoint::golden(&root().join("tests/golden/qwen2")).unwrap().write_to(&folder).unwrap();
    crate::unsaid::edit(&folder.join("tokenizer_config.json"), |json| {
        json.as_object_mut().unwrap().remove("chat_template");
    });
    fs::write(folder.join("chat_template.jinja"), "{{ messages }}").unwrap();
    let expected = tokenizer(&host, &folder);
    for policy in [ForeignPolicy::Default, ForeignPolicy::Typed, ForeignPolicy::Keep, ForeignPolicy::Drop] {
        let (file, back) = (scratch.at("model.gguf"), scratch.at("back"));
        let one = |input: &std::path::Path, output: &std::path::Path, to: &str, foreign: ForeignPolicy| {
            let options = ConvertOptions {
                input: input.to_owned(),
                output: Some(output.to_owned()),
                to: Some(to.to_owned()),
                foreign,
                ..ConvertOptions::default()
            };
            convert(&host, &options).unwrap_or_else(|error| panic!("{policy:?}, {to}: {error:#?}"))
        };
        one(&folder, &file, "gguf", policy);
        one(&file, &back, "huggingface", ForeignPolicy::Default);
        for read in [tokenizer(&host, &file), tokenizer(&host, &back)] {
            assert_eq!(read.chat_templates, expected.chat_templates, "{policy:?}");
            assert_eq!(read.tokens, expected.tokens, "{policy:?}");
        }
        fs::remove_file(file).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}

#[test]
fn a_name_that_is_asked_for_is_warned_of_if_it_splits_otherwise() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = scratch.at("folder");
    Checkpoint::golden(&root().join("tests/golden/starcoder2")).unwrap().write_to(&folder).unwrap();
    let split =
        json!({"type": "Split", "pattern": {"Regex": r"\d"}, "behavior": "Isolated", "invert": false});
    for (step, pre, words) in [
        (Some(&split), None, Err("no name for this pre-tokenizer")),
        (Some(&split), Some("starcoder"), Ok(1)),
        (None, Some("llama-bpe"), Ok(1)),
        (None, Some("refact"), Ok(0)),
    ] {
        let original = fs::read(folder.join("tokenizer.json")).unwrap();
        if let Some(step) = step {
            crate::unsaid::edit(&folder.join("tokenizer.json"), |json| {
                json["pre_tokenizer"]["pretokenizers"][0] = step.clone();
            });
        }
        let file = scratch.at("model.gguf");
        let options = ConvertOptions {
            input: folder.clone(),
            output: Some(file.clone()),
            to: Some("gguf".to_owned()),
            options: pre.map(|name| (None, "pre".to_owned(), name.to_owned())).into_iter().collect(),
            force: true,
            ..ConvertOptions::default()
        };
        let found = convert(&host, &options);
        fs::write(folder.join("tokenizer.json"), original).unwrap();
        match (found, words) {
            (Ok(done), Ok(n)) => {
                let said = done.warnings.iter().filter(|warning| warning.contains("texts are split as"));
                assert_eq!(said.count(), n, "{pre:?}: {:?}", done.warnings);
            }
            (Err(error), Err(words)) => assert!(error.message().contains(words), "{error:?}"),
            (found, _) => panic!("{pre:?}: {:?}", found.map(|done| done.warnings)),
        }
    }
}
