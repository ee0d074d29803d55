//! A text's vector is the one that sentence-transformers makes of it by the settings of a folder (`sentences.json` of
//! `tests/golden`); what is not followed is named.

use crate::golden::folder;
use crate::loading::{convert_to, distance};
use crate::settings::{document, warnings};
use apr_testkit::Checkpoint;
use apr_tests::Scratch;
use base64::Engine as _;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// A model with modules of these settings, and a tokenizer that keeps upper case.
fn with_settings(scratch: &Scratch, case: &Json) -> PathBuf {
    let path = scratch.at("model");
    Checkpoint::golden(&folder("bert")).unwrap().write_to(&path).unwrap();
    let module = |n: usize, kind: &str, path: &str| json!({"idx": n, "name": n.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")});
    let modules = [
        module(0, "Transformer", ""),
        module(1, "Pooling", "1_Pooling"),
        module(2, "Normalize", "2_Normalize"),
    ];
    let read = |name: &str| -> Json {
        let text = std::fs::read_to_string(folder("tokenizers/wordpiece").join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (mut tokenizer, mut config) = (read("tokenizer.json"), read("tokenizer_config.json"));
    tokenizer["normalizer"]["lowercase"] = false.into();
    config["do_lower_case"] = false.into();
    config["model_max_length"] = json!(1e30);
    for (name, content) in [
        ("modules.json", &Json::Array(modules.to_vec())),
        ("sentence_bert_config.json", &case["first"]),
        ("config_sentence_transformers.json", &case["whole"]),
        ("1_Pooling/config.json", &case["pooling"]),
        ("tokenizer.json", &tokenizer),
        ("tokenizer_config.json", &config),
    ] {
        std::fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        std::fs::write(path.join(name), content.to_string()).unwrap();
    }
    path
}

/// The document of a text's vector.
fn embedded(model: &Path, text: &str) -> Json {
    document(model, &["--embed", text])
}

#[test]
fn vectors_are_those_of_sentence_transformers_by_the_same_settings() {
    let text = std::fs::read_to_string(apr_tests::root().join("tests/golden/sentences.json")).unwrap();
    let golden: Json = serde_json::from_str(&text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 7);
    for case in cases {
        let scratch = Scratch::new();
        let model = with_settings(&scratch, case);
        let apr = scratch.at("model.apr");
        convert_to(&model, &apr, None);
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(case["vector"].as_str().unwrap()).unwrap();
        let want: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        for path in [&model, &apr] {
            let document = embedded(path, case["text"].as_str().unwrap());
            let have = document["embedding"].as_array().unwrap();
            let have: Vec<f32> = have.iter().map(|x| x.as_f64().unwrap() as f32).collect();
            let far = if have.len() == want.len() { distance(&have, &want) } else { f64::INFINITY };
            assert!(far < 1e-5, "{} {}: {far:.1e}", case["name"], path.display());
            let told = warnings(&document).into_iter().filter(|text| text.contains("truncated")).count();
            let is_cut =
                ["short", "usual-length", "first", "together"].contains(&case["name"].as_str().unwrap());
            assert_eq!(told == 1, is_cut, "{}: {document}", case["name"]);
        }
    }
}

#[test]
fn settings_of_modules_that_are_not_followed_are_named() {
    let case = json!({"first": {"processing_kwargs": {"text": {"padding": true}}},
        "whole": {"prompts": {"query": "Query: "}, "default_prompt_name": "query"},
        "pooling": {"pooling_mode_mean_tokens": true, "include_prompt": false}});
    let scratch = Scratch::new();
    let document = embedded(&with_settings(&scratch, &case), "The dog");
    let told = warnings(&document);
    let all = "`include_prompt = false`, `processing_kwargs = {\"text\":{\"padding\":true}}`";
    assert!(told.len() == 1 && told[0].ends_with(all), "{told:?}");
}
