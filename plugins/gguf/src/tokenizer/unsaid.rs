//! What a tokenizer of pieces does to a text and llama.cpp does not: each is a warning, and all of it is carried in a key of
//! our own, which llama.cpp passes over and the reader here takes back.

use super::scan::Scan;
use super::{ADD_SPACE_PREFIX, REMOVE_EXTRA_WHITESPACES};
use apr_sdk::tokenizer::{Kind, Parts, SpaceFirst, Tokenizer, Treatment};
use apr_sdk::{Error, LayoutSink, Result, Value};
use serde_json::{Value as Json, json};

/// A JSON object: `normalizer`, `pre_tokenizer` and `decoder` as in `tokenizer.json`, `add_space_prefix` as the SDK has it, and
/// `space_first`, what llama.cpp does by the key of that name.
const TEXT: &str = "tokenizer.apr.text";

/// Adds to `keys` what llama.cpp would not do, and warns of it.
pub fn carry(tokenizer: &Tokenizer, keys: &mut Vec<(String, Value)>, sink: &mut dyn LayoutSink) {
    let Some(own) = Treatment::of(tokenizer) else { return };
    let other = of_llama_cpp(tokenizer, keys);
    if own == other {
        return;
    }
    differences(&own, &other).iter().for_each(|difference| sink.warn(difference));
    let text = json!({
        "normalizer": tokenizer.normalizer,
        "pre_tokenizer": tokenizer.pre_tokenizer,
        "decoder": tokenizer.decoder,
        "add_space_prefix": tokenizer.add_space_prefix,
        "space_first": other.space_first == SpaceFirst::Always,
    });
    keys.push((TEXT.to_owned(), Value::from_string(text.to_string())));
}

/// Puts into `parts` what [`carry`] wrote.
///
/// # Errors
/// Malformed for a key that holds something else.
pub fn take_back(scan: &Scan<'_>, parts: &mut Parts) -> Result<()> {
    let Some(text) = scan.text(TEXT)? else { return Ok(()) };
    let json: Json = serde_json::from_str(&text)
        .map_err(|e| Error::malformed(format!("metadata key `{TEXT}` is not JSON: {e}")))?;
    let get = |key: &str| json.get(key).filter(|value| !value.is_null());
    // Where the key was changed since, it is what counts.
    if get("space_first").and_then(Json::as_bool) != Some(scan.flag(ADD_SPACE_PREFIX).unwrap_or(true)) {
        return Ok(());
    }
    parts.normalizer = get("normalizer").cloned();
    parts.pre_tokenizer = get("pre_tokenizer").cloned();
    parts.decoder = get("decoder").cloned();
    parts.add_space_prefix = get("add_space_prefix").and_then(Json::as_bool);
    if let Some(own) = Treatment::of(parts).filter(|_| parts.kind == Kind::Bpe) {
        parts.remove_extra_whitespaces = own.squeezes.then_some(true);
        parts.charsmap = own.charsmap;
    }
    Ok(())
}

/// What llama.cpp does to a text by these keys (`llm_tokenizer_spm_session`, `llm_tokenizer_ugm_session`): merged pieces are
/// not normalized, a space comes behind every special token, and every space is marked.
fn of_llama_cpp(tokenizer: &Tokenizer, keys: &[(String, Value)]) -> Treatment {
    let flag = |key: &str| keys.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.as_bool());
    let by_cost = tokenizer.kind == Kind::Unigram;
    let first = flag(ADD_SPACE_PREFIX).unwrap_or(true);
    let mut treatment = Treatment::default();
    treatment.space_first = if first { SpaceFirst::Always } else { SpaceFirst::Never };
    treatment.squeezes = by_cost && flag(REMOVE_EXTRA_WHITESPACES) == Some(true);
    treatment.marks_spaces = true;
    treatment.charsmap = tokenizer.charsmap.clone().filter(|map| by_cost && !map.is_empty());
    treatment
}

/// What each difference does to a text's tokens.
fn differences(own: &Treatment, other: &Treatment) -> Vec<String> {
    let mut all = Vec::new();
    if own.squeezes != other.squeezes {
        all.push(match own.squeezes {
            true => "llama.cpp keeps runs of spaces, and spaces at both ends of a text, which this tokenizer removes: they become other tokens".to_owned(),
            false => "llama.cpp removes runs of spaces, and spaces at both ends of a text, which this tokenizer keeps: they become other tokens".to_owned(),
        });
    }
    if own.charsmap != other.charsmap {
        all.push(match own.charsmap {
            Some(_) => "llama.cpp does not apply this tokenizer's normalization rules: characters that they change, as full-width letters, become other tokens".to_owned(),
            None => "llama.cpp applies normalization rules that this tokenizer does not: characters that they change become other tokens".to_owned(),
        });
    }
    let space = match (own.space_first, other.space_first) {
        (a, b) if a == b && own.space_once == other.space_once => None,
        (a, b) if a == b => Some(
            "llama.cpp also puts a space before a text that begins with one, which this tokenizer does not",
        ),
        (_, SpaceFirst::Never) => Some("llama.cpp puts no space before a text, as this tokenizer does"),
        (SpaceFirst::Never, _) => Some("llama.cpp puts a space before a text, which this tokenizer does not"),
        _ => Some(
            "llama.cpp also puts a space before text behind a special token, this tokenizer at a text's beginning only",
        ),
    };
    all.extend(space.map(|space| format!("{space}: the word there becomes another token")));
    if !own.marks_spaces {
        all.push(
            "llama.cpp replaces spaces by U+2581, which this tokenizer does not: they become other tokens"
                .to_owned(),
        );
    }
    if !own.others.is_empty() {
        let names = own.names_of_others();
        all.push(format!("llama.cpp does not do what {names} of this tokenizer does: text that it changes or cuts becomes other tokens"));
    }
    all
}
