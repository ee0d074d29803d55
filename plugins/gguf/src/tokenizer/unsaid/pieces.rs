//! SentencePiece tokenizers: compares what llama.cpp does to a text, controlled by flags, with what the
//! tokenizer does.

use super::super::scan::Scan;
use super::super::{ADD_SPACE_PREFIX, REMOVE_EXTRA_WHITESPACES};
use super::{kind, made};
use apr_sdk::tokenizer::{Kind, Parts, SpaceFirst, TokenType, Tokenizer, Treatment, steps};
use apr_sdk::{LayoutSink, Value};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The member that says whether unknown tokens side by side become one.
pub const FUSES: &str = "fuse_unk";

/// Adds to `text` what llama.cpp would not do, with warnings.
pub fn carry(
    tokenizer: &Tokenizer,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let lacking = fallback(tokenizer);
    lacking.into_iter().for_each(|difference| sink.warn(difference));
    // Where each byte has a token, nothing is unknown.
    if tokenizer.kind == Kind::Bpe && lacking.is_some() && tokenizer.unk.is_some() && !tokenizer.fuse_unk {
        text.insert(FUSES.to_owned(), false.into());
    }
    let Some(own) = Treatment::of(tokenizer) else { return };
    let other = of_llama_cpp(tokenizer, keys);
    // Pieces that are chosen by their cost are read back as words between spaces of any kind, which llama.cpp does not do.
    let before = steps(tokenizer.pre_tokenizer.as_ref());
    let is_split = before.iter().any(|step| kind(step) == "WhitespaceSplit");
    let is_other =
        tokenizer.kind == Kind::Unigram && !(is_split || cuts_at_spaces(tokenizer) && !own.squeezes);
    if own == other && !is_other && !finds_otherwise(tokenizer) {
        return;
    }
    if own == other && own.squeezes && !is_split {
        match strips(tokenizer) {
            false => sink.warn("llama.cpp removes spaces at the end of a text and before special tokens, but this tokenizer keeps them: they are tokenized differently"),
            // The rules make spaces of them first.
            true if own.charsmap.is_some() => {}
            true => sink.warn("llama.cpp keeps line ends and tabs at both ends of a text, but this tokenizer removes them: they are tokenized differently"),
        }
    }
    differences(&own, &other).iter().for_each(|difference| sink.warn(difference));
    let all = [
        ("normalizer", tokenizer.normalizer.clone().unwrap_or_default()),
        ("pre_tokenizer", tokenizer.pre_tokenizer.clone().unwrap_or_default()),
        ("decoder", tokenizer.decoder.clone().unwrap_or_default()),
        ("add_space_prefix", tokenizer.add_space_prefix.map(Json::from).unwrap_or_default()),
        ("space_first", (other.space_first == SpaceFirst::Always).into()),
    ];
    text.extend(all.map(|(key, value)| (key.to_owned(), value)));
}

/// Whether normalized tokens have other spaces beside them in the text that the reader's steps give: of merged pieces they mark
/// spaces before such tokens are found, of others after that.
fn finds_otherwise(tokenizer: &Tokenizer) -> bool {
    let marks = steps(tokenizer.normalizer.as_ref()).into_iter().any(|step| {
        kind(step) == "Replace" && step.get("content").and_then(Json::as_str) == Some("\u{2581}")
    });
    let mut found = tokenizer.added.iter().filter(|added| added.normalized && tokenizer.written(added.id));
    marks != (tokenizer.kind == Kind::Bpe)
        && found.any(|added| {
            let text = tokenizer.token(added.id).unwrap_or_default();
            added.lstrip || added.rstrip || text.contains([' ', '\u{2581}'])
        })
}

/// Whether a text is cut at each space before it is tokenized.
fn cuts_at_spaces(tokenizer: &Tokenizer) -> bool {
    let steps = steps(tokenizer.pre_tokenizer.as_ref());
    steps.iter().any(|step| match kind(step) {
        "WhitespaceSplit" => true,
        "Metaspace" => step.get("split").and_then(Json::as_bool) != Some(false),
        _ => false,
    })
}

/// Whether spaces at the end of a text are taken off.
fn strips(tokenizer: &Tokenizer) -> bool {
    let normalizer = steps(tokenizer.normalizer.as_ref());
    normalizer
        .iter()
        .any(|step| kind(step) == "Strip" && step.get("strip_right").and_then(Json::as_bool) == Some(true))
}

