//! Reads `tokenizer.json`, the file of the `tokenizers` library.

use super::{added_token, added_type};
use ahash::AHashMap;
use apr_sdk::tokenizer::{
    AddedToken, Kind, MAX_HOLES, MAX_TOKENS, Parts, Spelling, TokenType, Treatment, steps,
};
use apr_sdk::{Error, Result, escape};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value as Json};

/// The parts that the file says; special ids are said elsewhere.
///
/// # Errors
/// Malformed for what the library would not load; Unsupported for kinds of models that have no part in large models.
pub fn read(json: &Json) -> Result<Parts> {
    let model = json.get("model").and_then(Json::as_object).ok_or_else(|| wrong("model"))?;
    let mut parts = Parts { kind: kind(model)?, ..Parts::default() };
    let list = |key: &str| json.get(key).filter(|value| !value.is_null()).cloned();
    parts.normalizer = list("normalizer");
    parts.pre_tokenizer = list("pre_tokenizer");
    parts.decoder = list("decoder");
    parts.post_processor = list("post_processor");
    parts.truncation = list("truncation");
    parts.padding = list("padding");
    parts.spelling = spelling(&parts);
    vocabulary(&mut parts, model)?;
    flags(&mut parts, model);
    added(&mut parts, json)?;
    merges(&mut parts, model)?;
    normalization(&mut parts);
    Ok(parts)
}

/// How many ids are those of the model that `tokenizer.json` was made of: what was added later lies behind them. T5's
/// `<extra_id_N>` are added, though the file lists them with the others.
pub fn own_tokens(json: &Json, parts: &Parts) -> usize {
    let n = match json.pointer("/model/vocab") {
        Some(Json::Object(map)) => {
            map.values().filter_map(Json::as_u64).max().map_or(0, |id| id.saturating_add(1))
        }
        Some(Json::Array(list)) => u64::try_from(list.len()).unwrap_or(0),
        _ => 0,
    };
    let n = usize::try_from(n).unwrap_or(0).min(parts.tokens.len());
    let own = parts.tokens[..n]
        .iter()
        .rposition(|text| parts.kind != Kind::Unigram || !text.as_deref().is_some_and(is_sentinel));
    own.map_or(0, |last| last + 1)
}

/// Whether a token is one of those that T5's class adds to SentencePiece's model.
pub fn is_sentinel(text: &str) -> bool {
    text.starts_with("<extra_id_")
}

fn kind(model: &Map<String, Json>) -> Result<Kind> {
    match model.get("type").and_then(Json::as_str) {
        Some("BPE") => Ok(Kind::Bpe),
        Some("Unigram") => Ok(Kind::Unigram),
        Some("WordPiece") => Ok(Kind::WordPiece),
        Some(other) => Err(Error::unsupported(format!("a tokenizer of the kind `{}`", escape(other, 40)))),
        // Old files do not say.
        None if model.contains_key("merges") => Ok(Kind::Bpe),
        None if model.get("vocab").is_some_and(Json::is_array) => Ok(Kind::Unigram),
        None if model.contains_key("max_input_chars_per_word") => Ok(Kind::WordPiece),
        None => Err(wrong("model.type")),
    }
}

/// Whether a step is of this kind.
pub fn is(step: &Json, kind: &str) -> bool {
    step.get("type").and_then(Json::as_str) == Some(kind)
}

/// How the texts of tokens are spelled, by the steps.
pub fn spelling(parts: &Parts) -> Spelling {
    let all = [&parts.normalizer, &parts.pre_tokenizer, &parts.decoder];
    let all: Vec<&Json> = all.into_iter().flat_map(|definition| steps(definition.as_ref())).collect();
    let marks =
        |step: &Json| is(step, "Metaspace") || (is(step, "Replace") && step.to_string().contains('\u{2581}'));
    if parts.kind == Kind::WordPiece {
        Spelling::Plain
    } else if all.iter().any(|step| is(step, "ByteLevel")) {
        Spelling::Bytes
    } else if parts.kind == Kind::Unigram || all.iter().any(|step| marks(step)) {
        Spelling::SentencePiece
    } else {
        Spelling::Plain
    }
}

