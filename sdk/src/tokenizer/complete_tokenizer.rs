//! Compares all that two tokenizers state.

use super::differences::{Differences, SHOWN, word};
use super::{AddedToken, Tokenizer};
use crate::escape;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// See [`Tokenizer::differences`].
pub fn differences(one: &Tokenizer, other: &Tokenizer) -> Differences {
    let mut found = Differences::default();
    found.unless_same("kind", "", &one.kind, &other.kind);
    found.unless_same("spelling", "", &one.spelling, &other.spelling);
    found.unless_same("number of ids", "", &one.vocab_size, &other.vocab_size);
    tokens(one, other, &mut found);
    let text = |of: &Tokenizer, id: u32| escape(of.token(id).unwrap_or_default(), SHOWN);
    found.merges([&one.merges, &other.merges], [&|id| text(one, id), &|id| text(other, id)]);
    let ids = |of: &Tokenizer| -> BTreeMap<String, u32> { of.special.iter().cloned().collect() };
    let flags = |of: &Tokenizer| -> BTreeMap<String, bool> { of.add.iter().cloned().collect() };
    found.named("special id", &ids(one), &ids(other), ToString::to_string);
    found.named("add flag", &flags(one), &flags(other), ToString::to_string);
    unstated(one, other, &mut found, true);
    let templates =
        |of: &Tokenizer| -> BTreeMap<String, String> { of.chat_templates.iter().cloned().collect() };
    found.templates(&templates(one), &templates(other));
    found
}

/// See [`Tokenizer::differences_beyond_core`].
pub fn beyond_core(one: &Tokenizer, other: &Tokenizer) -> Differences {
    let mut found = Differences::default();
    unstated(one, other, &mut found, false);
    found
}

/// Compares texts, types and scores, by id.
fn tokens(one: &Tokenizer, other: &Tokenizer, found: &mut Differences) {
    let name = |id: u32| {
        let text = one.token(id).or(other.token(id)).unwrap_or_default();
        format!("of token {id} `{}`", escape(text, SHOWN))
    };
    let quoted = |text: Option<&str>| match text {
        Some(text) => format!("`{}`", escape(text, SHOWN)),
        None => "none".to_owned(),
    };
    let scores = one.scores.as_ref().zip(other.scores.as_ref());
    let score = |of: &[f64], id: u32| usize::try_from(id).ok().and_then(|at| of.get(at)).copied();
    let n = u32::try_from(one.tokens.len().max(other.tokens.len())).unwrap_or(u32::MAX);
    for id in 0..n {
        let (a, b) = (one.token(id), other.token(id));
        if a != b {
            found.put("text", || (format!("of token {id}"), quoted(a), quoted(b)));
            continue;
        }
        let (a, b) = (one.type_of(id), other.type_of(id));
        if a != b {
            found.put("type", || (name(id), word(a).to_owned(), word(b).to_owned()));
        }
        if let Some((a, b)) = scores.map(|(a, b)| (score(a, id), score(b, id)))
            && a != b
        {
            let shown = |score: Option<f64>| score.map_or_else(|| "none".to_owned(), |s| s.to_string());
            found.put("score", || (name(id), shown(a), shown(b)));
        }
    }
    if one.scores.is_some() != other.scores.is_some() {
        let shown = |of: &Tokenizer| if of.scores.is_some() { "stated" } else { "none" }.to_owned();
        found.put("scores", || (String::new(), shown(one), shown(other)));
    }
}

