//! The tokens around a text, through a GGUF file and back: what a template puts there, whatever flags of a configuration, names of
//! pre-tokenizers and architectures say.

use crate::pieces::{through, tried};
use crate::saved::tokenizer;
use crate::unsaid::{assert_warned, changed, edit, there_and_back};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::tokenizer::Tokenizer;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;

/// A template that puts the tokens of these texts before one text and behind it, beside the step over bytes if there was one.
fn put_around(json: &mut Json, before: &[&str], behind: &[&str]) {
    let id = |text: &str| {
        let added = json["added_tokens"].as_array().unwrap();
        added.iter().find(|token| token["content"] == text).unwrap()["id"].clone()
    };
    let special = |text: &&str| json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let around = |name: &str| {
        let text = std::iter::once(sequence(name));
        before.iter().map(special).chain(text).chain(behind.iter().map(special)).collect::<Vec<_>>()
    };
    let all = before.iter().chain(behind);
    let tokens: serde_json::Map<_, _> = all
        .map(|text| ((*text).to_owned(), json!({"id": text, "ids": [id(text)], "tokens": [text]})))
        .collect();
    let pair = [around("A"), around("B")].concat();
    let template = json!({
        "type": "TemplateProcessing", "single": around("A"), "pair": pair,
        "special_tokens": tokens,
    });
    let bytes = json["post_processor"]["type"] == "ByteLevel" || json["post_processor"]["type"] == "Sequence";
    let step =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
    json["post_processor"] = match bytes {
        true => json!({"type": "Sequence", "processors": [step, template]}),
        false => template,
    };
}

/// The texts of the tokens before and behind a text.
fn around(tokenizer: &Tokenizer) -> (Vec<String>, Vec<String>) {
    let step = tokenizer.post_processor.clone().unwrap_or_default();
    let template = step.pointer("/processors/1").unwrap_or(&step);
    let Some(single) = template["single"].as_array() else { return (Vec::new(), Vec::new()) };
    let text = single.iter().position(|entry| entry.get("Sequence").is_some()).unwrap();
    let side = |entries: &[Json]| {
        entries.iter().map(|entry| entry["SpecialToken"]["id"].as_str().unwrap().to_owned()).collect()
    };
    (side(&single[..text]), side(&single[text + 1..]))
}

type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

#[test]
fn what_a_template_puts_around_a_text_comes_back() {
    let (end, s, e, u) = ("<|endoftext|>", "<s>", "</s>", "<unk>");
    let cases: [Case<'_>; 13] = [
        ("gpt2", &[end], &[], &[]),
        ("gpt2", &[], &[end], &[]),
        ("gpt2", &[end, end], &[], &["more than one"]),
        ("gpt2", &[end], &[end, end], &["more than one"]),
        ("llama", &[], &[], &[]),
        ("llama", &[s], &[e], &[]),
        ("llama", &[], &[e], &[]),
        // No key says of another token than the beginning that it is put there.
        ("llama", &[u], &[], &["adds `<s>` around a text, but this tokenizer `<unk>`"]),
        ("t5", &[], &[], &[]),
        ("t5", &[], &["</s>"], &[]),
        ("roberta", &[s], &[e], &[]),
        ("roberta", &[], &[], &[]),
        ("phi2", &[end], &[], &[]),
    ];
    for (golden, before, behind, of) in cases {
        let put = |json: &mut Json| put_around(json, before, behind);
        let (all, warnings) = there_and_back(golden, put);
        let of: Vec<&str> =
            of.iter().map(|of| if *of == "more than one" { "adds at most one token" } else { of }).collect();
        assert_warned(&warnings, &of);
        let expected = (
            before.iter().map(ToString::to_string).collect(),
            behind.iter().map(ToString::to_string).collect(),
        );
        for tokenizer in &all {
            assert_eq!(around(tokenizer), expected, "{golden}, {before:?}, {behind:?}");
        }
    }
}

#[test]
fn without_a_post_processor_nothing_is_put_around_a_text() {
    for golden in ["gpt2", "llama", "t5", "roberta", "phi2", "llama3"] {
        let (all, _) = there_and_back(golden, |json| json["post_processor"] = Json::Null);
        for tokenizer in &all {
            assert_eq!(around(tokenizer), Default::default(), "{golden}");
        }
    }
}

