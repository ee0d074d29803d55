//! The makers' suggestions for choosing a model's tokens: the card's `sampling`, which formats read from their own keys
//! (`general.sampling.*` of GGUF) and files (`generation_config.json`).

use apr_inference::sampling::{Processors, Truncation};
use serde_json::Value as Json;
use std::collections::HashMap;

/// The model's suggestions; `None` for what it does not mention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suggested {
    /// Divides the logits.
    pub temperature: Option<f32>,
    /// Number of the largest logits that are kept.
    pub top_k: Option<u32>,
    /// The sum of the probabilities that are kept.
    pub top_p: Option<f32>,
    /// Least probability of a token, relative to the most probable one.
    pub min_p: Option<f32>,
    /// The penalty that makes recent tokens less likely.
    pub repeat_penalty: Option<f32>,
    /// Number of tokens that are recent.
    pub repeat_last: Option<usize>,
    /// Changes of logits.
    pub processors: Processors,
    /// Tokens of a text, its prompt included, at most.
    pub max_length: Option<u32>,
    /// Tokens of an answer at most, whatever `max_length` is.
    pub max_new_tokens: Option<u32>,
    /// Strings that end an answer.
    pub stops: Vec<String>,
    /// Tokens that end an answer; none if those of the tokenizer do.
    pub ends: Vec<u32>,
    /// Settings that change the answer and are not followed.
    pub not_followed: Vec<String>,
    /// The way of a text to its vector.
    pub embedding: Embedding,
}

/// The way of a text to its vector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedding {
    /// Text that is put before the one that is embedded.
    pub prompt: String,
    /// True if both are lower-cased.
    pub lower_case: bool,
    /// Number of tokens that are read, if not all are.
    pub max_length: Option<usize>,
    /// Number of elements of the vector that count, if not all do.
    pub dimensions: Option<usize>,
    /// Settings that change the vector and are not followed.
    pub not_followed: Vec<String>,
}

impl Suggested {
    /// The tokens that end an answer; `tokenizer` are those that the tokenizer names.
    pub fn ends(&self, tokenizer: &[u32]) -> Vec<u32> {
        if self.ends.is_empty() { tokenizer.to_vec() } else { self.ends.clone() }
    }

    /// Reads a model card. What is no number there is as if it were not mentioned.
    pub(super) fn of(card: Option<&[u8]>) -> Suggested {
        let card: Json = card.and_then(|card| serde_json::from_slice(card).ok()).unwrap_or_default();
        let sampling = Settings(card.get("sampling"));
        let generation = Settings(card.get("generation"));
        let penalty = generation.float("repetition_penalty");
        // Elsewhere than here, -1 stands for all.
        let last = sampling.count("penalty_last_n").and_then(|count| usize::try_from(count).ok());
        Suggested {
            temperature: sampling.float("temp").or_else(|| generation.float("temp")),
            top_k: sampling.small("top_k").or_else(|| generation.small("top_k")),
            top_p: sampling.float("top_p").or_else(|| generation.float("top_p")),
            min_p: sampling.float("min_p").or_else(|| generation.float("min_p")),
            repeat_penalty: penalty.or_else(|| sampling.float("penalty_repeat")),
            repeat_last: last.or_else(|| penalty.map(|_| usize::MAX)),
            processors: generation.processors(),
            max_length: generation.small("max_length"),
            max_new_tokens: generation.small("max_new_tokens"),
            stops: generation.texts("stop_strings"),
            ends: generation.ids("eos_token_id"),
            not_followed: generation.texts("not_followed"),
            embedding: Settings(card.get("embedding")).embedding(),
        }
    }
}

/// An object of a card, if there is one.
#[derive(Clone, Copy)]
struct Settings<'c>(Option<&'c Json>);

