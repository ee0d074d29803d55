//! Reads and writes the JSON form of a tokenizer.

use super::{AddedToken, Kind, Parts, SCHEMA, Spelling, TokenType, Tokenizer};
use crate::{Error, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_core::de::DeserializeOwned;
use serde_core::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

const KINDS: [(&str, Kind); 3] =
    [("bpe", Kind::Bpe), ("unigram", Kind::Unigram), ("wordpiece", Kind::WordPiece)];
const SPELLINGS: [(&str, Spelling); 3] =
    [("plain", Spelling::Plain), ("bytes", Spelling::Bytes), ("sentencepiece", Spelling::SentencePiece)];

/// See [`Tokenizer::to_json`].
pub fn to_json(parts: &Parts) -> Vec<u8> {
    // Memory is written, under keys that are texts: nothing of it can fail.
    serde_json::to_vec(&Form(parts)).unwrap_or_default()
}

/// The JSON form, written straight down: a tree of its values would be many times as large as the text.
struct Form<'p>(&'p Parts);

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let parts = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("kind", name_of(&KINDS, parts.kind))?;
        map.serialize_entry("spelling", name_of(&SPELLINGS, parts.spelling))?;
        map.serialize_entry("vocab_size", &parts.vocab_size)?;
        if let Some(n) = parts.n_pieces {
            map.serialize_entry("n_pieces", &n)?;
        }
        map.serialize_entry("tokens", &parts.tokens)?;
        map.serialize_entry("types", &parts.types.iter().map(|kind| kind.number()).collect::<Vec<_>>())?;
        if let Some(scores) = &parts.scores {
            map.serialize_entry("scores", scores)?;
        }
        if !parts.merges.is_empty() {
            map.serialize_entry(
                "merges",
                &parts.merges.iter().flat_map(|(a, b)| [*a, *b]).collect::<Vec<_>>(),
            )?;
        }
        for (key, value) in short(parts) {
            if let Some(value) = value {
                map.serialize_entry(key, &value)?;
            }
        }
        map.end()
    }
}

/// What does not grow with the vocabulary, in the order of its keys.
fn short(parts: &Parts) -> impl Iterator<Item = (&'static str, Option<Json>)> {
    let added: Vec<Json> = parts.added.iter().map(added_to_json).collect();
    let ids = parts.special.iter().map(|(name, id)| (name.clone(), Json::from(*id))).collect();
    let add = parts.add.iter().map(|(name, yes)| (name.clone(), Json::from(*yes))).collect();
    let variables = parts.chat_variables.as_ref().map(|variables| {
        Json::Object(variables.iter().map(|(n, t)| (n.clone(), Json::from(t.as_str()))).collect())
    });
    let templates = parts.chat_templates.iter().map(|(n, t)| (n.clone(), Json::from(t.as_str()))).collect();
    let ends: Vec<Json> = parts.ends.iter().copied().map(Json::from).collect();
    let notes: Vec<Json> = parts.notes.iter().map(|note| Json::from(note.as_str())).collect();
    let all = [
        ("added_tokens", list(added)),
        ("ends", list(ends)),
        ("notes", list(notes)),
        ("special", object(ids)),
        ("add", object(add)),
        ("unk", parts.unk.map(Json::from)),
        ("byte_fallback", flag(parts.byte_fallback)),
        ("fuse_unk", flag(parts.fuse_unk)),
        ("ignore_merges", flag(parts.ignore_merges)),
        ("continuing_prefix", parts.continuing_prefix.as_deref().map(Json::from)),
        ("word_suffix", parts.word_suffix.as_deref().map(Json::from)),
        ("max_word_chars", parts.max_word_chars.map(Json::from)),
        ("add_space_prefix", parts.add_space_prefix.map(Json::from)),
        ("remove_extra_whitespaces", parts.remove_extra_whitespaces.map(Json::from)),
        ("lowercase", parts.lowercase.map(Json::from)),
        ("strip_accents", parts.strip_accents.map(Json::from)),
        ("split_special_tokens", flag(parts.split_special_tokens)),
        ("clean_up_spaces", parts.clean_up_spaces.map(Json::from)),
        ("charsmap", parts.charsmap.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes).into())),
        ("normalizer", parts.normalizer.clone()),
        ("pre_tokenizer", parts.pre_tokenizer.clone()),
        ("decoder", parts.decoder.clone()),
        ("post_processor", parts.post_processor.clone()),
        ("truncation", parts.truncation.clone()),
        ("padding", parts.padding.clone()),
        ("pre", parts.pre.as_deref().map(Json::from)),
        ("chat_variables", variables),
        ("chat_templates", object(templates)),
    ];
    all.into_iter()
}

