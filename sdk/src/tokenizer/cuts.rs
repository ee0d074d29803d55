//! Compares how two tokenizers cut a text where formats say it in two ways: by what the steps do, however they are spelled.

use super::differences::{Differences, SHOWN};
use super::pieces::{counts, same_score};
use super::treatment::{SpaceFirst, Treatment, scheme, steps};
use super::{AddedToken, Kind, Spelling, TokenType, Tokenizer};
use crate::escape;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// See [`Tokenizer::cut_differences`].
pub fn cut_differences(one: &Tokenizer, other: &Tokenizer) -> Differences {
    let mut differences = Differences::default();
    if (one.kind, one.spelling) != (other.kind, other.spelling) {
        return differences;
    }
    // Of pieces, the core has what the steps do.
    if one.spelling != Spelling::SentencePiece {
        let [first, second] = [one, other].map(normalization);
        put_first("normalizer", &first, &second, &mut differences);
        pre_tokenizers(one, other, &mut differences);
    }
    if one.kind == Kind::Bpe {
        differences.unless_same("`ignore_merges`", "", &one.ignore_merges, &other.ignore_merges);
    }
    if one.kind == Kind::Unigram {
        finer_scores(one, other, &mut differences);
    }
    differences.unless_same(
        "`split_special_tokens`",
        "",
        &one.split_special_tokens,
        &other.split_special_tokens,
    );
    added(one, other, &mut differences);
    let [ends, other_ends] = [one, other].map(|tokenizer| tokenizer.ends.iter().collect::<BTreeSet<_>>());
    if ends != other_ends {
        differences
            .put("further ends", || (String::new(), format!("{:?}", one.ends), format!("{:?}", other.ends)));
    }
    if !has_usual_decoder(one) || !has_usual_decoder(other) {
        let [first, second] = [one, other].map(|tokenizer| shown(steps(tokenizer.decoder.as_ref())));
        put_first("decoder", &first, &second, &mut differences);
    }
    differences
}

/// Compares the part of scores that 32 bits do not hold, which decides where two segmentations of a text are about as probable. The
/// core has the rest.
fn finer_scores(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences) {
    let (Some(scores), Some(other_scores)) = (&one.scores, &other.scores) else { return };
    for ((id, score), other_score) in (0u32..).zip(scores).zip(other_scores) {
        #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
        let is_same_rounded = *score as f32 == *other_score as f32;
        let is_there = one.written(id) && other.written(id) && counts(one.type_of(id));
        if is_there && is_same_rounded && !same_score(*score, *other_score) {
            differences.put("score", || {
                let text = escape(one.token(id).unwrap_or_default(), SHOWN);
                (format!("of token {id} `{text}`"), score.to_string(), other_score.to_string())
            });
        }
    }
}

fn kind(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or_default()
}

fn shown(steps: Vec<&Json>) -> Vec<String> {
    steps.into_iter().map(Json::to_string).collect()
}

/// The steps of the normalizer, those of BERT with all their flags.
fn normalization(tokenizer: &Tokenizer) -> Vec<String> {
    let spelled = |step: &Json| {
        if kind(step) != "BertNormalizer" {
            return step.to_string();
        }
        let flag = |key: &str, usual: bool| step.get(key).and_then(Json::as_bool).unwrap_or(usual);
        let lowers = flag("lowercase", true);
        json!({"type": "BertNormalizer", "clean_text": flag("clean_text", true), "lowercase": lowers,
               "handle_chinese_chars": flag("handle_chinese_chars", true), "strip_accents": flag("strip_accents", lowers)})
        .to_string()
    };
    steps(tokenizer.normalizer.as_ref()).into_iter().map(spelled).collect()
}

/// Compares pre-tokenizers; where all that differs is the space that bytes get before a text, that alone.
fn pre_tokenizers(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences) {
    const PUT: &str = "bytes space=true";
    let both = [one, other].map(|tokenizer| tokenizer.pre_tokenizer.as_ref().map(cuts).unwrap_or_default());
    let [puts, other_puts] = both.each_ref().map(|cuts| cuts.iter().any(|cut| cut.starts_with(PUT)));
    let [first, second] = both.map(|cuts| {
        cuts.into_iter().map(|cut| cut.replacen(PUT, "bytes space=false", 1)).collect::<Vec<String>>()
    });
    differences.unless_same("`add_prefix_space`", "", &puts, &other_puts);
    put_first("pre-tokenizer", &first, &second, differences);
}

