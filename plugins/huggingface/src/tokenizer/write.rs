//! The SDK's form to the files that the `tokenizers` library, transformers and SentencePiece read.

use super::sentencepiece;
use apr_sdk::tokenizer::{AddedToken, Kind, Parts, TokenType, Tokenizer, merges_of_scores};
use serde_json::{Map, Value as Json, json};

/// The files of `tokenizer`: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and, for SentencePiece,
/// `tokenizer.model`.
pub fn files(tokenizer: &Tokenizer) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![
        ("tokenizer.json", lines(&fast(tokenizer))),
        ("tokenizer_config.json", lines(&config(tokenizer))),
        ("special_tokens_map.json", lines(&Json::Object(special(tokenizer)))),
    ];
    files.extend(sentencepiece::write(tokenizer).map(|bytes| ("tokenizer.model", bytes)));
    files
}

fn lines(json: &Json) -> Vec<u8> {
    let mut text = format!("{json:#}").into_bytes();
    text.push(b'\n');
    text
}

fn fast(tokenizer: &Tokenizer) -> Json {
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

fn added_token(parts: &Parts, added: &AddedToken, with_id: bool) -> Json {
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
    let vocabulary = || -> Map<String, Json> {
        tokenizer.each().map(|(id, text)| (text.to_owned(), Json::from(id))).collect()
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
            "vocab": scored(tokenizer),
            "byte_fallback": tokenizer.byte_fallback,
        }),
    }
}

/// Texts and scores. An id that no token has gets a text that none looks like, and no token but an ordinary one a score
/// below those: the library derives the cost of unknown text from the lowest.
fn scored(tokenizer: &Tokenizer) -> Vec<Json> {
    let scores = tokenizer.scores.as_deref().unwrap_or_default();
    let ordinary = tokenizer.types.iter().zip(scores).filter(|(kind, _)| **kind == TokenType::Normal);
    let lowest = ordinary.map(|(_, score)| *score).fold(0.0, f64::min);
    let entry = |((id, text), score): ((usize, &Option<String>), &f64)| match text {
        Some(text) => json!([text, score.max(lowest)]),
        None => json!([format!("[PAD{id}]"), lowest]),
    };
    tokenizer.tokens.iter().enumerate().zip(scores).map(entry).collect()
}

/// The tokens with a purpose, by the names that the library has for them.
fn special(tokenizer: &Tokenizer) -> Map<String, Json> {
    let mut map = Map::new();
    for (name, id) in &tokenizer.special {
        let Some(text) = tokenizer.token(*id) else { continue };
        map.insert(format!("{name}_token"), text.into());
        // WordPiece begins and ends texts with the tokens that classify and separate; other formats have one name for both.
        let other = match &**name {
            "bos" => "cls",
            "eos" => "sep",
            _ => continue,
        };
        if tokenizer.kind == Kind::WordPiece && tokenizer.special_id(other).is_none() {
            map.insert(format!("{other}_token"), text.into());
        }
    }
    map
}

fn config(tokenizer: &Tokenizer) -> Json {
    let mut map = Map::new();
    for (name, yes) in &tokenizer.add {
        map.insert(format!("add_{name}_token"), (*yes).into());
    }
    if let (Kind::Bpe, Some(yes)) = (tokenizer.kind, tokenizer.add_space_prefix) {
        map.insert("add_prefix_space".to_owned(), yes.into());
    }
    let decoder: Map<String, Json> = tokenizer
        .added
        .iter()
        .map(|added| (added.id.to_string(), added_token(tokenizer, added, false)))
        .collect();
    map.insert("added_tokens_decoder".to_owned(), Json::Object(decoder));
    map.extend(special(tokenizer));
    match &tokenizer.chat_templates[..] {
        [] => {}
        [(name, template)] if name == "default" => {
            map.insert("chat_template".to_owned(), template.as_str().into());
        }
        all => {
            let all = all.iter().map(|(name, template)| json!({"name": name, "template": template}));
            map.insert("chat_template".to_owned(), all.collect());
        }
    }
    map.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    if tokenizer.kind != Kind::WordPiece {
        // Else the library gives models a third list, which only BERT's relatives take.
        map.insert("model_input_names".to_owned(), json!(["input_ids", "attention_mask"]));
    }
    map.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    Json::Object(map)
}