fn vocabulary(parts: &mut Parts, model: &Map<String, Json>) -> Result<()> {
    match model.get("vocab") {
        Some(Json::Object(map)) if parts.kind != Kind::Unigram => {
            for (text, id) in map {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                let id = id.ok_or_else(|| {
                    Error::malformed(format!(
                        "the id of token `{}` is not an integer below 2^32",
                        escape(text, 60)
                    ))
                })?;
                place(parts, map.len(), id, text)?;
            }
        }
        Some(Json::Array(list)) if parts.kind == Kind::Unigram => {
            let mut scores = Vec::new();
            for (n, entry) in list.iter().enumerate() {
                let odd = || {
                    Error::malformed(format!("entry {n} of the vocabulary is not a pair of text and score"))
                };
                let text = entry.get(0).and_then(Json::as_str).ok_or_else(odd)?;
                scores.push(entry.get(1).and_then(Json::as_f64).ok_or_else(odd)?);
                place(parts, list.len(), u32::try_from(n).map_err(|_| odd())?, text)?;
            }
            parts.scores = Some(scores);
        }
        _ => return Err(wrong("model.vocab")),
    }
    Ok(())
}

/// Puts a token at its id. `count` bounds how far ids may go beyond what the file has.
pub fn place(parts: &mut Parts, count: usize, id: u32, text: &str) -> Result<()> {
    let at = id as usize;
    let known = parts.tokens.len().max(count);
    if at >= MAX_TOKENS || at > known + MAX_HOLES {
        let text = escape(text, 60);
        return Err(Error::limit(format!("token `{text}` has id {id}, but there are only {known} tokens")));
    }
    if at >= parts.tokens.len() {
        parts.tokens.resize(at + 1, None);
        parts.types.resize(at + 1, TokenType::None);
    }
    match &parts.tokens[at] {
        Some(other) if other != text => {
            let (text, other) = (escape(text, 60), escape(other, 60));
            Err(Error::malformed(format!("id {id} is assigned to both `{other}` and `{text}`")))
        }
        _ => {
            parts.tokens[at] = Some(text.to_owned());
            parts.types[at] = TokenType::Normal;
            Ok(())
        }
    }
}

/// Reads the flags of the model, and the types of tokens that follow from them.
pub fn flags(parts: &mut Parts, model: &Map<String, Json>) {
    let flag = |key: &str| model.get(key).and_then(Json::as_bool).unwrap_or(false);
    let text = |key: &str| model.get(key).and_then(Json::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
    parts.byte_fallback = flag("byte_fallback");
    parts.fuse_unk = flag("fuse_unk");
    parts.ignore_merges = flag("ignore_merges");
    parts.continuing_prefix = text("continuing_subword_prefix");
    parts.word_suffix = text("end_of_word_suffix");
    parts.max_word_chars = model.get("max_input_chars_per_word").and_then(Json::as_u64);
    let named = text("unk_token");
    parts.unk = match model.get("unk_id").and_then(Json::as_u64) {
        Some(id) => u32::try_from(id).ok(),
        None => named.and_then(|unk| parts.each().find(|(_, text)| *text == unk).map(|(id, _)| id)),
    };
    if parts.spelling == Spelling::SentencePiece {
        let bytes = parts.byte_fallback;
        for (text, kind) in parts.tokens.iter().zip(&mut parts.types) {
            if bytes && text.as_deref().is_some_and(is_byte) {
                *kind = TokenType::Byte;
            }
        }
    }
    let unknown = parts.unk.filter(|_| parts.kind == Kind::Unigram).and_then(|id| usize::try_from(id).ok());
    if let Some(kind) = unknown.and_then(|at| parts.types.get_mut(at)) {
        *kind = TokenType::Unknown;
    }
}

/// `<0x0A>`
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn added(parts: &mut Parts, json: &Json) -> Result<()> {
    let list = json.get("added_tokens").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    for (n, entry) in list.iter().enumerate() {
        let odd = || Error::malformed(format!("added token {n} has no id and content"));
        let id =
            entry.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok()).ok_or_else(odd)?;
        let text = entry.get("content").and_then(Json::as_str).ok_or_else(odd)?;
        let added = AddedToken { outside_model: parts.token(id).is_none(), ..added_token(id, entry) };
        place(parts, parts.tokens.len().max(list.len()), id, text)?;
        let at = id as usize;
        if parts.unk != Some(id) || parts.kind != Kind::Unigram {
            parts.types[at] = added_type(added.special, text);
        }
        parts.added.push(added);
    }
    let n = parts.tokens.len();
    if let Some(scores) = &mut parts.scores {
        scores.resize(n, 0.0);
    }
    Ok(())
}

