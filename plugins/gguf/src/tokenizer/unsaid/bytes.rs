//! Byte-level tokenizers: llama.cpp splits a text and merges its bytes, without any normalization.

use super::super::{PRE, pre};
use super::{kind, made, without};
use apr_sdk::tokenizer::{Tokenizer, steps};
use apr_sdk::{LayoutSink, Value};
use serde_json::{Map, Value as Json};

/// The normalization form that llama.cpp's converter ignores, as do the models that llama.cpp has names for.
const COMPOSED: &str = "NFC";

/// Adds the normalizer to `text`, unless the pre-tokenizer's name implies it, with a warning.
pub fn carry(
    tokenizer: &Tokenizer,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let own = steps(tokenizer.normalizer.as_ref());
    let name = made(keys, PRE).and_then(Value::as_str);
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