fn list(items: Vec<Json>) -> Option<Json> {
    (!items.is_empty()).then_some(Json::Array(items))
}

fn object(list: Map<String, Json>) -> Option<Json> {
    (!list.is_empty()).then_some(Json::Object(list))
}

fn flag(yes: bool) -> Option<Json> {
    yes.then_some(Json::Bool(true))
}

fn added_to_json(added: &AddedToken) -> Json {
    let mut map = Map::from_iter([("id".to_owned(), Json::from(added.id))]);
    for (name, yes) in [
        ("special", added.special),
        ("lstrip", added.lstrip),
        ("rstrip", added.rstrip),
        ("normalized", added.normalized),
        ("single_word", added.single_word),
        ("outside_model", added.outside_model),
    ] {
        if yes {
            map.insert(name.to_owned(), true.into());
        }
    }
    Json::Object(map)
}

/// See [`Tokenizer::from_json`].
///
/// # Errors
/// Malformed; Unsupported for a newer schema.
pub fn from_json(text: &[u8]) -> Result<Tokenizer> {
    let mut keys = Keys::read(text)?;
    match keys.take("schema").as_ref().and_then(Json::as_u64) {
        Some(SCHEMA) => {}
        Some(newer) if newer > SCHEMA => {
            return Err(Error::unsupported(format!(
                "the tokenizer's schema is {newer}, but only {SCHEMA} is supported"
            ))
            .hint("the file is newer than this program"));
        }
        _ => return Err(wrong("schema")),
    }
    let states_variables = keys.small.get("chat_variables").is_some_and(|stated| !stated.is_null());
    let parts = Parts {
        kind: keys.word("kind", &KINDS)?.ok_or_else(|| wrong("kind"))?,
        spelling: keys.word("spelling", &SPELLINGS)?.unwrap_or_default(),
        vocab_size: keys.get("vocab_size", |v| v.as_u64().and_then(narrow))?.unwrap_or(0),
        n_pieces: keys.get("n_pieces", |v| v.as_u64().and_then(narrow))?,
        tokens: keys.long_list("tokens")?.ok_or_else(|| wrong("tokens"))?,
        types: types(&keys.long_list("types")?.unwrap_or_default())?,
        scores: keys.long_list("scores")?,
        merges: pairs(keys.long_list("merges")?.unwrap_or_default())?,
        added: keys.list("added_tokens", |v| added_from_json(&v))?.unwrap_or_default(),
        special: keys.named("special", |v| v.as_u64().and_then(narrow))?,
        ends: keys.list("ends", |v| v.as_u64().and_then(narrow))?.unwrap_or_default(),
        add: keys.named("add", |v| v.as_bool())?,
        unk: keys.get("unk", |v| v.as_u64().and_then(narrow))?,
        byte_fallback: keys.flag("byte_fallback")?.unwrap_or(false),
        fuse_unk: keys.flag("fuse_unk")?.unwrap_or(false),
        ignore_merges: keys.flag("ignore_merges")?.unwrap_or(false),
        continuing_prefix: keys.text("continuing_prefix")?,
        word_suffix: keys.text("word_suffix")?,
        max_word_chars: keys.get("max_word_chars", |v| v.as_u64())?,
        add_space_prefix: keys.flag("add_space_prefix")?,
        remove_extra_whitespaces: keys.flag("remove_extra_whitespaces")?,
        lowercase: keys.flag("lowercase")?,
        strip_accents: keys.flag("strip_accents")?,
        split_special_tokens: keys.flag("split_special_tokens")?.unwrap_or(false),
        clean_up_spaces: keys.flag("clean_up_spaces")?,
        charsmap: keys.get("charsmap", |v| BASE64_STANDARD.decode(v.as_str()?).ok())?,
        normalizer: keys.take("normalizer"),
        pre_tokenizer: keys.take("pre_tokenizer"),
        decoder: keys.take("decoder"),
        post_processor: keys.take("post_processor"),
        truncation: keys.take("truncation"),
        padding: keys.take("padding"),
        pre: keys.text("pre")?,
        notes: keys
            .list("notes", |v| match v {
                Json::String(text) => Some(text),
                _ => None,
            })?
            .unwrap_or_default(),
        chat_variables: Some(keys.named("chat_variables", |v| v.as_str().map(str::to_owned))?)
            .filter(|_| states_variables),
        chat_templates: keys.named("chat_templates", |v| v.as_str().map(str::to_owned))?,
    };
    Tokenizer::new(parts)
}

