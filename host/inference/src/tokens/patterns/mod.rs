//! The regular expressions that a tokenizer splits by. They are Oniguruma's, and are rewritten to mean the same to the engine in
//! use. If one of them gives up, the library silently stops splitting.

mod class;
mod parser;
mod sets;
mod writer;

use apr_sdk::{Error, Result, escape};
use fancy_regex::Regex;
use serde_json::Value as Json;

/// The definitions that have expressions.
const DEFINITIONS: [&str; 3] = ["normalizer", "pre_tokenizer", "decoder"];

/// An expression as the model states it, ready to use.
struct Pattern {
    stated: String,
    regex: Regex,
}

/// The expressions in a tokenizer's definitions.
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// Those of the normalizer, the pre-tokenizer and the decoder in the library's form, where each is replaced by one that means
    /// the same to the engine in use.
    ///
    /// # Errors
    /// Unsupported for an expression that cannot be rewritten or compiled.
    pub fn rewrite(form: &mut Json) -> Result<Patterns> {
        let mut patterns = Vec::new();
        for key in DEFINITIONS {
            // Decoders are not asked whether they give up: they get texts of tokens.
            let mut kept = Vec::new();
            if let Some(definition) = form.get_mut(key) {
                rewrite(definition, &mut kept)?;
            }
            patterns.extend(kept.into_iter().filter(|_| key != "decoder"));
        }
        Ok(Patterns(patterns))
    }

    /// Fails for a text on which one of them gives up.
    ///
    /// # Errors
    /// LimitExceeded, with the expression.
    pub fn check(&self, text: &str) -> Result<()> {
        for pattern in &self.0 {
            if pattern.regex.find_iter(text).any(|found| found.is_err()) {
                let shown = escape(&pattern.stated, 100);
                let message = format!(
                    "the tokenizer's regular expression `{shown}` exceeded the backtracking limit on this \
                     text"
                );
                return Err(
                    Error::limit(message).hint("shorten the text, or avoid long runs of one character")
                );
            }
        }
        Ok(())
    }
}

/// Rewrites the expressions of a definition and of the steps in it, and adds them to `patterns`.
fn rewrite(definition: &mut Json, patterns: &mut Vec<Pattern>) -> Result<()> {
    let mut steps = vec![definition];
    while let Some(step) = steps.pop() {
        if let Some(Json::String(text)) = step.pointer_mut("/pattern/Regex") {
            let pattern = Pattern::of(std::mem::take(text))?;
            pattern.regex.as_str().clone_into(text);
            patterns.push(pattern);
        }
        let lists = step.as_object_mut().into_iter().flat_map(|step| step.values_mut());
        steps.extend(lists.filter_map(Json::as_array_mut).flatten());
    }
    Ok(())
}

impl Pattern {
    fn of(stated: String) -> Result<Pattern> {
        let written = parser::parse(&stated).and_then(|tree| writer::write(&tree)).map_err(|what| {
            let text = escape(&stated, 100);
            let what = escape(&what, 200);
            Error::unsupported(format!(
                "the tokenizer's regular expression `{text}` is not supported: it has {what}"
            ))
            .hint("rewrite it in the model's tokenizer.json")
        })?;
        let regex = Regex::new(&written).map_err(|error| {
            let text = escape(&stated, 100);
            let why = escape(&error.to_string(), 200);
            Error::unsupported(format!("the tokenizer's regular expression `{text}` does not compile: {why}"))
                .hint("rewrite it in the model's tokenizer.json")
        })?;
        Ok(Pattern { stated, regex })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cut_by(pattern: &str) -> Result<Patterns> {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"});
        Patterns::rewrite(&mut json!({"pre_tokenizer": split}))
    }

    #[test]
    fn a_pattern_that_gives_up_is_an_error_and_no_silent_end() {
        let patterns = cut_by("(?:a+)+(?!c)b").unwrap();
        patterns.check("aaaab").unwrap();
        let error = patterns.check(&"a".repeat(60)).unwrap_err();
        assert!(error.message().contains("exceeded the backtracking limit"), "{error:?}");
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
