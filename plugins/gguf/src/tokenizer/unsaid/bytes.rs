//! Byte-level tokenizers: llama.cpp splits a text and merges its bytes, without any normalization.

use super::super::{PRE, pre};
use super::{kind, made, without};
use apr_sdk::tokenizer::{Parts, Tokenizer, cuts, steps};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::{Map, Value as Json};

/// The normalization form that llama.cpp's converter ignores, as do the models that llama.cpp has names for.
const COMPOSED: &str = "NFC";

/// The member that says that a space is put before a text.
const SPACE: &str = "add_space_prefix";

/// Adds the space before a text, and the normalizer to `text`, unless the pre-tokenizer's name implies it, with a warning.
pub fn carry(
    tokenizer: &Tokenizer,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    if tokenizer.pre_tokenizer.as_ref().is_some_and(puts_space_first) {
        sink.warn(
            "llama.cpp does not add a space before a text, but this tokenizer does \
             (`add_prefix_space`): the first word is tokenized differently",
        );
        text.insert(SPACE.to_owned(), true.into());
    }
    let name = made(keys, PRE).and_then(Value::as_str);
    let own_cuts = tokenizer.pre_tokenizer.as_ref().map(cuts).unwrap_or_default();
    if let Some(name) = name.filter(|name| !pre::stands_for(name, &own_cuts)) {
        sink.warn(&format!(
            "the file says that texts are split as `{}` does it, but this tokenizer splits them otherwise: they may be tokenized \
             differently",
            escape(name, 60)
        ));
    }
    let own = steps(tokenizer.normalizer.as_ref());
    let implied = name.and_then(|name| pre::splitter(name).ok()).and_then(|splitter| splitter.normalizer);
    if own == steps(implied.as_ref()) {
        return;
    }
    for step in own {
        match kind(step) {
            COMPOSED => sink.note(&without(step)),
            _ => sink.warn(&without(step)),
        }
    }
    text.insert("normalizer".to_owned(), tokenizer.normalizer.clone().unwrap_or_default());
}

/// Restores the space before a text to `parts`.
pub fn take_back(json: &Json, parts: &mut Parts) {
    if json.get(SPACE).and_then(Json::as_bool) == Some(true) {
        parts.add_space_prefix = Some(true);
        parts.pre_tokenizer.iter_mut().for_each(put_space_first);
    }
}

/// The steps of a sequence, which are not nested here.
const INNER: &str = "pretokenizers";
/// The flag of `ByteLevel`, which is true where it is left out.
const PREFIX: &str = "add_prefix_space";

fn puts_space_first(step: &Json) -> bool {
    let inner = step.get(INNER).and_then(Json::as_array);
    let steps = inner.map(Vec::as_slice).unwrap_or(std::slice::from_ref(step));
    let bytes = steps.iter().find(|step| kind(step) == "ByteLevel");
    bytes.is_some_and(|step| step.get(PREFIX).and_then(Json::as_bool).unwrap_or(true))
}

fn put_space_first(step: &mut Json) {
    if kind(step) == "ByteLevel" {
        step[PREFIX] = true.into();
    } else if let Some(inner) = step.get_mut(INNER).and_then(Json::as_array_mut) {
        inner.iter_mut().filter(|step| kind(step) == "ByteLevel").for_each(|step| step[PREFIX] = true.into());
    }
}
