//! The form that the `tokenizers` library loads: `tokenizer.json`.

use super::{AddedToken, Kind, Parts, TokenType, Tokenizer, merges_of_scores};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::HashSet;

/// The unknown token of a WordPiece vocabulary that states none: BERT's.
pub const UNKNOWN_WORD: &str = "[UNK]";
/// The mark of a token that continues a word, where a WordPiece vocabulary states none: BERT's.
pub const CONTINUING: &str = "##";
/// Characters of a word at most, where a WordPiece vocabulary does not say: BERT's.
pub const WORD_CHARS: u64 = 100;

/// The whole `tokenizer.json` of this tokenizer.
pub fn library_form(tokenizer: &Tokenizer) -> Json {
    let mut form = library_frame(tokenizer);
    let added: Vec<Json> = tokenizer.added.iter().map(|added| added_token(tokenizer, added, true)).collect();
    form["added_tokens"] = Json::Array(added);
    form["model"] = model(tokenizer);
    form
}

/// The same without added tokens, and with an empty model: all that does not grow with the vocabulary.
pub fn library_frame(tokenizer: &Tokenizer) -> Json {
    json!({
        "version": "1.0",
        "truncation": tokenizer.truncation,
        "padding": tokenizer.padding,
        "added_tokens": [],
        "normalizer": tokenizer.normalizer,
        "pre_tokenizer": tokenizer.pre_tokenizer,
        "post_processor": tokenizer.post_processor,
        "decoder": tokenizer.decoder,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    })
}

/// The tokens that the library's model has, with their ids: those that it does not number itself.
pub fn library_vocabulary(tokenizer: &Tokenizer) -> impl Iterator<Item = (u32, &str)> {
    let outside = outside(tokenizer);
    tokenizer.each().filter(move |(id, _)| !outside.contains(id))
}

/// The pairs that the library's model merges, best first.
pub fn library_merges(tokenizer: &Tokenizer) -> Cow<'_, [(u32, u32)]> {
    if tokenizer.merges.is_empty()
        && let Some(merges) = merges_of_scores(tokenizer)
    {
        return Cow::Owned(merges);
    }
    Cow::Borrowed(&tokenizer.merges)
}

/// Texts and scores of the library's model, by id. An id without a token gets a text that matches nothing; only ordinary tokens
/// may have the lowest score, since the library derives the cost of unknown text from it.
pub fn library_scores(tokenizer: &Tokenizer) -> impl Iterator<Item = (Cow<'_, str>, f64)> {
    let scores = tokenizer.scores.as_deref().unwrap_or_default();
    let ordinary = tokenizer.types.iter().zip(scores).filter(|(kind, _)| **kind == TokenType::Normal);
    let lowest = ordinary.map(|(_, score)| *score).fold(0.0, f64::min);
    // An id is a place in the list: those left out are the last ones.
    let n_tokens = tokenizer.tokens.len() - outside(tokenizer).len();
    let tokens = tokenizer.tokens.iter().enumerate().zip(scores).take(n_tokens);
    tokens.map(move |((id, text), score)| match text {
        Some(text) => (Cow::Borrowed(text.as_str()), score.max(lowest)),
        None => (Cow::Owned(format!("[PAD{id}]")), lowest),
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

fn vocabulary(tokenizer: &Tokenizer) -> Map<String, Json> {
    library_vocabulary(tokenizer).map(|(id, text)| (text.to_owned(), Json::from(id))).collect()
}

fn model(tokenizer: &Tokenizer) -> Json {
    let unk = tokenizer.unk.and_then(|id| tokenizer.token(id));
    match tokenizer.kind {
        Kind::Bpe => {
            let mut merges = Vec::new();
            for (left, right) in library_merges(tokenizer).iter() {
                merges.push([left, right].map(|id| tokenizer.token(*id).unwrap_or_default()));
            }
            json!({
                "type": "BPE",
                "dropout": null,
                "unk_token": unk,
                "continuing_subword_prefix": tokenizer.continuing_prefix,
                "end_of_word_suffix": tokenizer.word_suffix,
                "fuse_unk": tokenizer.fuse_unk,
                "byte_fallback": tokenizer.byte_fallback,
                "ignore_merges": tokenizer.ignore_merges,
                "vocab": vocabulary(tokenizer),
                "merges": merges,
            })
        }
        Kind::WordPiece => json!({
            "type": "WordPiece",
            "unk_token": unk.unwrap_or(UNKNOWN_WORD),
            "continuing_subword_prefix": tokenizer.continuing_prefix.as_deref().unwrap_or(CONTINUING),
            "max_input_chars_per_word": tokenizer.max_word_chars.unwrap_or(WORD_CHARS),
            "vocab": vocabulary(tokenizer),
        }),
        Kind::Unigram => json!({
            "type": "Unigram",
            "unk_id": tokenizer.unk,
            "vocab": library_scores(tokenizer).map(|(text, score)| json!([text, score])).collect::<Vec<_>>(),
            "byte_fallback": tokenizer.byte_fallback,
        }),
    }
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
