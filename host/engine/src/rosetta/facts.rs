//! Facts about a model besides tensors: architecture, hidden size, layers, vocabulary. They come from the
//! model's own configuration, or otherwise from metadata keys with the same spelling; each with its place.

use crate::open::OpenedModel;
use apr_sdk::{Result, Value};
use serde::Serialize;

/// A fact and where it was stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stated {
    /// The value, as text.
    pub value: String,
    /// The key that states it.
    pub key: String,
}

/// A fact that Jidoka compares: its name, stable code, and the last words of keys that state it.
pub struct Fact {
    /// The name in messages.
    pub name: &'static str,
    /// The code for a difference.
    pub code: &'static str,
    /// The last words of keys that state it, canonical first.
    words: &'static [&'static str],
    /// The last words of keys with a list that has one item each.
    lists: &'static [&'static str],
}

/// Every fact. The words are those of published configurations; with architecture tables they come from
/// there.
pub const FACTS: [Fact; 4] = [
    Fact {
        name: "vocabulary size",
        code: "ROSETTA-VOCAB-001",
        words: &["vocab_size", "n_vocab"],
        lists: &["tokens"],
    },
    Fact {
        name: "architecture",
        code: "ROSETTA-ARCH-001",
        words: &["model_type", "architecture"],
        lists: &[],
    },
    Fact {
        name: "hidden size",
        code: "ROSETTA-HIDDEN-001",
        words: &["hidden_size", "embedding_length", "n_embd", "d_model"],
        lists: &[],
    },
    Fact {
        name: "layer count",
        code: "ROSETTA-LAYER-001",
        words: &["num_hidden_layers", "block_count", "n_layer", "num_layers"],
        lists: &[],
    },
];

/// Prefixes of keys that describe what a model sees, hears or speaks with.
const OTHER_SIDES: [&str; 5] = ["vision_", "audio_", "talker_", "token2wav_", "code2wav_"];

/// Layers that predict further tokens, which `block_count` counts with the others in files that state this key.
const NEXT_TOKEN: &str = "nextn_predict_layers";

/// A key's count of layers, without those that predict further tokens.
fn without_next_token(key: &str, count: String, keys: &[(String, Value)]) -> String {
    let Some(start) = key.strip_suffix("block_count") else { return count };
    let more = keys.iter().find(|(other, _)| other.strip_prefix(start) == Some(NEXT_TOKEN));
    let more = more.and_then(|(_, value)| scalar(value)?.parse::<u64>().ok());
    let all = count.parse::<u64>().ok();
    match all.zip(more).and_then(|(all, more)| all.checked_sub(more)) {
        Some(left) => left.to_string(),
        None => count,
    }
}

impl Fact {
    /// Returns whether a configuration name states this fact.
    pub fn is_called(&self, name: &str) -> bool {
        self.words.contains(&last_word(name))
    }

    /// The model's statement, or `None`.
    ///
    /// # Errors
    /// Any error from reading a value in the file.
    pub fn of(&self, opened: &OpenedModel) -> Result<Option<Stated>> {
        if let Some(stated) = self.in_config(opened)? {
            return Ok(Some(stated));
        }
        // What a model of several sides states of text counts before what it states of the others.
        for of_other_side in [false, true] {
            for word in self.words.iter().chain(self.lists) {
                if let Some(stated) = self.under(opened, word, of_other_side)? {
                    return Ok(Some(stated));
                }
            }
        }
        Ok(None)
    }

    fn under(&self, opened: &OpenedModel, word: &str, of_other_side: bool) -> Result<Option<Stated>> {
        for foreign in &opened.model.foreign {
            for file in &foreign.files {
                for (key, value) in &file.typed {
                    let is_of_other_side = OTHER_SIDES.iter().any(|side| key.starts_with(side));
                    if last_word(key) != word || is_of_other_side != of_other_side {
                        continue;
                    }
                    let value = Value { kind: value.kind, bytes: opened.fetch(&value.bytes)? };
                    let text = if self.lists.contains(&word) { count(&value) } else { scalar(&value) };
                    if let Some(text) = text {
                        let value = without_next_token(key, text, &file.typed);
                        return Ok(Some(Stated { value, key: format!("{}: {key}", foreign.format) }));
                    }
                }
            }
        }
        Ok(None)
    }

    fn in_config(&self, opened: &OpenedModel) -> Result<Option<Stated>> {
        if let Some(architecture) = &opened.model.architecture {
            if self.words.contains(&"architecture") {
                return Ok(Some(Stated { value: architecture.id.clone(), key: "architecture".to_owned() }));
            }
            let config = json(opened, &architecture.config)?;
            for word in self.words {
                if let Some(number) = config.as_ref().and_then(|c| c.get(word)).and_then(|n| n.as_u64()) {
                    return Ok(Some(Stated { value: number.to_string(), key: format!("config: {word}") }));
                }
            }
        }
        if let (Some(tokenizer), false) = (&opened.model.tokenizer, self.lists.is_empty()) {
            let tokenizer = json(opened, tokenizer)?;
            // Padding counts if it is stated.
            for word in self.words {
                if let Some(n) = tokenizer.as_ref().and_then(|t| t.get(word)).and_then(|n| n.as_u64()) {
                    return Ok(Some(Stated { value: n.to_string(), key: format!("tokenizer: {word}") }));
                }
            }
            for list in self.lists {
                let tokens = tokenizer.as_ref().and_then(|t| t.get(list)).and_then(|t| t.as_array());
                if let Some(tokens) = tokens {
                    let key = format!("tokenizer: {list}");
                    return Ok(Some(Stated { value: tokens.len().to_string(), key }));
                }
            }
        }
        Ok(None)
    }
}

fn json(opened: &OpenedModel, bytes: &apr_sdk::Bytes) -> Result<Option<serde_json::Value>> {
    let held = opened.fetch(bytes)?;
    Ok(held.inline().and_then(|text| serde_json::from_slice(text).ok()))
}

fn last_word(key: &str) -> &str {
    key.rsplit(['.', '/', ':']).next().unwrap_or(key)
}

fn scalar(value: &Value) -> Option<String> {
    value.as_unsigned().map(|n| n.to_string()).or_else(|| value.as_str().map(str::to_owned))
}

fn count(value: &Value) -> Option<String> {
    value.array_head().map(|(_, count)| count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_their_last_word() {
        assert_eq!(last_word("llama.block_count"), "block_count");
        assert_eq!(last_word("hidden_size"), "hidden_size");
        assert_eq!(scalar(&Value::from_u32(8)).as_deref(), Some("8"));
        assert_eq!(scalar(&Value::from_string("llama")).as_deref(), Some("llama"));
        assert_eq!(scalar(&Value::from_f32(1.0)), None);
        assert_eq!(count(&Value::from_strings(&["a", "b"])).as_deref(), Some("2"));
    }
}
