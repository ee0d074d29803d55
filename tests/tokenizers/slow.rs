//! Folders without tokenizer.json, under every class of transformers that reads their files, against what it makes of them (slow.json,
//! by slow.py): a class is followed, or refused by name.

use crate::{goldens, parse, read_gguf, tried_gguf};
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::{Kind, Tokenizer};
use apr_tests::root;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

const WITH: Encoding = Encoding { add_special: true, plain: false };
const BARE: Encoding = Encoding { add_special: false, plain: false };

/// Versions of the library: the one that counts, and the one that counts where the former reads no such folder.
const FIVE: &str = "5.23.0";
const FOUR: &str = "4.57.6";

type Files = Vec<(String, Vec<u8>)>;

struct Listed {
    texts: Vec<String>,
    vocabularies: Json,
    cases: Vec<Json>,
    classes: Json,
}

fn listed() -> Listed {
    let json = parse(&root().join("tests/tokenizers/slow.json"));
    Listed {
        texts: serde_json::from_value(json["texts"].clone()).unwrap(),
        vocabularies: json["vocabularies"].clone(),
        cases: json["cases"].as_array().unwrap().clone(),
        classes: parse(&root().join("plugins/huggingface/src/tokenizer/classes.json")),
    }
}

fn strings(json: &Json) -> Vec<&str> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// A value with ids counted from the end of the vocabulary.
fn numbered(value: &Json, n: usize) -> Json {
    let number = |text: &str| text.strip_prefix('+').and_then(|digits| digits.parse::<usize>().ok());
    match value {
        Json::Object(map) => {
            let key = |key: &str| number(key).map_or_else(|| key.to_owned(), |more| (n + more).to_string());
            map.iter().map(|(name, value)| (key(name), numbered(value, n))).collect::<Map<_, _>>().into()
        }
        Json::String(text) => number(text).map_or_else(|| value.clone(), |more| json!(n + more)),
        other => other.clone(),
    }
}

/// The files of a case, as slow.py puts them together.
fn files(listed: &Listed, case: &Json) -> Files {
    let vocabulary = &listed.vocabularies[case["of"].as_str().unwrap()];
    let tokens = [strings(&case["first"]), strings(&vocabulary["tokens"]), strings(&case["last"])].concat();
    let mut files = Files::new();
    let mut n = tokens.len();
    if let Some(model) = vocabulary["model"].as_str() {
        let bytes = BASE64_STANDARD.decode(model).unwrap();
        n = n_of_pieces(listed, case, &bytes);
        files.push((case["file"].as_str().unwrap().to_owned(), bytes));
    } else if vocabulary["merges"].is_array() {
        let ids: Map<String, Json> =
            tokens.iter().enumerate().map(|(id, text)| ((*text).to_owned(), id.into())).collect();
        files.push(("vocab.json".to_owned(), Json::Object(ids).to_string().into()));
        let lines = format!("#version: 0.2\n{}\n", strings(&vocabulary["merges"]).join("\n"));
        files.push(("merges.txt".to_owned(), lines.into()));
    } else {
        files.push(("vocab.txt".to_owned(), format!("{}\n", tokens.join("\n")).into()));
    }
    let mut config = numbered(case.get("config").unwrap_or(&json!({})), n);
    if let Some(class) = case["class"].as_str() {
        config["tokenizer_class"] = class.into();
    }
    files.push(("tokenizer_config.json".to_owned(), config.to_string().into()));
    for (name, content) in case["files"].as_object().into_iter().flatten() {
        files.push((name.clone(), numbered(content, n).to_string().into()));
    }
    let model = case.get("model").cloned().unwrap_or_else(|| json!({}));
    files.push(("config.json".to_owned(), model.to_string().into()));
    files
}

/// The number of ids that a class has over a model of SentencePiece.
fn n_of_pieces(listed: &Listed, case: &Json, model: &[u8]) -> usize {
    // Each piece is a field of its own, headed by its number and its length.
    let (mut at, mut n) = (0, 0);
    while model.get(at) == Some(&0x0a) {
        (at, n) = (at + 2 + usize::from(model[at + 1]), n + 1);
    }
    let pieces = &listed.classes["recipes"][case["class"].as_str().unwrap()]["pieces"];
    let around = strings(&pieces["first"]).len() + strings(&pieces["last"]).len();
    n + around - usize::try_from(pieces["from"].as_u64().unwrap_or(0)).unwrap()
}

/// The texts of a case.
fn texts(listed: &Listed, case: &Json) -> Vec<String> {
    let own = strings(&case["texts"]).into_iter().map(str::to_owned);
    listed.texts.iter().cloned().chain(own).collect()
}

/// The files of a case.
pub fn files_of(case: &Json) -> Files {
    files(&listed(), case)
}

fn read(files: &Files) -> Result<Tokenizer, apr_sdk::Error> {
    let mut fetch = |name: &str| Ok(files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.clone()));
    apr_plugin_huggingface::tokenizer::read(&mut fetch).map(Option::unwrap)
}

