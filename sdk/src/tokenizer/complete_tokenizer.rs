//! Compares all that two tokenizers state.

use super::differences::{Differences, SHOWN, map_size, or_none, quoted, word};
use super::{AddedToken, Tokenizer};
use crate::escape;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// See [`Tokenizer::differences`].
pub fn differences(one: &Tokenizer, other: &Tokenizer) -> Differences {
    let mut differences = Differences::default();
    differences.unless_same("kind", "", &one.kind, &other.kind);
    differences.unless_same("spelling", "", &one.spelling, &other.spelling);
    differences.unless_same("number of ids", "", &one.vocab_size, &other.vocab_size);
    tokens(one, other, &mut differences);
    differences.merges([&one.merges, &other.merges], [&|id| text(one, id), &|id| text(other, id)]);
    differences.named("special id", &by_name(&one.special), &by_name(&other.special), ToString::to_string);
    differences.named("add flag", &by_name(&one.add), &by_name(&other.add), ToString::to_string);
    unstated(one, other, &mut differences, true);
    differences.templates(&by_name(&one.chat_templates), &by_name(&other.chat_templates));
    differences
}

/// The text of a token for display.
fn text(tokenizer: &Tokenizer, id: u32) -> String {
    escape(tokenizer.token(id).unwrap_or_default(), SHOWN)
}

fn by_name<T: Clone>(pairs: &[(String, T)]) -> BTreeMap<String, T> {
    pairs.iter().cloned().collect()
}

/// See [`Tokenizer::differences_beyond_core`].
pub fn beyond_core(one: &Tokenizer, other: &Tokenizer) -> Differences {
    let mut differences = Differences::default();
    unstated(one, other, &mut differences, false);
    differences
}

/// Compares texts, types and scores, by id.
fn tokens(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences) {
    let n = u32::try_from(one.tokens.len().max(other.tokens.len())).unwrap_or(u32::MAX);
    for id in 0..n {
        let [text, other_text] = [one, other].map(|tokenizer| tokenizer.token(id));
        if text != other_text {
            differences.put("text", || (format!("of token {id}"), quoted(text), quoted(other_text)));
            continue;
        }
        // The text is the same on both sides from here on.
        let [kind, other_kind] = [one, other].map(|tokenizer| tokenizer.type_of(id));
        if kind != other_kind {
            differences.put("type", || (named(id, text), word(kind).to_owned(), word(other_kind).to_owned()));
        }
        if let (Some(scores), Some(other_scores)) = (&one.scores, &other.scores) {
            let [score, other_score] = [scores, other_scores].map(|scores| score(scores, id));
            if score != other_score {
                differences.put("score", || (named(id, text), or_none(score), or_none(other_score)));
            }
        }
    }
    if one.scores.is_some() != other.scores.is_some() {
        let [shown, other_shown] =
            [one, other].map(|tokenizer| or_none(tokenizer.scores.as_ref().map(|_| "stated")));
        differences.put("scores", || (String::new(), shown, other_shown));
    }
}

fn score(scores: &[f64], id: u32) -> Option<f64> {
    scores.get(usize::try_from(id).ok()?).copied()
}

/// A token as an item of a field.
fn named(id: u32, text: Option<&str>) -> String {
    format!("of token {id} `{}`", escape(text.unwrap_or_default(), SHOWN))
}

/// Compares what lists and flags of the core do not say; unless `all`, only what both state.
fn unstated(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences, all: bool) {
    added(one, other, differences, all);
    let mut flags = Flags { differences, all };
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
    flags.compare("variables of chat templates", &one.chat_variables, &other.chat_variables);
    flags.compare("`clean_up_spaces`", &one.clean_up_spaces, &other.clean_up_spaces);
    differences.unless_same("`byte_fallback`", "", &one.byte_fallback, &other.byte_fallback);
    differences.unless_same("`fuse_unk`", "", &one.fuse_unk, &other.fuse_unk);
    differences.unless_same("`ignore_merges`", "", &one.ignore_merges, &other.ignore_merges);
    differences.unless_same(
        "`split_special_tokens`",
        "",
        &one.split_special_tokens,
        &other.split_special_tokens,
    );
    if all {
        differences.unless_same("further ends", "", &one.ends, &other.ends);
        differences.unless_same("number of pieces", "", &one.n_pieces, &other.n_pieces);
        differences.unless_same("pre-tokenizer's name", "", &one.pre, &other.pre);
        if one.charsmap != other.charsmap {
            let of = "of normalization".to_owned();
            differences.put("map", || (of, map_size(&one.charsmap), map_size(&other.charsmap)));
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
            definition(field, String::new(), a.as_ref(), b.as_ref(), differences);
        }
    }
}

/// Values that a tokenizer may not state.
struct Flags<'f> {
    differences: &'f mut Differences,
    all: bool,
}

impl Flags<'_> {
    fn compare<T: PartialEq + Debug>(&mut self, field: &'static str, one: &Option<T>, other: &Option<T>) {
        if one != other && (self.all || one.is_some() && other.is_some()) {
            let [shown, other_shown] =
                [one, other].map(|value| or_none(value.as_ref().map(|value| format!("{value:?}"))));
            self.differences.put(field, || (String::new(), shown, other_shown));
        }
    }
}

/// Compares the tokens that are matched in a text before anything else, and their flags.
fn added(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences, all: bool) {
    let [by_id, other_by_id] = [one, other].map(|tokenizer| {
        tokenizer.added.iter().map(|added| (added.id, *added)).collect::<BTreeMap<u32, AddedToken>>()
    });
    let new = other_by_id.keys().filter(|id| !by_id.contains_key(id));
    for id in by_id.keys().chain(new) {
        let [token, other_token] = [&by_id, &other_by_id].map(|tokens| tokens.get(id));
        if token != other_token && (all || token.is_some() && other_token.is_some()) {
            let text = escape(one.token(*id).or(other.token(*id)).unwrap_or_default(), SHOWN);
            differences.put("added token", || (format!("{id} `{text}`"), shown(token), shown(other_token)));
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
    differences: &mut Differences,
) {
    if one == other {
        return;
    }
    let is_shallow = path.matches('/').count() < DEEPEST;
    match (one, other) {
        (Some(Json::Object(a)), Some(Json::Object(b))) if is_shallow && a.get("type") == b.get("type") => {
            let new = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(new) {
                definition(
                    field,
                    format!("{path}/{}", escape(key, SHOWN)),
                    a.get(key),
                    b.get(key),
                    differences,
                );
            }
        }
        (Some(Json::Array(a)), Some(Json::Array(b))) if is_shallow && a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                definition(field, format!("{path}/{n}"), Some(a), Some(b), differences);
            }
        }
        _ => differences.put(field, || {
            let [value, other_value] =
                [one, other].map(|value| or_none(value.map(|value| escape(&value.to_string(), SHOWN))));
            (path.strip_prefix('/').unwrap_or_default().to_owned(), value, other_value)
        }),
    }
}
