//! An outline of the tokenizer: tokens are counted, not built.

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value as Json};
use std::fmt;

/// The essentials of a tokenizer.
#[derive(Clone, Debug, Serialize)]
pub struct Tokenizer {
    /// The algorithm: `bpe`, `unigram` or `wordpiece`.
    pub kind: String,
    /// Number of tokens.
    pub tokens: u64,
    /// The name of the pre-tokenizer, if it has one.
    pub pre: Option<String>,
    /// The ids of special tokens: `bos`, `eos`, ...
    pub special: Map<String, Json>,
}

#[derive(Deserialize)]
struct Outline {
    kind: String,
    tokens: Count,
    #[serde(default)]
    pre: Option<String>,
    #[serde(default)]
    special: Map<String, Json>,
    #[serde(default)]
    chat_templates: Map<String, Json>,
}

/// The number of items in a list.
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Count, D::Error> {
        deserializer.deserialize_seq(Counter)
    }
}

struct Counter;

impl<'de> Visitor<'de> for Counter {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Count, A::Error> {
        let mut count = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Count(count))
    }
}

/// Outlines a tokenizer's JSON ([`apr_sdk::tokenizer`]), and its chat templates; `None` for anything else.
pub(super) fn outline(json: &[u8]) -> Option<(Tokenizer, Map<String, Json>)> {
    let outline = serde_json::from_slice(json).ok()?;
    let Outline { kind, tokens, pre, special, chat_templates } = outline;
    Some((Tokenizer { kind, tokens: tokens.0, pre, special }, chat_templates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_and_the_rest_is_told() {
        let json =
            br#"{"schema":1,"kind":"bpe","tokens":["a",null,"c"],"types":[1,0,1],"special":{"eos":2,"bos":0},
            "pre":"llama-bpe","chat_templates":{"default":"{{ x }}"}}"#;
        let (tokenizer, templates) = outline(json).unwrap();
        assert_eq!((tokenizer.kind.as_str(), tokenizer.tokens), ("bpe", 3));
        assert_eq!(tokenizer.special.keys().collect::<Vec<_>>(), ["eos", "bos"]);
        assert_eq!(templates["default"], "{{ x }}");
        assert!(outline(b"{}").is_none() && outline(b"[1").is_none());
    }
}