/// The keys with an item for each token or merge: a tree of their values would be many times as large as the text.
const LONG: [&str; 4] = ["tokens", "types", "scores", "merges"];

/// The keys not yet taken from the object.
struct Keys<'t> {
    /// All but [`LONG`].
    small: Map<String, Json>,
    /// Those of [`LONG`], as text.
    long: HashMap<String, &'t RawValue>,
}

impl<'t> Keys<'t> {
    fn read(text: &'t [u8]) -> Result<Keys<'t>> {
        let not_json = |e| Error::malformed(format!("the tokenizer is not valid JSON: {e}"));
        let Ok(all) = serde_json::from_slice::<HashMap<String, &RawValue>>(text) else {
            serde_json::from_slice::<&RawValue>(text).map_err(not_json)?;
            return Err(Error::malformed("the tokenizer is not a JSON object"));
        };
        let mut keys = Keys { small: Map::new(), long: HashMap::new() };
        for (key, value) in all {
            if LONG.contains(&key.as_str()) {
                keys.long.insert(key, value);
            } else {
                keys.small.insert(key, serde_json::from_str(value.get()).map_err(not_json)?);
            }
        }
        Ok(keys)
    }

    /// One of [`LONG`]; null counts as absent.
    fn long_list<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Vec<T>>> {
        let Some(value) = self.long.get(key).filter(|value| value.get() != "null") else { return Ok(None) };
        if let Ok(items) = serde_json::from_str(value.get()) {
            return Ok(Some(items));
        }
        let items: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| wrong(key))?;
        let invalid = items.iter().position(|item| serde_json::from_str::<T>(item.get()).is_err());
        Err(invalid.map_or_else(|| wrong(key), |n| invalid_item(key, n)))
    }

    /// Takes the value of `key`; null counts as absent.
    fn take(&mut self, key: &str) -> Option<Json> {
        self.small.get_mut(key).map(Json::take).filter(|value| !value.is_null())
    }

    fn get<T>(&mut self, key: &str, read: impl Fn(&Json) -> Option<T>) -> Result<Option<T>> {
        self.take(key).map(|value| read(&value).ok_or_else(|| wrong(key))).transpose()
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>> {
        self.get(key, Json::as_bool)
    }

    fn text(&mut self, key: &str) -> Result<Option<String>> {
        self.get(key, |v| v.as_str().map(str::to_owned))
    }

    fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        self.get(key, |v| words.iter().find(|(name, _)| v == name).map(|(_, value)| *value))
    }

    fn list<T>(&mut self, key: &str, read: impl Fn(Json) -> Option<T>) -> Result<Option<Vec<T>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(|(n, item)| read(item).ok_or_else(|| invalid_item(key, n)))
                .collect::<Result<_>>()
                .map(Some),
            Some(_) => Err(wrong(key)),
        }
    }

    fn named<T>(&mut self, key: &str, read: impl Fn(&Json) -> Option<T>) -> Result<Vec<(String, T)>> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Json::Object(map)) => map
                .into_iter()
                .map(|(name, value)| read(&value).map(|v| (name, v)).ok_or_else(|| wrong(key)))
                .collect(),
            Some(_) => Err(wrong(key)),
        }
    }
}