#[test]
fn a_key_that_was_changed_since_counts() {
    let (host, scratch) = (host(), Scratch::new());
    let folder =
        changed(&scratch, "gpt2", "tokenizer.json", |json| put_around(json, &["<|endoftext|>"; 2], &[]));
    let file = scratch.at("m.gguf");
    tried(&host, "gguf", &folder, &file).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let key = b"tokenizer.ggml.add_bos_token";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    assert_eq!(bytes[at], 1);
    bytes[at] = 0;
    fs::write(&file, bytes).unwrap();
    assert_eq!(around(&tokenizer(&host, &file)), Default::default());
}

/// llama.cpp's converter forbids a beginning to every Phi 2.
#[test]
fn what_is_usual_of_an_architecture_gives_way_to_the_tokenizer() {
    let (host, scratch) = (host(), Scratch::new());
    let end = "<|endoftext|>";
    let folder = changed(&scratch, "phi2", "tokenizer.json", |json| put_around(json, &[end], &[]));
    edit(&folder.join("tokenizer_config.json"), |json| json["add_bos_token"] = json!(false));
    let ([_, file, back], _) = through(&host, &scratch, &folder);
    assert_eq!((file.adds("bos"), back.adds("bos")), (Some(true), Some(true)));
}

/// llama.cpp's converter says of Nemotron's tokenizers that they pad with token 0 and know token 1 as the unknown one, whatever they say.
#[test]
fn a_padding_is_the_tokenizers_own() {
    let host = host();
    for pad in [None, Some("</s>")] {
        let scratch = Scratch::new();
        let folder = changed(&scratch, "nemotron", "tokenizer_config.json", |json| {
            let said = json.as_object_mut().unwrap();
            said.remove("pad_token");
            said.extend(pad.map(|pad| ("pad_token".to_owned(), json!(pad))));
        });
        for name in ["config.json", "generation_config.json"] {
            let path: &Path = &folder.join(name);
            if path.exists() {
                edit(path, |json| drop(json.as_object_mut().unwrap().remove("pad_token_id")));
            }
        }
        let ([before, file, _], _) = through(&host, &scratch, &folder);
        assert_eq!((before.special_id("pad"), file.special_id("pad")), (pad.map(|_| 3), pad.map(|_| 3)));
    }
}

#[test]
fn a_class_that_puts_a_token_before_texts_puts_none_behind_whatever_chooses_pieces() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "t5", "tokenizer_config.json", |json| {
        *json = json!({"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>", "unk_token": "<unk>"});
    });
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    let model = ["spiece.model", "tokenizer.model"].map(|name| folder.join(name));
    fs::copy(root().join("tests/golden/tokenizers/t5-sp/spiece.model"), &model[1]).unwrap();
    let _ = fs::remove_file(&model[0]);
    assert_eq!(around(&tokenizer(&host, &folder)).1, Vec::<String>::new());
}

#[test]
fn a_key_that_is_edited_beside_our_own_is_noted() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "llama", "tokenizer.json", |json| put_around(json, &["<s>"], &["<unk>"]));
    let [file, edited] = ["m.gguf", "edited.gguf"].map(|name| scratch.at(name));
    tried(&host, "gguf", &folder, &file).unwrap();
    assert_eq!(tokenizer(&host, &file).notes, tokenizer(&host, &folder).notes);
    let set = vec![("tokenizer.ggml.add_bos_token".to_owned(), "false".to_owned())];
    let options =
        ConvertOptions { input: file, output: Some(edited.clone()), set, ..ConvertOptions::default() };
    convert(&host, &options).unwrap();
    let notes = tokenizer(&host, &edited).notes.clone();
    let said = "`tokenizer.ggml.add_bos_token` is false, and was true when `tokenizer.apr.text` was written";
    assert!(notes.iter().any(|note| note.starts_with(said)), "{notes:?}");
}

#[test]
fn a_modern_bert_whose_tokenizer_puts_no_separator_between_texts_says_so() {
    let plain = |json: &mut Json| {
        let id = json["added_tokens"][0]["content"].as_str().unwrap().to_owned();
        put_around(json, &[&id], &[]);
    };
    let (all, _) = there_and_back("modern-bert", plain);
    assert_eq!(all[1].adds("sep"), Some(false));
    assert!(all.iter().all(|tokenizer| around(tokenizer) == around(&all[0])));
}
