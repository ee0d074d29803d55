//! The tokens of what a model is asked.

use apr_inference::template::Conversation;
use apr_inference::tokens::Encoding;
use apr_sandbox::Tokens;
use apr_sdk::Result;
use serde_json::{Value as Json, json};

/// A message of a conversation.
pub fn message(role: &str, content: &str) -> Json {
    json!({"role": role, "content": content})
}

/// Returns whether the model has a chat template.
pub fn has_template(tokens: &Tokens) -> bool {
    tokens.facts().n_templates > 0
}

/// The tokens of a text that the model continues, with those that its tokenizer puts around every text. A tokenizer that
/// ends every text would leave nothing to continue, so that token is left out.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn of_text(tokens: &Tokens, text: &str) -> Result<Vec<u32>> {
    continued(tokens, of_whole_text(tokens, text)?)
}

/// The same of a text whose special tokens, if it spells out some, are ordinary text where it is `plain`.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn of_plain_text(tokens: &Tokens, text: &str, plain: bool) -> Result<Vec<u32>> {
    continued(tokens, tokens.encode(text, Encoding { add_special: true, plain })?)
}

/// The tokens of a text without those that end it.
fn continued(tokens: &Tokens, mut ids: Vec<u32>) -> Result<Vec<u32>> {
    while ids.last().is_some_and(|last| tokens.facts().behind.contains(last)) {
        ids.pop();
    }
    Ok(ids)
}

/// The tokens of a text that nothing follows, with those that its tokenizer puts around every text: encoders and models of
/// embeddings were trained with the token that ends one.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn of_whole_text(tokens: &Tokens, text: &str) -> Result<Vec<u32>> {
    tokens.encode(text, Encoding { add_special: true, plain: false })
}

/// The tokens of a conversation up to where the model's next answer begins. The template says its special tokens itself.
///
/// # Errors
/// As [`Tokens::render`] and [`Tokens::encode`].
pub fn of_chat(tokens: &Tokens, template: Option<&str>, messages: &[Json]) -> Result<Vec<u32>> {
    let conversation = Conversation {
        messages: messages.to_vec(),
        add_generation_prompt: true,
        now: now(),
        ..Conversation::default()
    };
    let text = tokens.render(template, &conversation)?;
    tokens.encode(&text, Encoding { add_special: false, plain: false })
}

/// The time for templates that name today's date: that of `SOURCE_DATE_EPOCH`, else the clock's.
fn now() -> Option<i64> {
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    stated.or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    })
}

/// Tokens that follow no pattern: time does not depend on them, but for experts.
pub fn ids_without_pattern(count: u32, vocabulary: u32) -> Vec<u32> {
    let mut state = 0x2545_f491u32;
    let mut ids = Vec::new();
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        ids.push(state % vocabulary.max(1));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_in_the_vocabulary() {
        assert!(ids_without_pattern(1000, 7).iter().all(|id| *id < 7));
    }
}
