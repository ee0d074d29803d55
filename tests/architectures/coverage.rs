//! Everything of a source is accounted for: tensors and keys are mapped, carried, restated or dropped by a rule, and the four
//! together are all that there are.

use crate::models::{goldens, name, opened};
use apr_engine::planned::coverage::Account;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use std::path::Path;

fn adds_up(account: &Account, what: &str) {
    let sum = account.mapped.len() + account.carried.len() + account.restated.len() + account.dropped.len();
    assert_eq!(sum, account.total, "{what}: {account:?}");
    assert!(account.dropped.iter().all(|dropped| !dropped.rule.is_empty()), "{what}");
}

fn to(host: &Host, format: &str, input: &Path, output: &Path) -> Converted {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    let what = format!("{} -> {format}", input.display());
    let source = opened(host, input);
    let done = convert(host, &options).unwrap_or_else(|e| panic!("{what}: {e:#?}"));
    let coverage = &done.coverage;
    assert_eq!(coverage.tensors.total, source.model.tensors.len(), "{what}");
    let stated = source.model.architecture.iter().filter_map(|a| a.config.inline());
    let config: usize = stated
        .map(|json| serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(json).unwrap().len())
        .sum();
    let files = source.model.foreign.iter().flat_map(|foreign| &foreign.files);
    let keys = files.map(|file| file.typed.len()).sum::<usize>() + config;
    assert_eq!(coverage.keys.total, keys, "{what}");
    adds_up(&coverage.tensors, &what);
    adds_up(&coverage.keys, &what);
    done
}

#[test]
fn every_tensor_and_key_of_every_golden_is_accounted_for() {
    let host = host();
    for path in &goldens() {
        let scratch = Scratch::new();
        let model = Checkpoint::golden(path).unwrap();
        let folder = scratch.at(&model.name);
        model.write_to(&folder).unwrap();
        let (gguf, apr) = (scratch.at("out.gguf"), scratch.at("out.apr"));
        let done = to(&host, "gguf", &folder, &gguf);
        assert_eq!(done.coverage.tensors.carried, Vec::<String>::new(), "{}", name(path));
        assert!(done.coverage.keys.mapped.len() > 5, "{}: {:?}", name(path), done.coverage.keys);
        to(&host, "hf", &gguf, &scratch.at("back"));
        to(&host, "apr", &folder, &apr);
        to(&host, "gguf", &apr, &scratch.at("again.gguf"));
    }
}

#[test]
fn what_the_table_does_not_know_is_listed_by_name() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("model");
    Checkpoint::tiny().write_to(&folder).unwrap();
    crate::altered::configure(&folder, "a_key_of_tomorrow", 7.into());
    let done = to(&host, "gguf", &folder, &scratch.at("out.gguf"));
    let dropped = &done.coverage.keys.dropped;
    let unknown = dropped.iter().find(|d| d.name.ends_with("a_key_of_tomorrow")).unwrap();
    assert_eq!(unknown.rule, "it is not in the table of `llama`");
    assert!(done.notes.iter().any(|note| note.contains("a_key_of_tomorrow")), "{:?}", done.notes);
    let kept = to(&host, "apr", &folder, &scratch.at("out.apr"));
    assert!(kept.coverage.keys.carried.iter().any(|key| key.ends_with("a_key_of_tomorrow")));
}

#[test]
fn what_the_output_says_in_its_own_form_is_not_called_lost() {
    let (host, scratch) = (host(), Scratch::new());
    let path = apr_tests::root().join("tests/golden/llama");
    let (folder, file) = (scratch.at("llama"), scratch.at("m.gguf"));
    Checkpoint::golden(&path).unwrap().write_to(&folder).unwrap();
    let done = to(&host, "gguf", &folder, &file);
    let keys = &done.coverage.keys;
    let restated = |name: &str| keys.restated.iter().any(|key| key == name);
    for name in ["tokenizer_config.json: bos_token", "generation_config.json: temperature", "format"] {
        assert!(restated(name), "{name}: {keys:?}");
    }
    let lost = |done: &Converted| {
        let notes = done.notes.iter().filter(|note| note.contains("not carried") || note.contains("dropped"));
        notes.cloned().collect::<Vec<_>>()
    };
    // Its text beside the front matter.
    let lost_keys =
        "not carried over: 1 key outside the configuration: tokenizer_config.json: model_max_length";
    assert_eq!(lost(&done), ["not carried over: the companion files README.md", lost_keys]);
    // And by way of APR, which keeps GGUF's own keys.
    let (held, back) = (scratch.at("m.apr"), scratch.at("back"));
    to(&host, "apr", &file, &held);
    let done = to(&host, "huggingface", &held, &back);
    assert_eq!(lost(&done), Vec::<String>::new());
    // What nothing says is named.
    crate::altered::configure(&folder, "a_key_of_tomorrow", 7.into());
    let generation = folder.join("generation_config.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&generation).unwrap()).unwrap();
    json["max_new_tokens"] = 100.into();
    std::fs::write(&generation, json.to_string()).unwrap();
    let said = to(&host, "gguf", &folder, &scratch.at("n.gguf")).notes.join("\n");
    for name in [
        "a_key_of_tomorrow",
        "not carried over: 2 keys outside the configuration: generation_config.json: max_new_tokens, tokenizer_config.json: model_max_length",
    ] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn a_bag_of_tensors_is_carried_whole() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("model");
    Checkpoint::tiny().write_to(&folder).unwrap();
    let options = apr_tests::options(&folder.join("model.safetensors"), &scratch.at("out.apr"));
    let done = convert(&host, &options).unwrap();
    assert_eq!(done.coverage.tensors.carried.len(), done.tensors);
    adds_up(&done.coverage.keys, "bag");
}