fn added_from_json(json: &Json) -> Option<AddedToken> {
    Some(AddedToken {
        id: json.get("id")?.as_u64().and_then(narrow)?,
        special: stated_flag(json, "special")?,
        lstrip: stated_flag(json, "lstrip")?,
        rstrip: stated_flag(json, "rstrip")?,
        normalized: stated_flag(json, "normalized")?,
        single_word: stated_flag(json, "single_word")?,
        outside_model: stated_flag(json, "outside_model")?,
    })
}

/// A flag that is false where it is not stated.
fn stated_flag(json: &Json, key: &str) -> Option<bool> {
    json.get(key).map_or(Some(false), Json::as_bool)
}

fn types(numbers: &[u64]) -> Result<Vec<TokenType>> {
    let mut types = Vec::with_capacity(numbers.len());
    for (n, number) in numbers.iter().enumerate() {
        types.push(TokenType::from_number(*number).ok_or_else(|| invalid_item("types", n))?);
    }
    Ok(types)
}

fn pairs(ids: Vec<u32>) -> Result<Vec<(u32, u32)>> {
    if ids.len() % 2 != 0 {
        return Err(wrong("merges"));
    }
    Ok(ids.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn narrow(n: u64) -> Option<u32> {
    u32::try_from(n).ok()
}

fn name_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, v)| *v == value).map_or("", |(name, _)| name)
}

fn invalid_item(key: &str, n: usize) -> Error {
    Error::malformed(format!("the tokenizer's `{key}` has an invalid item at {n}"))
}

fn wrong(key: &str) -> Error {
    Error::malformed(format!("the tokenizer's `{key}` is missing or has the wrong type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_goes_both_ways() {
        let text = r#"{"schema":1,"kind":"bpe","spelling":"bytes","vocab_size":6,"tokens":["a","b","ab",null,"<s>"],"types":[1,1,1,0,3],"merges":[0,1],"added_tokens":[{"id":4,"special":true}],"special":{"eos":4,"bos":4},"add":{"bos":false},"ignore_merges":true,"charsmap":"AAEC","decoder":{"type":"ByteLevel"},"chat_templates":{"default":"{{ x }}"}}"#;
        let tokenizer = Tokenizer::from_json(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(tokenizer.to_json()).unwrap(), text);
        assert_eq!(tokenizer.core().tokens[3], ("[PAD3]".into(), TokenType::Unused));
        assert_eq!(tokenizer.core().tokens[5], ("[PAD5]".into(), TokenType::Unused));
    }

    #[test]
    fn scores_are_kept_to_the_bit() {
        let scores: Vec<f64> = vec![-2.014_292_240_142_822_3, 0.1, -1e-300, 0.0];
        let tokens = ["a", "b", "c", "d"].map(|t| Some(t.to_owned())).to_vec();
        let types = vec![TokenType::Normal; 4];
        let parts = Parts { kind: Kind::Unigram, tokens, types, scores: Some(scores), ..Parts::default() };
        let tokenizer = Tokenizer::new(parts).unwrap();
        assert_eq!(Tokenizer::from_json(&tokenizer.to_json()).unwrap(), tokenizer);
    }

    #[test]
    fn what_is_not_a_tokenizer_is_refused() {
        for (text, message) in [
            ("[", "not valid JSON"),
            ("[]", "not a JSON object"),
            ("{}", "`schema`"),
            (r#"{"schema":2}"#, "schema is 2"),
            (r#"{"schema":1,"kind":"x"}"#, "`kind`"),
            (r#"{"schema":1,"kind":"bpe"}"#, "`tokens`"),
            (r#"{"schema":1,"kind":"bpe","tokens":[1],"types":[1]}"#, "`tokens` has an invalid item at 0"),
            (r#"{"schema":1,"kind":"bpe","tokens":["a"],"types":[9]}"#, "`types`"),
            (r#"{"schema":1,"kind":"bpe","tokens":["a"],"types":[1],"merges":[0]}"#, "`merges`"),
            (r#"{"schema":1,"kind":"bpe","tokens":["a"],"types":[1],"special":{"bos":-1}}"#, "`special`"),
            (r#"{"schema":1,"kind":"bpe","tokens":["a"],"types":[1],"charsmap":"!"}"#, "`charsmap`"),
        ] {
            let error = Tokenizer::from_json(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(message), "{text}: {error:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(Tokenizer::from_json(deep.as_bytes()).is_err());
    }
}
