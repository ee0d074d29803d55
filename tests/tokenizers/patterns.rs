//! Regular expressions of tokenizers, against what the `tokenizers` library makes of texts by them (patterns.json, by patterns.py).

use crate::{of_folder, parse};
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::tokenizer::byte_of;
use apr_sdk::{Error, ErrorKind};
use apr_tests::root;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

const BARE: Encoding = Encoding { add_special: false, plain: false };
const MARK: &str = "\u{2039}";

fn listed() -> Json {
    parse(&root().join("tests/tokenizers/patterns.json"))
}

/// The members of a table.
fn members<'j>(listed: &'j Json, key: &str) -> &'j Map<String, Json> {
    listed[key].as_object().unwrap()
}

/// A tokenizer of single bytes with these steps.
fn tokens(normalizer: Json, pre_tokenizer: Json, decoder: Json) -> Result<Tokens, Error> {
    let vocabulary: Map<String, Json> = (0..0x180)
        .filter_map(char::from_u32)
        .filter_map(|c| Some((c.to_string(), byte_of(c)?.into())))
        .collect();
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
        "normalizer": normalizer, "decoder": {"type": "Sequence", "decoders": [bytes, decoder]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [pre_tokenizer, bytes]},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    Tokens::new(of_folder(&[("tokenizer.json".to_owned(), json.to_string().into_bytes())]))
}

fn split(pattern: &str, behavior: &str) -> Json {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": false})
}

fn replace(pattern: &str, content: &str) -> Json {
    json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content})
}

/// A step that does nothing.
fn nothing() -> Json {
    json!({"type": "Split", "pattern": {"String": "\u{10fffd}"}, "behavior": "Isolated", "invert": false})
}

/// The text that is left of `text`.
fn through(tokens: &mut Tokens, text: &str) -> String {
    let ids = tokens.encode(text, BARE).unwrap();
    tokens.decode(&ids, false).unwrap()
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn sets_of_characters_are_those_of_the_library() {
    let listed = listed();
    let ranges: Vec<[u32; 3]> = serde_json::from_value(listed["characters"].clone()).unwrap();
    let all = ranges.iter().flat_map(|[first, last, step]| (*first..*last).step_by(*step as usize));
    let all: String = all.filter_map(char::from_u32).collect();
    let mut complaints = Vec::new();
    for (pattern, expected) in members(&listed, "sets") {
        let mut tokens = match tokens(Json::Null, split(pattern, "Removed"), json!({"type": "Fuse"})) {
            Ok(tokens) => tokens,
            Err(error) => {
                complaints.push(format!("{pattern}: {error:?}"));
                continue;
            }
        };
        // Short enough to be read whole.
        let left: String = all.split_inclusive('\u{a000}').map(|text| through(&mut tokens, text)).collect();
        if digest(&left) != *expected {
            complaints.push(format!(
                "{pattern}: {} of {} characters are left",
                left.chars().count(),
                all.chars().count()
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn what_is_matched_is_what_the_library_matches() {
    let listed = listed();
    let texts: Vec<String> = serde_json::from_value(listed["texts"].clone()).unwrap();
    let mut complaints = Vec::new();
    for (pattern, expected) in members(&listed, "cases") {
        // Of normalizers that put something where nothing was, the library loses count.
        let made = tokens(Json::Null, nothing(), replace(pattern, MARK));
        let Some(expected) = expected.as_array() else {
            if made.is_ok() {
                complaints.push(format!("{pattern} is not refused"));
            }
            continue;
        };
        let mut tokens = match made {
            Ok(tokens) => tokens,
            Err(error) => {
                complaints.push(format!("{pattern}: {error:?}"));
                continue;
            }
        };
        for (text, expected) in texts.iter().zip(expected) {
            let found = through(&mut tokens, text);
            if *expected != found.as_str() {
                complaints.push(format!("{pattern}: of {text:?} comes {found:?}, not {expected}"));
            }
        }
    }
    assert_none(&complaints);
}

/// Each cut of the known splitters.
#[test]
fn texts_are_cut_as_the_library_cuts_them() {
    let listed = listed();
    let corpus: Vec<String> =
        serde_json::from_value(parse(&root().join("tests/tokenizers/corpus.json"))).unwrap();
    let corpus = corpus.join("\n");
    let mut complaints = Vec::new();
    for (pattern, expected) in members(&listed, "splits").iter().filter(|(_, expected)| !expected.is_null()) {
        // What is cut first is marked by a step that is given each piece.
        let first = json!({"type": "Sequence", "pretokenizers": [split(pattern, "Isolated"), {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": false}]});
        let mut tokens = tokens(Json::Null, first, json!({"type": "Fuse"})).unwrap();
        let found = through(&mut tokens, &corpus);
        if digest(&found) != *expected {
            complaints.push(format!("{pattern}: {:?}", found.chars().take(120).collect::<String>()));
        }
    }
    assert_none(&complaints);
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    let listed = listed();
    for (pattern, word) in members(&listed, "unfollowed") {
        let error = tokens(Json::Null, split(pattern, "Isolated"), json!({"type": "Fuse"})).err();
        let error = error.unwrap_or_else(|| panic!("{pattern} is not refused"));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{pattern}: {error:?}");
        assert!(error.message().contains(word.as_str().unwrap()), "{pattern}: {error:?}");
    }
}

#[test]
fn expressions_of_normalizers_are_followed_too() {
    let nested =
        |pattern| json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, replace(pattern, MARK)]});
    let mut tokens = tokens(nested(r"\w$"), nothing(), json!({"type": "Fuse"})).unwrap();
    assert_eq!(through(&mut tokens, "a\u{b2}\nb"), format!("a{MARK}\n{MARK}"));
    let error = self::tokens(nested(r"\X"), nothing(), json!({"type": "Fuse"})).err().unwrap();
    assert!(error.message().contains("text segment"), "{error:?}");
}

/// Sets of letters take some kilobytes each.
#[test]
fn an_expression_that_grows_without_end_is_refused() {
    for pattern in
        [r"\b".repeat(2000), "(".repeat(2000) + &")".repeat(2000), "[".repeat(2000) + &"]".repeat(2000)]
    {
        let error = tokens(Json::Null, split(&pattern, "Isolated"), json!({"type": "Fuse"})).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    }
}
