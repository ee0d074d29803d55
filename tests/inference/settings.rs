//! An answer is the one that a model's own settings of generation ask for, as transformers follows them (`settings.json` of
//! `tests/model`); what is not followed is named.

use crate::loading::{convert_to, trained};
use apr_inference::sampling::{Processors, Sampler, Settings, Truncation};
use apr_tests::{Scratch, program};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The trained model with these settings in one of its files, and none in the other.
fn with_settings(scratch: &Scratch, file: &str, settings: &Json) -> std::path::PathBuf {
    let path = scratch.at("model");
    std::fs::create_dir_all(&path).unwrap();
    for name in apr_tests::names_in(&trained()).iter().filter(|name| *name != "generation_config.json") {
        std::fs::copy(trained().join(name), path.join(name)).unwrap();
    }
    let before = std::fs::read_to_string(path.join(file)).unwrap_or_else(|_| "{}".to_owned());
    let mut all: Map<String, Json> = serde_json::from_str(&before).unwrap();
    all.extend(settings.as_object().unwrap().clone());
    std::fs::write(path.join(file), Json::Object(all).to_string()).unwrap();
    path
}

/// The document of an answer to a text.
fn answer(model: &Path, args: &[&str]) -> Json {
    document(model, &[&["--raw"], args].concat())
}

/// The document that a model's run gives.
pub fn document(model: &Path, args: &[&str]) -> Json {
    let mut command = Command::new(program());
    command.arg("run").arg(model).args(["--json", "--no-gpu", "--cache-type", "f32"]).args(args);
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&out.stderr)))
}

/// What such a document warns of.
pub fn warnings(answer: &Json) -> Vec<&str> {
    answer["warnings"].as_array().unwrap().iter().filter_map(Json::as_str).collect()
}

#[test]
fn answers_are_those_of_transformers_by_the_same_settings() {
    let text = std::fs::read_to_string(apr_tests::root().join("tests/model/settings.json")).unwrap();
    let golden: Json = serde_json::from_str(&text).unwrap();
    let steps = golden["steps"].to_string();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 15);
    for case in cases {
        let scratch = Scratch::new();
        let model = with_settings(&scratch, case["file"].as_str().unwrap(), &case["settings"]);
        let mut args = vec![case["prompt"].as_str().unwrap()];
        if case["settings"].get("do_sample").is_none() {
            args.extend(["--temperature", "0"]);
        }
        if case["bounded"] == false {
            args.extend(["--max-tokens", &steps]);
        }
        let apr = scratch.at("model.apr");
        convert_to(&model, &apr, None);
        for path in [&model, &apr] {
            let answer = answer(path, &args);
            assert_eq!(answer["ids"], case["ids"], "{}: {case}", path.display());
            let ended = answer["end"] == "end_of_text";
            assert_eq!(ended, case["ended"] == true, "{}: {case} {answer}", path.display());
            let bound = warnings(&answer)
                .into_iter()
                .filter(|text| text.contains("the answer was truncated after"))
                .count();
            assert_eq!(bound == 1, answer["end"] == "max_tokens" && case["bounded"] == true, "{answer}");
        }
    }
}

#[test]
fn draws_are_of_what_transformers_leaves() {
    let text = std::fs::read_to_string(apr_tests::root().join("tests/model/settings.json")).unwrap();
    let golden: Json = serde_json::from_str(&text).unwrap();
    let numbers = golden["left"]["logits"].as_array().unwrap();
    let logits: Vec<f32> = numbers.iter().map(|logit| logit.as_f64().unwrap() as f32).collect();
    for case in golden["left"]["cases"].as_array().unwrap() {
        let set = |name: &str| case["settings"].get(name).and_then(Json::as_f64);
        let truncation = Truncation {
            top_h: set("top_h"),
            typical_p: set("typical_p"),
            epsilon_cutoff: set("epsilon_cutoff"),
            eta_cutoff: set("eta_cutoff"),
        };
        let settings = Settings {
            temperature: set("temperature").unwrap_or(1.0) as f32,
            top_k: set("top_k").unwrap_or(0.0) as u32,
            top_p: set("top_p").unwrap_or(1.0) as f32,
            min_p: set("min_p").unwrap_or(0.0) as f32,
            ..Settings::default()
        };
        let processors = Processors { truncation, ..Processors::default() };
        let mut sampler = Sampler::new(settings).unwrap().with_processors(processors);
        let drawn: BTreeSet<u32> = (0..20_000).map(|_| sampler.choose(&logits).unwrap()).collect();
        let want = case["left"].as_array().unwrap();
        let want: BTreeSet<u32> = want.iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(drawn, want, "{}", case["settings"]);
    }
}

#[test]
fn settings_that_are_not_followed_are_named() {
    let settings = json!({"num_beams": 4, "guidance_scale": 1.5, "do_sample": true, "typical_p": 0.9, "num_beam_groups": 1,
        "penalty_alpha": 0.0, "cache_implementation": "hybrid", "suppress_tokens": ["a"]});
    let scratch = Scratch::new();
    let model = with_settings(&scratch, "generation_config.json", &settings);
    let apr = scratch.at("model.apr");
    convert_to(&model, &apr, None);
    let args = ["In the beginning", "--max-tokens", "1"];
    for path in [&model, &apr] {
        let answer = answer(path, &args);
        let told = warnings(&answer);
        assert_eq!(told.len(), 1, "{told:?}");
        let all = "`suppress_tokens = [\"a\"]`, `num_beams = 4`, `guidance_scale = 1.5`";
        assert!(told[0].ends_with(all), "{told:?}");
    }
    let beyond = json!({"bad_words_ids": [[1, 1536]]});
    let scratch = Scratch::new();
    let answer = answer(&with_settings(&scratch, "generation_config.json", &beyond), &args);
    assert!(warnings(&answer)[0].contains("token 1536, but the model's vocabulary is 1536"), "{answer}");
}
