//! The regular expressions that a tokenizer splits by: if one of them gives up, the library silently stops
//! splitting.

use apr_sdk::tokenizer::{Parts, steps};
use apr_sdk::{Error, Result, escape};
use fancy_regex::Regex;
use serde_json::Value as Json;

/// The expressions in a tokenizer's definitions.
pub struct Patterns(Vec<Regex>);

impl Patterns {
    /// Those of the normalizer and the pre-tokenizer that can give up: without look-around and
    /// back-references, none can.
    ///
    /// # Errors
    /// Unsupported for an expression that cannot be compiled.
    pub fn of(parts: &Parts) -> Result<Patterns> {
        let mut all = steps(parts.normalizer.as_ref());
        all.extend(steps(parts.pre_tokenizer.as_ref()));
        let text = |step: &&Json| step.pointer("/pattern/Regex")?.as_str().map(str::to_owned);
        let compile = |text: String| {
            Regex::new(&text).map_err(|error| {
                let (text, why) = (escape(&text, 100), escape(&error.to_string(), 200));
                Error::unsupported(format!("the expression `{text}` cannot be compiled: {why}"))
            })
        };
        all.iter().filter_map(text).map(compile).collect::<Result<_>>().map(Patterns)
    }

    /// Fails for a text on which one of them gives up.
    ///
    /// # Errors
    /// LimitExceeded, with the expression.
    pub fn check(&self, text: &str) -> Result<()> {
        for pattern in &self.0 {
            if pattern.find_iter(text).any(|found| found.is_err()) {
                let shown = escape(pattern.as_str(), 100);
                let message = format!(
                    "the tokenizer's expression `{shown}` gave up on the text: it backtracks too much"
                );
                return Err(Error::limit(message)
                    .hint("give a shorter text, or one without long runs of one character"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cut_by(pattern: &str) -> Result<Patterns> {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"});
        Patterns::of(&Parts { pre_tokenizer: Some(split), ..Parts::default() })
    }

    #[test]
    fn a_pattern_that_gives_up_is_an_error_and_no_silent_end() {
        let patterns = cut_by("(?:a+)+(?!c)b").unwrap();
        patterns.check("aaaab").unwrap();
        let error = patterns.check(&"a".repeat(60)).unwrap_err();
        assert!(error.message().contains("gave up"), "{error:?}");
        // Those in use do not, over a window of spaces.
        let usual =
            cut_by(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+");
        usual.unwrap().check(&(" ".repeat(256 << 10) + "end")).unwrap();
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        assert!(cut_by("(").is_err());
    }
}
