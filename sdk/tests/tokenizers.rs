//! Differences between two tokenizers: each field has one that is found, and large vocabularies take little time.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test may panic")]

use apr_sdk::tokenizer::{AddedToken, Differences, Kind, Parts, TokenType, Tokenizer};
use serde_json::json;
use std::time::Instant;

fn parts() -> Parts {
    let tokens = ["a", "b", "ab", "<s>"].map(|text| Some(text.to_owned())).to_vec();
    let mut types = vec![TokenType::Normal; 4];
    types[3] = TokenType::Control;
    Parts {
        types,
        scores: Some(vec![0.0, -1.0, -2.0, 0.0]),
        merges: vec![(0, 1)],
        added: vec![AddedToken { id: 3, special: true, ..AddedToken::default() }],
        special: vec![("bos".into(), 3)],
        add: vec![("bos".into(), true)],
        normalizer: Some(json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]})),
        post_processor: Some(json!({"type": "ByteLevel", "trim_offsets": true})),
        chat_templates: vec![("default".into(), "the same for some twenty characters, x".into())],
        tokens,
        ..Parts::default()
    }
}

fn between(one: &Parts, other: &Parts) -> Differences {
    let whole = |parts: &Parts| Tokenizer::new(parts.clone()).unwrap();
    whole(one).differences(&whole(other))
}

#[test]
fn each_field_has_a_difference_that_is_found() {
    type Change = (&'static str, &'static str, &'static str, fn(&mut Parts));
    let changes: [Change; 26] = [
        ("kind", "Bpe", "WordPiece", |p| {
            (p.kind, p.merges) = (Kind::WordPiece, Vec::new());
        }),
        ("number of ids", "4", "6", |p| p.vocab_size = 6),
        ("text of token 1", "`b`", "`c`", |p| {
            (p.tokens[1], p.merges) = (Some("c".into()), Vec::new());
        }),
        ("text of token 4", "none", "`new`", |p| {
            p.tokens.push(Some("new".into()));
            p.types.push(TokenType::Normal);
            p.scores = Some(vec![0.0, -1.0, -2.0, 0.0, 0.0]);
        }),
        ("type of token 1 `b`", "normal", "byte", |p| p.types[1] = TokenType::Byte),
        ("score of token 1 `b`", "-1", "-3", |p| p.scores = Some(vec![0.0, -3.0, -2.0, 0.0])),
        ("scores", "stated", "none", |p| p.scores = None),
        ("merge 0", "`a` + `b` (0, 1)", "none", |p| p.merges.clear()),
        ("special id `bos`", "3", "none", |p| p.special.clear()),
        ("special id `eos`", "none", "3", |p| p.special.push(("eos".into(), 3))),
        ("add flag `bos`", "true", "false", |p| p.add[0].1 = false),
        ("added token 3 `<s>`", "special", "special, lstrip", |p| p.added[0].lstrip = true),
        ("added token 3 `<s>`", "special", "none", |p| p.added.clear()),
        ("added token 0 `a`", "none", "no flags", |p| p.added.push(AddedToken::default())),
        ("unknown token", "none", "0", |p| p.unk = Some(0)),
        ("further ends", "[]", "[2]", |p| p.ends = vec![2]),
        ("`byte_fallback`", "false", "true", |p| p.byte_fallback = true),
        ("`ignore_merges`", "false", "true", |p| p.ignore_merges = true),
        ("`split_special_tokens`", "false", "true", |p| p.split_special_tokens = true),
        ("`lowercase`", "none", "true", |p| p.lowercase = Some(true)),
        ("map of normalization", "none", "2 bytes", |p| p.charsmap = Some(vec![1, 2])),
        ("normalizer normalizers/0", "{\"type\":\"NFC\"}", "{\"type\":\"NFKC\"}", |p| {
            p.normalizer = Some(json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}]}));
        }),
        ("decoder", "none", "{\"type\":\"Fuse\"}", |p| p.decoder = Some(json!({"type": "Fuse"}))),
        ("post-processor trim_offsets", "true", "false", |p| {
            p.post_processor = Some(json!({"type": "ByteLevel", "trim_offsets": false}));
        }),
        ("padding", "none", "{}", |p| p.padding = Some(json!({}))),
        ("chat template `default` from character 38 on", "`x`", "`y`", |p| {
            p.chat_templates[0].1 = "the same for some twenty characters, y".into();
        }),
    ];
    assert!(between(&parts(), &parts()).is_empty());
    for (place, one, other, change) in changes {
        let mut changed = parts();
        change(&mut changed);
        let found = between(&parts(), &changed);
        let is_there = found
            .listed()
            .iter()
            .any(|found| (&*found.place(), &*found.planned, &*found.written) == (place, one, other));
        assert!(is_there, "{place}: {found:?}");
        assert!(!between(&changed, &parts()).is_empty(), "{place}");
    }
}

#[test]
fn one_token_more_lists_few_differences_and_one_merge_more_lists_one() {
    let n = 250_000u32;
    let many = |first: u32| -> Parts {
        let tokens: Vec<_> = (first..first + n).map(|id| Some(format!("t{id}"))).collect();
        Parts { types: vec![TokenType::Normal; tokens.len()], tokens, ..Parts::default() }
    };
    let began = Instant::now();
    let shifted = between(&many(0), &many(1));
    assert_eq!(shifted.listed().len(), Differences::LISTED);
    assert_eq!(shifted.unlisted().collect::<Vec<_>>(), [("text", n as usize - Differences::LISTED)]);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    let mut more = parts();
    more.merges = vec![(0, 1), (0, 1), (0, 1)];
    let found = between(&parts(), &more);
    assert_eq!(found.listed().len(), 2);
    assert_eq!(found.listed()[0].planned, "none");
}
