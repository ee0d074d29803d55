//! The form that the `tokenizers` library loads: `tokenizer.json`.

use super::{AddedToken, Kind, Parts, TokenType, Tokenizer, merges_of_scores};
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

/// The whole `tokenizer.json` of this tokenizer.
pub fn library_form(tokenizer: &Tokenizer) -> Json {
    let added: Vec<Json> = tokenizer.added.iter().map(|added| added_token(tokenizer, added, true)).collect();
    json!({
        "version": "1.0",
        "truncation": tokenizer.truncation,
        "padding": tokenizer.padding,
        "added_tokens": added,
        "normalizer": tokenizer.normalizer,
        "pre_tokenizer": tokenizer.pre_tokenizer,
        "post_processor": tokenizer.post_processor,
        "decoder": tokenizer.decoder,
        "model": model(tokenizer),
    })
}

/// An added token as `tokenizer.json` lists it, with or without its id.
pub fn added_token(parts: &Parts, added: &AddedToken, with_id: bool) -> Json {
    let mut map = Map::new();
    if with_id {
        map.insert("id".to_owned(), added.id.into());
    }
    map.insert("content".to_owned(), parts.token(added.id).into());
    for (name, yes) in [
        ("single_word", added.single_word),
        ("lstrip", added.lstrip),
        ("rstrip", added.rstrip),
        ("normalized", added.normalized),
        ("special", added.special),
    ] {
        map.insert(name.to_owned(), yes.into());
    }
    Json::Object(map)
}

fn model(tokenizer: &Tokenizer) -> Json {
    let unk = tokenizer.unk.and_then(|id| tokenizer.token(id));
    let outside = outside(tokenizer);
    let vocabulary = || -> Map<String, Json> {
        let inside = tokenizer.each().filter(|(id, _)| !outside.contains(id));
        inside.map(|(id, text)| (text.to_owned(), Json::from(id))).collect()
    };
    match tokenizer.kind {
        Kind::Bpe => {
            let text = |id: u32| tokenizer.token(id).unwrap_or_default();
            let made = tokenizer.merges.is_empty().then(|| merges_of_scores(tokenizer)).flatten();
            let merges = made.as_ref().unwrap_or(&tokenizer.merges).iter();
            let merges: Vec<Json> = merges.map(|(a, b)| json!([text(*a), text(*b)])).collect();
            json!({
                "type": "BPE",
                "dropout": null,
                "unk_token": unk,
                "continuing_subword_prefix": tokenizer.continuing_prefix,
                "end_of_word_suffix": tokenizer.word_suffix,
                "fuse_unk": tokenizer.fuse_unk,
                "byte_fallback": tokenizer.byte_fallback,
                "ignore_merges": tokenizer.ignore_merges,
                "vocab": vocabulary(),
                "merges": merges,
            })
        }
        Kind::WordPiece => json!({
            "type": "WordPiece",
            "unk_token": unk.unwrap_or("[UNK]"),
            "continuing_subword_prefix": tokenizer.continuing_prefix.as_deref().unwrap_or("##"),
            "max_input_chars_per_word": tokenizer.max_word_chars.unwrap_or(100),
            "vocab": vocabulary(),
        }),
        Kind::Unigram => json!({
            "type": "Unigram",
            "unk_id": tokenizer.unk,
            "vocab": scored(tokenizer, &outside),
            "byte_fallback": tokenizer.byte_fallback,
        }),
    }
}

/// Texts and scores. An id without a token gets a text that matches nothing; only ordinary tokens may have
/// the lowest score, since the library derives the cost of unknown text from it.
fn scored(tokenizer: &Tokenizer, outside: &HashSet<u32>) -> Vec<Json> {
    let scores = tokenizer.scores.as_deref().unwrap_or_default();
    let ordinary = tokenizer.types.iter().zip(scores).filter(|(kind, _)| **kind == TokenType::Normal);
    let lowest = ordinary.map(|(_, score)| *score).fold(0.0, f64::min);
    // An id is a place in the list: those left out are the last ones.
    let n = tokenizer.tokens.len() - outside.len();
    let tokens = tokenizer.tokens.iter().enumerate().zip(scores).take(n);
    let entries = tokens.map(|((id, text), score)| match text {
        Some(text) => json!([text, score.max(lowest)]),
        None => json!([format!("[PAD{id}]"), lowest]),
    });
    entries.collect()
}

/// Ids that the vocabulary of the model must not have. The library numbers such tokens itself, from the size of the vocabulary on:
/// none is left out if one of them would get another id.
fn outside(tokenizer: &Tokenizer) -> HashSet<u32> {
    let outside = tokenizer.added.iter().filter(|added| added.outside_model).map(|added| added.id);
    let outside: HashSet<u32> = outside.filter(|id| tokenizer.unk != Some(*id)).collect();
    let n_known =
        if tokenizer.kind == Kind::Unigram { tokenizer.tokens.len() } else { tokenizer.each().count() };
    let size = u32::try_from(n_known.saturating_sub(outside.len())).unwrap_or(u32::MAX);
    let mut next = size;
    for added in &tokenizer.added {
        if outside.contains(&added.id) && added.id != next {
            return HashSet::new();
        }
        next = next.max(added.id.saturating_add(1));
    }
    outside
}