/// Counts a difference between two lists of steps, and shows where they part.
fn put_first(field: &'static str, one: &[String], other: &[String], differences: &mut Differences) {
    let steps = one.len().max(other.len());
    let Some(at) = (0..steps).find(|at| one.get(*at) != other.get(*at)) else { return };
    let [step, other_step] = [one, other].map(|steps| steps.get(at).map_or("none", String::as_str));
    let shared = step.chars().zip(other_step.chars()).take_while(|(a, b)| a == b).count();
    let from = if shared > SHOWN / 2 { shared - SHOWN / 4 } else { 0 };
    differences.put(field, || {
        let [value, other_value] = [step, other_step].map(|step| {
            let rest: String = step.chars().skip(from).collect();
            format!("{}{}", if from == 0 { "" } else { "…" }, escape(&rest, SHOWN))
        });
        (String::new(), value, other_value)
    });
}

/// Compares the flags of tokens that are matched in a text, as far as texts show them.
fn added(one: &Tokenizer, other: &Tokenizer, differences: &mut Differences) {
    let [by_id, other_by_id] = [one, other].map(|tokenizer| {
        tokenizer.added.iter().map(|added| (added.id, *added)).collect::<BTreeMap<u32, AddedToken>>()
    });
    let ids: BTreeSet<&u32> = by_id.keys().chain(other_by_id.keys()).collect();
    for id in ids {
        if !one.written(*id) || !other.written(*id) || one.token(*id) != other.token(*id) {
            continue;
        }
        // Of a token that one alone finds, the core has the type.
        let is_control = [one, other].iter().all(|tokenizer| tokenizer.type_of(*id) == TokenType::Control);
        let [found, other_found] = [(one, &by_id), (other, &other_by_id)]
            .map(|(tokenizer, by_id)| by_id.get(id).map(|added| flags(tokenizer, *added)));
        if found != other_found && (is_control || found.is_some() && other_found.is_some()) {
            let text = escape(one.token(*id).unwrap_or_default(), SHOWN);
            let [value, other_value] = [found, other_found]
                .map(|flags| flags.map_or("not found in texts".to_owned(), |flags| in_words(&flags)));
            differences.put("added token", || (format!("{id} `{text}`"), value, other_value));
        }
    }
}

/// The flags of an added token that decide where a text has it.
fn flags(tokenizer: &Tokenizer, added: AddedToken) -> Vec<&'static str> {
    let text = tokenizer.token(added.id).unwrap_or_default();
    let all = [
        ("lstrip", added.lstrip),
        ("rstrip", added.rstrip),
        ("single_word", added.single_word),
        ("normalized", added.normalized && moves(tokenizer, text)),
    ];
    all.into_iter().filter(|(_, yes)| *yes).map(|(name, _)| name).collect()
}

fn in_words(flags: &[&str]) -> String {
    if flags.is_empty() { "no flags".to_owned() } else { flags.join(", ") }
}

/// Returns whether a token may be found elsewhere after the normalizer than before it. Composing joins letters with what follows them.
fn moves(tokenizer: &Tokenizer, text: &str) -> bool {
    let steps = steps(tokenizer.normalizer.as_ref());
    let composed = !text.is_ascii() || text.ends_with(char::is_alphanumeric);
    steps.iter().any(|step| kind(step) != "NFC" || composed)
}

