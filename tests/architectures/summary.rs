//! What `inspect` says of a model first is what its configuration states, and is the same of a folder and of the GGUF made
//! of it.

use crate::models::{goldens, name, opened};
use apr_engine::architecture::{Summary, summary};
use apr_host::convert::{ConvertOptions, convert, plan};
use apr_host::host::Host;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::Value as Json;
use std::path::Path;

fn summed(host: &Host, path: &Path) -> Summary {
    summary(host, &opened(host, path), None).unwrap()
}

/// What both formats can say: they name models, tokens and pre-tokenizers in their own ways, and GGUF has one name for
/// several architectures, no key for some sliding windows, and a tensor in place of some scalings of rotation. A
/// configuration may state a context for a short cache and the one that was trained (Command R), of which GGUF has one.
fn comparable(summary: &Summary) -> Json {
    let mut json = serde_json::to_value(summary).unwrap();
    // The types of norms change, and what follows from the tensors is left out.
    let tensors = ["bits_per_weight", "weights_bytes", "memory_bytes", "parameters", "active_parameters"];
    for key in tensors.iter().chain(&["name", "architecture_name", "sliding_window", "context"]) {
        json.as_object_mut().unwrap().remove(*key);
    }
    json["tokenizer"] = json["tokenizer"]["kind"].take();
    if let Some(cache) = json["kv_cache"].as_object_mut() {
        let each = cache["bytes"].as_u64().unwrap() / cache["tokens"].as_u64().unwrap();
        json["kv_cache"] = each.into();
    }
    json["rope"] = json["rope"]["theta"].take();
    json
}

#[test]
fn a_folder_and_its_file_have_one_summary_and_the_plan_foretells_it() {
    let host = host();
    let mut failed = Vec::new();
    for path in goldens() {
        let scratch = Scratch::new();
        let model = Checkpoint::golden(&path).unwrap();
        let (folder, gguf) = (scratch.at(&model.name), scratch.at("m.gguf"));
        model.write_to(&folder).unwrap();
        let options =
            ConvertOptions { input: folder.clone(), output: Some(gguf.clone()), ..ConvertOptions::default() };
        let planned = plan(&host, &options).unwrap().summary.unwrap();
        convert(&host, &options).unwrap();
        let (of_folder, of_file) = (summed(&host, &folder), summed(&host, &gguf));
        if comparable(&of_folder) != comparable(&of_file) {
            failed.push(format!("{}:\n  {of_folder:?}\n  {of_file:?}", name(&path)));
        }
        let of_tensors =
            |s: &Summary| (s.parameters, s.active_parameters, s.weights_bytes, s.bits_per_weight);
        if comparable(&planned) != comparable(&of_file) || of_tensors(&planned) != of_tensors(&of_file) {
            failed.push(format!("{} planned:\n  {planned:?}\n  {of_file:?}", name(&path)));
        }
        // What the configuration states under the names that nearly all have.
        let config: Json =
            serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
        for (key, said) in [
            ("num_hidden_layers", of_folder.layers),
            ("hidden_size", of_folder.embedding_width),
            ("num_attention_heads", of_folder.heads),
            ("num_key_value_heads", of_folder.kv_heads),
            ("vocab_size", of_folder.vocabulary),
            ("max_position_embeddings", of_folder.context),
            ("num_experts_per_tok", of_folder.experts_used),
        ] {
            // None of something is stated as zero, too.
            if config[key].is_u64() && config[key].as_u64() != said && (config[key] != 0 || said.is_some()) {
                failed.push(format!("{}: {key} is {}, not {said:?}", name(&path), config[key]));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn experts_caches_and_memory_are_counted() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("mixtral");
    let model = Checkpoint::golden(&root().join("tests/golden/mixtral")).unwrap();
    model.write_to(&folder).unwrap();
    let opened = opened(&host, &folder);
    let found = summary(&host, &opened, Some(100)).unwrap();
    let config: Json = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    let number = |key: &str| config[key].as_u64().unwrap();
    let elements = |of: &dyn Fn(&str) -> bool| -> u64 {
        let tensors = opened.model.tensors.iter().filter(|tensor| of(&tensor.name));
        tensors.map(|tensor| tensor.shape.iter().product::<u64>()).sum()
    };
    let (all, of_experts) = (elements(&|_| true), elements(&|name| name.contains(".experts.")));
    assert!(of_experts > 0);
    let used = of_experts * number("num_experts_per_tok") / number("num_local_experts");
    assert_eq!(found.parameters, all);
    assert_eq!(found.active_parameters, Some(all - of_experts + used));
    // Keys and values, two bytes each, of every KV head in every layer.
    let head = number("hidden_size") / number("num_attention_heads");
    let each = 2 * 2 * number("num_key_value_heads") * head * number("num_hidden_layers");
    let cache = found.kv_cache.unwrap();
    assert_eq!((cache.tokens, cache.bytes), (100, 100 * each));
    assert_eq!(found.memory_bytes, Some(cache.bytes + found.weights_bytes));
}

#[test]
fn what_keeps_no_keys_has_no_cache() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("bert");
    Checkpoint::golden(&root().join("tests/golden/bert")).unwrap().write_to(&folder).unwrap();
    let found = summed(&host, &folder);
    assert!(found.layers.is_some() && found.heads.is_some());
    assert!(found.kv_cache.is_none() && found.memory_bytes.is_none());
}
