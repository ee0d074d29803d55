//! The tokens around a text: llama.cpp adds at most one on either side, and one before it by the pre-tokenizer's name where no
//! key says otherwise.

use super::super::{ADD, PRE, pre};
use super::made;
use apr_sdk::tokenizer::{Spelling, Tokenizer};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::Value as Json;

/// Adds the key that keeps llama.cpp from adding a beginning that this tokenizer does not, and warns of tokens beyond one.
pub fn carry(tokenizer: &Tokenizer, keys: &mut Vec<(String, Value)>, sink: &mut dyn LayoutSink) {
    let single = single(tokenizer);
    let text = single.iter().position(|entry| entry.get("Sequence").is_some()).unwrap_or(single.len());
    let behind = single.get(text + 1..).unwrap_or_default();
    for (entries, side) in [(&single[..text], "before"), (behind, "behind")] {
        let tokens: Vec<&str> = entries.iter().filter_map(token).collect();
        if tokens.len() > 1 {
            let all: Vec<String> = tokens.iter().map(|text| format!("`{}`", escape(text, 40))).collect();
            let all = all.join(", ");
            sink.warn(&format!("llama.cpp adds at most one token {side} a text, this tokenizer {all}: the others are missing there"));
        }
    }
    let name = made(keys, PRE).and_then(Value::as_str).filter(|_| tokenizer.spelling == Spelling::Bytes);
    let usual = name.and_then(|name| pre::splitter(name).ok()).is_some_and(|splitter| splitter.bos);
    let begins = single.first().and_then(token).is_some();
    if usual && !begins && made(keys, ADD[0].1).is_none() {
        keys.push((ADD[0].1.to_owned(), Value::from_bool(false)));
    }
}

/// The template for one text.
fn single(tokenizer: &Tokenizer) -> &[Json] {
    let step = tokenizer.post_processor.as_ref();
    let inner = step.and_then(|step| step.get("processors")).and_then(Json::as_array);
    let steps = inner.map(Vec::as_slice).or(step.map(std::slice::from_ref)).unwrap_or_default();
    let template = steps.iter().find_map(|step| step.get("single").and_then(Json::as_array));
    template.map(Vec::as_slice).unwrap_or_default()
}

/// The text of a template's special token.
fn token(entry: &Json) -> Option<&str> {
    entry.pointer("/SpecialToken/id")?.as_str()
}