/// Compares what lists and flags of the core do not say; unless `all`, only what both state.
fn unstated(one: &Tokenizer, other: &Tokenizer, found: &mut Differences, all: bool) {
    added(one, other, found, all);
    let mut flags = Flags { found, all };
    flags.compare("unknown token", &one.unk, &other.unk);
    flags.compare("continuing prefix", &one.continuing_prefix, &other.continuing_prefix);
    flags.compare("word suffix", &one.word_suffix, &other.word_suffix);
    flags.compare("longest word", &one.max_word_chars, &other.max_word_chars);
    flags.compare("`add_space_prefix`", &one.add_space_prefix, &other.add_space_prefix);
    flags.compare(
        "`remove_extra_whitespaces`",
        &one.remove_extra_whitespaces,
        &other.remove_extra_whitespaces,
    );
    flags.compare("`lowercase`", &one.lowercase, &other.lowercase);
    flags.compare("`strip_accents`", &one.strip_accents, &other.strip_accents);
    flags.compare("`clean_up_spaces`", &one.clean_up_spaces, &other.clean_up_spaces);
    found.unless_same("`byte_fallback`", "", &one.byte_fallback, &other.byte_fallback);
    found.unless_same("`fuse_unk`", "", &one.fuse_unk, &other.fuse_unk);
    found.unless_same("`ignore_merges`", "", &one.ignore_merges, &other.ignore_merges);
    found.unless_same("`split_special_tokens`", "", &one.split_special_tokens, &other.split_special_tokens);
    if all {
        found.unless_same("further ends", "", &one.ends, &other.ends);
        found.unless_same("number of pieces", "", &one.n_pieces, &other.n_pieces);
        found.unless_same("pre-tokenizer's name", "", &one.pre, &other.pre);
        let size = |of: &Tokenizer| {
            of.charsmap.as_ref().map_or("none".to_owned(), |map| format!("{} bytes", map.len()))
        };
        if one.charsmap != other.charsmap {
            found.put("map", || ("of normalization".to_owned(), size(one), size(other)));
        }
    }
    for (field, a, b) in [
        ("normalizer", &one.normalizer, &other.normalizer),
        ("pre-tokenizer", &one.pre_tokenizer, &other.pre_tokenizer),
        ("decoder", &one.decoder, &other.decoder),
        ("post-processor", &one.post_processor, &other.post_processor),
        ("truncation", &one.truncation, &other.truncation),
        ("padding", &one.padding, &other.padding),
    ] {
        if all || a.is_some() && b.is_some() {
            definition(field, String::new(), a.as_ref(), b.as_ref(), found);
        }
    }
}

/// Values that a tokenizer may not state.
struct Flags<'f> {
    found: &'f mut Differences,
    all: bool,
}

impl Flags<'_> {
    fn compare<T: PartialEq + Debug>(&mut self, field: &'static str, one: &Option<T>, other: &Option<T>) {
        let shown =
            |value: &Option<T>| value.as_ref().map_or("none".to_owned(), |value| format!("{value:?}"));
        if one != other && (self.all || one.is_some() && other.is_some()) {
            self.found.put(field, || (String::new(), shown(one), shown(other)));
        }
    }
}

/// Compares the tokens that are matched in a text before anything else, and their flags.
fn added(one: &Tokenizer, other: &Tokenizer, found: &mut Differences, all: bool) {
    let by_id = |of: &Tokenizer| -> BTreeMap<u32, AddedToken> {
        of.added.iter().map(|added| (added.id, *added)).collect()
    };
    let (of_one, of_other) = (by_id(one), by_id(other));
    let new = of_other.keys().filter(|id| !of_one.contains_key(id));
    for id in of_one.keys().chain(new) {
        let (a, b) = (of_one.get(id), of_other.get(id));
        if a != b && (all || a.is_some() && b.is_some()) {
            let text = escape(one.token(*id).or(other.token(*id)).unwrap_or_default(), SHOWN);
            found.put("added token", || (format!("{id} `{text}`"), shown(a), shown(b)));
        }
    }
}

/// The flags of an added token, in words.
fn shown(added: Option<&AddedToken>) -> String {
    let Some(added) = added else { return "none".to_owned() };
    let flags = [
        ("special", added.special),
        ("lstrip", added.lstrip),
        ("rstrip", added.rstrip),
        ("normalized", added.normalized),
        ("single_word", added.single_word),
        ("outside the vocabulary", added.outside_model),
    ];
    let set: Vec<&str> = flags.into_iter().filter(|(_, yes)| *yes).map(|(name, _)| name).collect();
    if set.is_empty() { "no flags".to_owned() } else { set.join(", ") }
}

/// How deep definitions are compared. 16: those of files are nested 6 deep.
const DEEPEST: usize = 16;

/// Compares two definitions of `tokenizer.json`, down to the values that differ.
fn definition(
    field: &'static str,
    path: String,
    one: Option<&Json>,
    other: Option<&Json>,
    found: &mut Differences,
) {
    if one == other {
        return;
    }
    let is_shallow = path.matches('/').count() < DEEPEST;
    match (one, other) {
        (Some(Json::Object(a)), Some(Json::Object(b))) if is_shallow && a.get("type") == b.get("type") => {
            let new = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(new) {
                definition(field, format!("{path}/{}", escape(key, SHOWN)), a.get(key), b.get(key), found);
            }
        }
        (Some(Json::Array(a)), Some(Json::Array(b))) if is_shallow && a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                definition(field, format!("{path}/{n}"), Some(a), Some(b), found);
            }
        }
        _ => found.put(field, || {
            let shown = |value: Option<&Json>| match value {
                None => "none".to_owned(),
                Some(value) => escape(&value.to_string(), SHOWN),
            };
            (path.strip_prefix('/').unwrap_or_default().to_owned(), shown(one), shown(other))
        }),
    }
}