impl<'c> Settings<'c> {
    fn get(self, name: &str) -> Option<&'c Json> {
        self.0?.get(name)
    }

    fn list(self, name: &str) -> impl Iterator<Item = &'c Json> {
        self.get(name).and_then(Json::as_array).into_iter().flatten()
    }

    #[allow(clippy::cast_possible_truncation, reason = "settings are checked in single precision")]
    fn float(self, name: &str) -> Option<f32> {
        self.get(name)?.as_f64().map(|number| number as f32)
    }

    fn count(self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    fn small(self, name: &str) -> Option<u32> {
        u32::try_from(self.count(name)?).ok()
    }

    /// A number of tokens; one beyond all texts is as good as any other such.
    fn length(self, name: &str) -> Option<usize> {
        self.count(name).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn embedding(self) -> Embedding {
        Embedding {
            prompt: self.get("prompt").and_then(Json::as_str).unwrap_or_default().to_owned(),
            lower_case: self.get("lower_case").and_then(Json::as_bool) == Some(true),
            max_length: self.length("max_length"),
            dimensions: self.length("dimensions"),
            not_followed: self.texts("not_followed"),
        }
    }

    fn ids(self, name: &str) -> Vec<u32> {
        self.get(name).map(ids).unwrap_or_default()
    }

    fn texts(self, name: &str) -> Vec<String> {
        self.list(name).filter_map(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    fn truncation(self) -> Truncation {
        let part = |name: &str| self.get(name)?.as_f64().filter(|part| *part > 0.0 && *part <= 1.0);
        Truncation {
            top_h: part("top_h"),
            typical_p: part("typical_p"),
            epsilon_cutoff: part("epsilon_cutoff"),
            eta_cutoff: part("eta_cutoff"),
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "logits are in single precision")]
    fn processors(self) -> Processors {
        // Of one sequence, the last bias counts.
        let mut places: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut biases: Vec<(Vec<u32>, f32)> = Vec::new();
        for pair in self.list("sequence_bias") {
            let Some(bias) = pair.get(1).and_then(Json::as_f64) else { continue };
            let Some(sequence) = pair.get(0).map(ids).filter(|ids| !ids.is_empty()) else { continue };
            let place = *places.entry(sequence.clone()).or_insert(biases.len());
            match biases.get_mut(place) {
                Some((_, known)) => *known = bias as f32,
                None => biases.push((sequence, bias as f32)),
            }
        }
        let decay = self.get("exponential_decay_length_penalty");
        Processors {
            sequence_bias: biases,
            encoder_repetition_penalty: self
                .float("encoder_repetition_penalty")
                .filter(|factor| *factor > 0.0),
            no_repeat_ngram_size: self.length("no_repeat_ngram_size").unwrap_or(0),
            encoder_no_repeat_ngram_size: self.length("encoder_no_repeat_ngram_size").unwrap_or(0),
            bad_words: self.list("bad_words_ids").map(ids).filter(|word| !word.is_empty()).collect(),
            min_length: self.length("min_length").unwrap_or(0),
            min_new_tokens: self.length("min_new_tokens"),
            forced_first: self.small("forced_bos_token_id"),
            forced_last: self.ids("forced_eos_token_id"),
            decay: decay.and_then(|decay| Some((decay.get(0)?.as_i64()?, decay.get(1)?.as_f64()?))),
            suppressed: self.ids("suppress_tokens"),
            suppressed_first: self.ids("begin_suppress_tokens"),
            truncation: self.truncation(),
        }
    }
}

/// The ids of a list.
fn ids(list: &Json) -> Vec<u32> {
    let ids = list.as_array().into_iter().flatten();
    ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_card_mentions_is_suggested() {
        let card = br#"{"sampling": {"temp": 0.6, "top_k": 20, "top_p": "much", "penalty_last_n": -1}, "name": "x"}"#;
        let expected = Suggested { temperature: Some(0.6), top_k: Some(20), ..Suggested::default() };
        assert_eq!(Suggested::of(Some(card)), expected);
        assert_eq!(Suggested::of(Some(b"[1]")), Suggested::default());
        assert_eq!(Suggested::of(Some(b"{")), Suggested::default());
        assert_eq!(Suggested::of(None), Suggested::default());
    }
}
