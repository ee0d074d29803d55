//! Small tokenizers of kinds that no family has, against what transformers makes of them (trained.json, by trained.py): the folder,
//! the GGUF file that it becomes and the folder that comes back.

use crate::parse;
use crate::pieces::through;
use crate::saved::tokenizer;
use apr_inference::template::choose;
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::tokenizer::Tokenizer;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::PathBuf;

const WITH: Encoding = Encoding { add_special: true, plain: false };
const BARE: Encoding = Encoding { add_special: false, plain: false };

fn cases() -> (Vec<String>, Vec<Json>) {
    let listed = parse(&root().join("tests/tokenizers/trained.json"));
    let texts = serde_json::from_value(listed["texts"].clone()).unwrap();
    (texts, listed["cases"].as_array().unwrap().clone())
}

fn case(name: &str) -> Json {
    cases().1.into_iter().find(|case| case["name"] == name).unwrap()
}

/// A small model with the case's tokenizer.
fn folder(scratch: &Scratch, case: &Json) -> PathBuf {
    let model = Checkpoint::golden(&root().join("tests/golden/llama")).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    for name in ["tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"] {
        let _ = fs::remove_file(folder.join(name));
    }
    for (name, contents) in case["files"].as_object().unwrap() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents.as_str().map_or_else(|| contents.to_string(), str::to_owned)).unwrap();
    }
    for name in ["config.json", "generation_config.json"] {
        let path = folder.join(name);
        let mut json = parse(&path);
        for key in ["bos", "eos", "pad"] {
            json[format!("{key}_token_id")] = case["special"][key].clone();
        }
        fs::write(path, json.to_string()).unwrap();
    }
    folder
}

/// What differs from what the library found.
fn differences(tokenizer: &Tokenizer, case: &Json, texts: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in ["bos", "eos", "pad", "mask"] {
        let id = case["special"][name].as_u64();
        if tokenizer.special_id(name).map(u64::from) != id {
            wrong.push(format!("{name} is {:?}, not {id:?}", tokenizer.special_id(name)));
        }
    }
    if !tokenizer.ends.is_empty() {
        wrong.push(format!("texts end at {:?} too", tokenizer.ends));
    }
    let mut tokens = Tokens::new(tokenizer.clone()).unwrap();
    for (n, text) in texts.iter().enumerate() {
        for (key, how) in [("ids", WITH), ("bare", BARE)] {
            let ids = tokens.encode(text, how).unwrap();
            if json!(ids) != case[key][n] {
                wrong.push(format!("{key} of {text:?}: {ids:?}, not {}", case[key][n]));
            }
        }
        let ids: Vec<u32> = serde_json::from_value(case["ids"][n].clone()).unwrap();
        let back = tokens.decode(&ids, false).unwrap_or_else(|error| format!("{error:?}"));
        if case["back"][n] != back.as_str() {
            wrong.push(format!("{ids:?} give {back:?}, not {}", case["back"][n]));
        }
    }
    wrong
}

#[test]
fn what_no_family_does_comes_back_through_gguf_or_is_warned_of() {
    let (texts, cases) = cases();
    let host = host();
    let mut complaints = Vec::new();
    for case in &cases {
        let scratch = Scratch::new();
        let (all, warnings) = through(&host, &scratch, &folder(&scratch, case));
        let name = case["name"].as_str().unwrap();
        for (of, tokenizer) in ["the folder", "the file", "the folder that comes back"].into_iter().zip(&all)
        {
            let wrong = differences(tokenizer, case, &texts);
            if let Some(first) = wrong.first() {
                complaints.push(format!("{name}: {of}: {} differ: {first}", wrong.len()));
            }
        }
        for of in [&all[1], &all[2]] {
            let cuts = all[0].cut_differences(of);
            if let Some(first) = cuts.listed().first() {
                complaints.push(format!("{name}: {first}"));
            }
        }
        let warned: Vec<String> = serde_json::from_value(case["warned"].clone()).unwrap();
        let each = warnings.iter().zip(&warned).all(|(warning, word)| warning.contains(word));
        if !each || warnings.len() != warned.len() {
            complaints.push(format!("{name}: warnings are {warnings:?}, not of {warned:?}"));
        }
    }
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}

/// The position behind a text in a file.
fn behind(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() + text.len()
}

#[test]
fn scores_of_a_file_have_all_their_bits_unless_its_own_key_was_changed() {
    let (host, scratch) = (host(), Scratch::new());
    let ([folder, whole, _], _) =
        through(&host, &scratch, &folder(&scratch, &case("unigram with scores of more than 32 bits")));
    assert_eq!(whole.scores, folder.scores);
    let file = fs::read(scratch.at("m.gguf")).unwrap();

    // As another program writes it.
    let mut bytes = file.clone();
    let key = behind(&bytes, "tokenizer.apr.scor");
    bytes[key] = b'X';
    fs::write(scratch.at("rounded.gguf"), &bytes).unwrap();
    let rounded = tokenizer(&host, &scratch.at("rounded.gguf"));
    assert_eq!(folder.core_differences(&rounded).listed(), []);
    let cuts = folder.cut_differences(&rounded);
    let first = cuts.listed()[0].to_string();
    assert!(first.starts_with("its score of token 3 "), "{first}");
    assert!(first.ends_with(" is -0.699999988079071, expected -0.7"), "{first}");

    let mut bytes = file;
    let key = behind(&bytes, "tokenizer.ggml.scores");
    let old = (-0.7f32).to_le_bytes();
    let at = key + bytes[key..].windows(4).position(|window| window == old).unwrap();
    bytes[at..at + 4].copy_from_slice(&(-9.3f32).to_le_bytes());
    fs::write(scratch.at("changed.gguf"), &bytes).unwrap();
    let changed = tokenizer(&host, &scratch.at("changed.gguf")).scores.clone().unwrap();
    let scores = whole.scores.as_ref().unwrap();
    let others: Vec<f64> =
        changed.iter().zip(scores).filter(|(new, old)| new != old).map(|(new, _)| *new).collect();
    assert_eq!(others, [f64::from(-9.3f32)]);
}

#[test]
fn a_chat_template_comes_back_if_it_is_empty_and_is_not_taken_for_the_usual_one() {
    let host = host();
    let scratch = Scratch::new();
    let (all, _) = through(&host, &scratch, &folder(&scratch, &case("an empty chat template")));
    for tokenizer in &all {
        assert_eq!(choose(tokenizer, None, false).unwrap(), "");
    }
    let scratch = Scratch::new();
    let other = case("a chat template that is not the usual one");
    let (all, _) = through(&host, &scratch, &folder(&scratch, &other));
    for tokenizer in &all {
        let error = choose(tokenizer, None, false).unwrap_err();
        assert!(error.message().contains("not named `default`"), "{error:?}");
        assert!(choose(tokenizer, Some("rag"), false).is_ok());
    }
}
