//! Settings of generation of a folder that becomes a GGUF file, and of the folder that comes back: which tokens end an answer, and
//! whether tokens are drawn. transformers goes by `generation_config.json` alone where there is one, and draws only if told to.

use crate::parse;
use crate::pieces::tried;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Map, Value as Json, json};
use std::fs;

/// Settings before and after: of `config.json` the ends, and what is in `generation_config.json`, if there is one.
type Case = (Json, Option<Json>, Json, Option<Json>);

/// What comes back of a folder with these settings, without the ids of begin and padding.
fn through(config: &Json, generation: Option<&Json>) -> (Json, Option<Json>) {
    let (host, scratch) = (host(), Scratch::new());
    let [folder, file, back] = ["in", "m.gguf", "back"].map(|name| scratch.at(name));
    Checkpoint::golden(&root().join("tests/golden/llama")).unwrap().write_to(&folder).unwrap();
    let mut all = parse(&folder.join("config.json"));
    all["eos_token_id"] = config.clone();
    fs::write(folder.join("config.json"), all.to_string()).unwrap();
    let _ = fs::remove_file(folder.join("generation_config.json"));
    if let Some(generation) = generation {
        fs::write(folder.join("generation_config.json"), generation.to_string()).unwrap();
    }
    tried(&host, "gguf", &folder, &file).unwrap();
    tried(&host, "huggingface", &file, &back).unwrap();
    let path = back.join("generation_config.json");
    let made = path.exists().then(|| parse(&path)).map(|json| {
        let mut object: Map<String, Json> = json.as_object().unwrap().clone();
        object.retain(|key, _| !["bos_token_id", "pad_token_id"].contains(&key.as_str()));
        Json::Object(object)
    });
    (parse(&back.join("config.json"))["eos_token_id"].clone(), made)
}

#[test]
fn what_ends_an_answer_and_whether_tokens_are_drawn_comes_back() {
    let drawn = json!({"eos_token_id": 2, "do_sample": true, "temperature": 0.5});
    let undrawn = json!({"eos_token_id": 2, "temperature": 0.5, "top_k": 20});
    let cases: [Case; 11] = [
        (json!(2), Some(drawn.clone()), json!(2), Some(drawn)),
        // Without a word on drawing, none are drawn.
        (json!(2), Some(undrawn.clone()), json!(2), Some(undrawn)),
        (
            json!(2),
            Some(json!({"eos_token_id": 2, "repetition_penalty": 1.5})),
            json!(2),
            Some(json!({"eos_token_id": 2, "repetition_penalty": 1.5})),
        ),
        // A temperature has no effect then.
        (
            json!(2),
            Some(json!({"eos_token_id": 2, "do_sample": false, "temperature": 0.5})),
            json!(2),
            Some(json!({"eos_token_id": 2, "do_sample": false})),
        ),
        (
            json!(2),
            Some(json!({"eos_token_id": 2, "do_sample": true})),
            json!(2),
            Some(json!({"eos_token_id": 2, "do_sample": true})),
        ),
        (json!(2), Some(json!({"eos_token_id": 2})), json!(2), None),
        // The file of its own decides, and the configuration where there is none.
        (json!(2), Some(json!({"eos_token_id": 7})), json!(7), None),
        (
            json!([2, 9]),
            Some(json!({"eos_token_id": [7, 9], "do_sample": true})),
            json!([7, 9]),
            Some(json!({"eos_token_id": [7, 9], "do_sample": true})),
        ),
        (json!([2, 9]), Some(json!({"eos_token_id": [2, 7, 9]})), json!([2, 9, 7]), None),
        (json!(7), None, json!(7), None),
        (json!([2, 7]), None, json!([2, 7]), None),
    ];
    for (config, generation, want, made) in cases {
        let got = through(&config, generation.as_ref());
        assert_eq!(got, (want, made), "{config} {generation:?}");
    }
}