fn merges(parts: &mut Parts, model: &Map<String, Json>) -> Result<()> {
    let list = model.get("merges").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts = list.iter().enumerate().map(|(n, merge)| {
        let odd = || Error::malformed(format!("merge {n} is not a pair of strings"));
        match merge {
            Json::String(text) => text.split_once(' ').ok_or_else(odd),
            Json::Array(pair) if pair.len() == 2 => pair[0].as_str().zip(pair[1].as_str()).ok_or_else(odd),
            _ => Err(odd()),
        }
    });
    parts.merges = ids_of_merges(parts, texts)?;
    Ok(())
}

/// The ids of merges that are given as texts.
///
/// # Errors
/// Malformed for a text that is no token; what `texts` gives.
pub fn ids_of_merges<'a>(
    parts: &Parts,
    texts: impl Iterator<Item = Result<(&'a str, &'a str)>>,
) -> Result<Vec<(u32, u32)>> {
    let ids: AHashMap<&str, u32> = parts.each().map(|(id, text)| (text, id)).collect();
    let id = |n: usize, text: &str| {
        ids.get(text).copied().ok_or_else(|| {
            Error::malformed(format!("merge {n} contains `{}`, which is not a token", escape(text, 60)))
        })
    };
    texts.enumerate().map(|(n, pair)| pair.and_then(|(a, b)| Ok((id(n, a)?, id(n, b)?)))).collect()
}

/// Bytes as they stand in a step.
pub fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// What the definitions do to a text, as far as formats have flags for it.
pub fn normalization(parts: &mut Parts) {
    let (mut lower, mut strip, mut charsmap) = (None, None, None);
    for step in steps(parts.normalizer.as_ref()) {
        if is(step, "Lowercase") {
            lower = Some(true);
        }
        if is(step, "StripAccents") {
            strip = Some(true);
        }
        if is(step, "BertNormalizer") {
            lower = step.get("lowercase").and_then(Json::as_bool).or(lower);
            strip = step.get("strip_accents").and_then(Json::as_bool).or(strip);
        }
        if is(step, "Precompiled") {
            let text = step.get("precompiled_charsmap").and_then(Json::as_str);
            charsmap = text.and_then(|text| BASE64_STANDARD.decode(text).ok()).or(charsmap);
        }
    }
    (parts.lowercase, parts.strip_accents, parts.charsmap) = (lower, strip, charsmap);
    if parts.kind == Kind::Unigram {
        let before = steps(parts.pre_tokenizer.as_ref());
        let none = before.iter().any(|step| is(step, "Metaspace") && !puts_first(step));
        let words = before.iter().any(|step| is(step, "WhitespaceSplit"));
        let runs = steps(parts.normalizer.as_ref()).iter().any(|step| step.to_string().contains(" {2,}"));
        parts.add_space_prefix = Some(!none);
        parts.remove_extra_whitespaces = Some(words || runs);
    } else if Treatment::of(parts).is_some_and(|treatment| treatment.squeezes) {
        parts.remove_extra_whitespaces = Some(true);
    }
}

/// Whether a Metaspace step puts a space before a text.
fn puts_first(step: &Json) -> bool {
    step.get("prepend_scheme").and_then(Json::as_str) != Some("never")
        && step.get("add_prefix_space").and_then(Json::as_bool) != Some(false)
}

/// Whether the definitions put a space before a text: two ways to say it.
pub fn space_first(parts: &Parts) -> bool {
    let before = steps(parts.pre_tokenizer.as_ref());
    let marks = before.iter().any(|step| is(step, "Metaspace") && puts_first(step));
    marks || steps(parts.normalizer.as_ref()).iter().any(|step| is(step, "Prepend"))
}

fn wrong(key: &str) -> Error {
    Error::malformed(format!("`{key}` is missing or has the wrong type"))
}