/// Restores to `parts` what [`carry`] wrote.
pub fn take_back(scan: &Scan<'_>, json: &Json, parts: &mut Parts) {
    let get = |key: &str| json.get(key).filter(|value| !value.is_null());
    // If the key was changed since, the key counts.
    if get("space_first").and_then(Json::as_bool) != Some(scan.flag(ADD_SPACE_PREFIX).unwrap_or(true)) {
        return;
    }
    parts.normalizer = get("normalizer").cloned();
    parts.pre_tokenizer = get("pre_tokenizer").cloned();
    parts.decoder = get("decoder").cloned();
    parts.add_space_prefix = get("add_space_prefix").and_then(Json::as_bool);
    if let Some(own) = Treatment::of(parts).filter(|_| parts.kind == Kind::Bpe) {
        parts.remove_extra_whitespaces = own.squeezes.then_some(true);
        parts.charsmap = own.charsmap;
    }
}

/// What happens to characters that no piece covers. For BPE, llama.cpp looks up byte tokens by name, and they
/// must exist (`llama_vocab::byte_to_token`); for unigram it never does.
fn fallback(tokenizer: &Tokenizer) -> Option<&'static str> {
    let named: HashSet<&str> = tokenizer.each().map(|(_, text)| text).collect();
    let all = || (0..=u8::MAX).all(|byte| named.contains(&*format!("<0x{byte:02X}>")));
    match tokenizer.kind {
        Kind::Unigram if tokenizer.types.contains(&TokenType::Byte) => Some(
            "llama.cpp does not fall back to bytes for characters without a token, but this tokenizer does \
             (`byte_fallback`): they become the unknown token",
        ),
        Kind::Bpe if !all() => Some(
            "llama.cpp fails on characters without a token, since this tokenizer has no byte tokens \
             (`<0x00>` to `<0xFF>`)",
        ),
        Kind::Bpe if !tokenizer.byte_fallback => Some(
            "llama.cpp uses `<0x00>` and the like as byte tokens, but this tokenizer does not \
             (`byte_fallback` is false): characters without a token are tokenized differently",
        ),
        _ => None,
    }
}

/// What llama.cpp does to a text for these keys (`llm_tokenizer_spm_session`, `llm_tokenizer_ugm_session`):
/// BPE is not normalized, a space is added after every special token, and every space is marked.
fn of_llama_cpp(tokenizer: &Tokenizer, keys: &[(String, Value)]) -> Treatment {
    let flag = |key: &str| made(keys, key).and_then(Value::as_bool);
    let by_cost = tokenizer.kind == Kind::Unigram;
    let first = flag(ADD_SPACE_PREFIX).unwrap_or(true);
    let mut treatment = Treatment::default();
    treatment.space_first = if first { SpaceFirst::Always } else { SpaceFirst::Never };
    treatment.squeezes = by_cost && flag(REMOVE_EXTRA_WHITESPACES) == Some(true);
    treatment.marks_spaces = true;
    treatment.charsmap = tokenizer.charsmap.clone().filter(|map| by_cost && !map.is_empty());
    treatment
}

/// The effect of each difference on a text's tokens.
fn differences(own: &Treatment, other: &Treatment) -> Vec<String> {
    let mut all = Vec::new();
    if own.squeezes != other.squeezes {
        all.push(match own.squeezes {
            true => "llama.cpp keeps runs of spaces and spaces at both ends of a text, but this tokenizer \
                     removes them: they are tokenized differently"
                .to_owned(),
            false => "llama.cpp removes runs of spaces and spaces at both ends of a text, but this \
                      tokenizer keeps them: they are tokenized differently"
                .to_owned(),
        });
    }
    if own.charsmap != other.charsmap {
        all.push(match own.charsmap {
            Some(_) => "llama.cpp does not apply this tokenizer's normalization rules: affected characters, \
                        such as full-width letters, are tokenized differently"
                .to_owned(),
            None => "llama.cpp applies normalization rules that this tokenizer does not: affected \
                     characters are tokenized differently"
                .to_owned(),
        });
    }
    let space = match (own.space_first, other.space_first) {
        (a, b) if a == b && own.space_once == other.space_once => None,
        (a, b) if a == b => Some(
            "llama.cpp also adds a space before a text that starts with one, but this tokenizer does not",
        ),
        (_, SpaceFirst::Never) => {
            Some("llama.cpp does not add a space before a text, but this tokenizer does")
        }
        (SpaceFirst::Never, _) => Some("llama.cpp adds a space before a text, but this tokenizer does not"),
        _ => Some(
            "llama.cpp also adds a space to text after a special token, but this tokenizer only at the \
             beginning of a text",
        ),
    };
    all.extend(space.map(|space| format!("{space}: the word there is tokenized differently")));
    if !own.marks_spaces {
        all.push(
            "llama.cpp replaces spaces with U+2581, but this tokenizer does not: they are tokenized \
             differently"
                .to_owned(),
        );
    }
    if !own.others.is_empty() {
        let names = own.names_of_others();
        all.push(format!(
            "llama.cpp does not support this tokenizer's {names}: affected text is tokenized differently"
        ));
    }
    all
}
