//! Tokenizers of bytes: llama.cpp splits a text and merges its bytes, and changes nothing of it before.

use super::super::{PRE, pre};
use super::{kind, made, without};
use apr_sdk::tokenizer::{Tokenizer, steps};
use apr_sdk::{LayoutSink, Value};
use serde_json::{Map, Value as Json};

/// The form that llama.cpp's converter takes for nothing, as the models that llama.cpp has names for have it.
const COMPOSED: &str = "NFC";

/// Puts into `text` the normalizer, where the pre-tokenizer's name does not mean it, and warns of it.
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