/// What differs from what the library found.
fn differences(tokenizer: Tokenizer, found: &Json, texts: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, id) in found["special"].as_object().into_iter().flatten() {
        let own = tokenizer.special_id(name).map(u64::from);
        if own != id.as_u64() {
            wrong.push(format!("{name} is {own:?}, not {id}"));
        }
    }
    let mut tokens = Tokens::new(tokenizer).unwrap();
    for (n, text) in texts.iter().enumerate() {
        for (key, how) in [("ids", WITH), ("bare", BARE)] {
            let ids = tokens.encode(text, how).unwrap();
            if json!(ids) != found[key][n] {
                wrong.push(format!("{key} of {text:?}: {ids:?}, not {}", found[key][n]));
            }
        }
        for (key, skips) in [("back", false), ("shown", true)] {
            let Some(back) = found[key][n].as_str() else { continue };
            let ids: Vec<u32> = serde_json::from_value(found["ids"][n].clone()).unwrap();
            let own = tokens.decode(&ids, skips).unwrap_or_else(|error| format!("{error:?}"));
            if own != back {
                wrong.push(format!("{key} of {ids:?}: {own:?}, not {back:?}"));
            }
        }
    }
    wrong
}

/// A case without what the library found.
fn shown(case: &Json) -> Json {
    let left = ["found", "first", "last"];
    let members = case.as_object().unwrap().iter().filter(|(key, _)| !left.contains(&key.as_str()));
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn a_class_is_followed_or_refused_by_name() {
    let listed = listed();
    let (mut complaints, mut refused, mut followed) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for case in &listed.cases {
        let class = case["class"].as_str().unwrap_or_default().trim_end_matches("Fast");
        match read(&files(&listed, case)) {
            Err(error) => {
                let says = error.kind() == ErrorKind::Unsupported && error.hint_text().is_some();
                if !says || class.is_empty() || !error.message().contains(&format!("`{class}`")) {
                    complaints.push(format!("{}\n    {error:?}", shown(case)));
                }
                refused.insert(class.to_owned());
            }
            Ok(tokenizer) => {
                let found = match &case["found"][FIVE] {
                    five if five.get("error").is_some() => &case["found"][FOUR],
                    five => five,
                };
                *followed.entry(class.to_owned()).or_insert(0) += 1;
                if found.get("error").is_some() {
                    complaints.push(format!("{}\n    the library reads no such folder", shown(case)));
                    continue;
                }
                // Where versions differ, that is said.
                let is_plain = ["config", "files", "model"].iter().all(|key| case.get(*key).is_none());
                let is_disputed = case["found"][FOUR] == "other ids";
                if is_plain && is_disputed == tokenizer.notes.is_empty() {
                    complaints.push(format!("{}\n    notes {:?}", shown(case), tokenizer.notes));
                }
                let wrong = differences(tokenizer, found, &texts(&listed, case));
                if let Some(first) = wrong.first() {
                    complaints.push(format!("{}\n    {} differ: {first}", shown(case), wrong.len()));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
    let both: Vec<&String> = refused.iter().filter(|class| followed.contains_key(*class)).collect();
    assert!(both.is_empty(), "{both:?} are followed in some folders");
    assert!(followed.len() > 40, "{followed:?}");
}

#[test]
fn a_number_of_tokens_that_is_none_is_refused_by_name() {
    let listed = listed();
    let is_counted = |case: &&Json| case["config"]["extra_ids"] == 5;
    let case = listed.cases.iter().find(is_counted).unwrap();
    for stated in [json!("5"), json!(null), json!(true), json!(5.5), json!(1u64 << 40)] {
        let mut case = case.clone();
        case["config"]["extra_ids"] = stated.clone();
        let error = read(&files(&listed, &case)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        let message = error.message();
        assert!(message.contains("`extra_ids`") && message.contains("`T5Tokenizer`"), "{error:?}");
    }
}

#[test]
fn files_without_a_class_are_read_as_the_usual_one_and_that_is_said() {
    let listed = listed();
    for (class, of) in [("BertTokenizer", "words"), ("GPT2Tokenizer", "bytes")] {
        let mut cases = listed.cases.iter();
        let case =
            cases.find(|case| case["class"] == class && case["of"] == of && case.get("config").is_none());
        let case = case.unwrap();
        let mut files = files(&listed, case);
        files.retain(|(name, _)| name != "tokenizer_config.json");
        let tokenizer = read(&files).unwrap();
        assert!(
            tokenizer.notes.iter().any(|note| note.contains(&format!("`{class}`"))),
            "{:?}",
            tokenizer.notes
        );
        let wrong = differences(tokenizer, &case["found"][FIVE], &listed.texts);
        assert!(wrong.is_empty(), "{class}: {wrong:?}");
    }
}

#[test]
fn what_a_class_does_comes_back_through_gguf_or_is_refused() {
    let listed = listed();
    let goldens = goldens();
    let golden = |kind: Kind| {
        let arch = match kind {
            Kind::WordPiece => "bert",
            Kind::Unigram => "t5",
            Kind::Bpe => "gpt2",
        };
        &goldens.iter().find(|(name, _, _)| name == arch).unwrap().1
    };
    let (mut complaints, mut written) = (Vec::new(), BTreeMap::new());
    for case in &listed.cases {
        let Ok(tokenizer) = read(&files(&listed, case)) else { continue };
        // What has no name in the format is refused.
        let Ok(bytes) = tried_gguf(golden(tokenizer.kind), &tokenizer, None) else { continue };
        let (_, file, _) = read_gguf(bytes);
        *written.entry(case["class"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
        let (n_pieces, mut own, mut back) =
            (tokenizer.n_pieces, Tokens::new(tokenizer).unwrap(), Tokens::new(file).unwrap());
        for text in texts(&listed, case).iter().filter(|text| n_pieces.is_none() || !text.contains('<')) {
            for how in [WITH, BARE] {
                let (one, other) = (own.encode(text, how).unwrap(), back.encode(text, how).unwrap());
                if one != other {
                    complaints.push(format!("{}\n    {text:?}: {other:?}, not {one:?}", shown(case)));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
    assert!(written.len() > 20, "{written:?}");
}