/// Returns whether the decoder is one that tokenizers of its kind have, or gives the same texts.
pub fn has_usual_decoder(tokenizer: &Tokenizer) -> bool {
    let all = steps(tokenizer.decoder.as_ref());
    let kinds: Vec<&str> = all.iter().map(|step| kind(step)).collect();
    match tokenizer.spelling {
        Spelling::Bytes => kinds == ["ByteLevel"],
        Spelling::SentencePiece => {
            let has_bytes = kinds.contains(&"ByteFallback") || !tokenizer.types.contains(&TokenType::Byte);
            let is_known = match kinds.first() {
                Some(&"Replace") => kinds.contains(&"Fuse") && !kinds.contains(&"Metaspace"),
                _ => {
                    kinds.ends_with(&["Metaspace"])
                        && kinds.iter().all(|kind| !["Fuse", "Strip"].contains(kind))
                }
            };
            is_known
                && has_bytes
                && all.iter().all(|step| is_of_pieces(step))
                && takes_off_what_is_put_first(tokenizer)
                || tokenizer.decoder.is_none() && tokenizer.normalizer.is_none()
        }
        Spelling::Plain if tokenizer.kind == Kind::WordPiece => {
            let has = |key: &str, usual: Json| all[0].get(key).is_none_or(|value| *value == usual);
            kinds == ["WordPiece"] && has("prefix", "##".into()) && has("cleanup", true.into())
        }
        Spelling::Plain => true,
    }
}

/// Returns whether a step of a decoder does what pieces need.
fn is_of_pieces(step: &Json) -> bool {
    let has = |key: &str, usual: Json| step.get(key).is_none_or(|value| *value == usual);
    match kind(step) {
        "ByteFallback" | "Fuse" => true,
        "Metaspace" => has("replacement", "\u{2581}".into()),
        "Replace" => has("content", " ".into()) && has("pattern", json!({"String": "\u{2581}"})),
        "Strip" => has("content", " ".into()) && has("stop", 0.into()) && has("start", 1.into()),
        _ => false,
    }
}

/// Returns whether the decoder takes a space off the start of a text exactly where the steps put one there.
fn takes_off_what_is_put_first(tokenizer: &Tokenizer) -> bool {
    let takes = steps(tokenizer.decoder.as_ref()).into_iter().any(|step| match kind(step) {
        "Metaspace" => scheme(step) != SpaceFirst::Never,
        "Strip" => step.get("start").and_then(Json::as_u64).is_some_and(|start| start > 0),
        _ => false,
    });
    let puts = Treatment::of(tokenizer).is_some_and(|own| own.space_first != SpaceFirst::Never);
    takes == puts
}

/// The steps of a pre-tokenizer in canonical spelling: nested sequences flattened, defaults filled in, and what only moves
/// offsets left out.
pub fn cuts(definition: &Json) -> Vec<String> {
    steps(Some(definition)).into_iter().map(cut).collect()
}

/// Returns whether each character of any text is in some match of a pattern, as it is with those that GPT-4's tokenizer and its
/// successors have: letters, numbers, spaces, and what is none of them.
fn covers_all(pattern: &str) -> bool {
    let has = |part: &str| pattern.contains(part);
    let letters = has("\\p{L}+")
        || has("[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*") && has("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+");
    let others = has("| ?[^\\s\\p{L}\\p{N}]+");
    letters && has("|\\p{N}") && others && pattern.ends_with("|\\s+")
}

fn cut(step: &Json) -> String {
    let yes = |key: &str, default: bool| step.get(key).and_then(Json::as_bool).unwrap_or(default);
    let behavior = step.get("behavior").and_then(Json::as_str).unwrap_or("Isolated");
    match kind(step) {
        "ByteLevel" => {
            let (space, regex) = (yes("add_prefix_space", true), yes("use_regex", true));
            format!("bytes space={space} regex={regex}")
        }
        "Digits" if yes("individual_digits", false) => "split Isolated \\p{N}".to_owned(),
        "Digits" => "digits".to_owned(),
        "Punctuation" => format!("punctuation {behavior}"),
        "Split" => {
            let regex = step.pointer("/pattern/Regex").and_then(Json::as_str);
            let pattern = regex
                .map_or_else(|| step.get("pattern").cloned().unwrap_or_default().to_string(), str::to_owned);
            // Keeping only the matches is the same as keeping everything if the pattern covers everything.
            let behavior = match (behavior, yes("invert", false)) {
                ("Removed", true) if regex.is_some_and(covers_all) => "Isolated".to_owned(),
                (behavior, false) => behavior.to_owned(),
                (behavior, true) => format!("{behavior} inverted"),
            };
            format!("split {behavior} {pattern}")
        }
        _ => step.to_string(),
    }
}
