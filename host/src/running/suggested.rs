//! The makers' suggestions for choosing a model's tokens: the card's `sampling`, which formats read from their own keys
//! (`general.sampling.*` of GGUF) and files (`generation_config.json`).

use serde_json::Value as Json;

/// The model's suggestions; `None` for what it does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
}

impl Suggested {
    /// Reads a model card. What is no number there is as if it were not mentioned.
    pub(super) fn of(card: Option<&[u8]>) -> Suggested {
        let card: Json = card.and_then(|card| serde_json::from_slice(card).ok()).unwrap_or_default();
        let number = |name: &str| card.get("sampling")?.get(name)?.as_f64();
        #[allow(clippy::cast_possible_truncation, reason = "settings are checked in single precision")]
        let float = |name: &str| number(name).map(|number| number as f32);
        // Elsewhere than here, -1 stands for all.
        let count = |name: &str| card.get("sampling")?.get(name)?.as_u64();
        Suggested {
            temperature: float("temp"),
            top_k: count("top_k").and_then(|count| u32::try_from(count).ok()),
            top_p: float("top_p"),
            min_p: float("min_p"),
            repeat_penalty: float("penalty_repeat"),
            repeat_last: count("penalty_last_n").and_then(|count| usize::try_from(count).ok()),
        }
    }
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
