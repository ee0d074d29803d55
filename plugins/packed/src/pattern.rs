//! Patterns of modules in configurations: regular expressions of Python, matched from the beginning of a name on. They may look
//! around.

use fancy_regex::{Regex, RegexBuilder};

/// Steps of a pattern over a name: patterns that people write take some hundred.
const MOST_STEPS: usize = 10_000;

/// A pattern.
pub struct Pattern {
    /// As it is written.
    pub text: String,
    regex: Option<Regex>,
}

impl Pattern {
    /// Reads a pattern; one that cannot be read matches nothing known.
    pub fn new(text: &str) -> Pattern {
        let anchored = format!(r"\A(?:{text})");
        let regex = RegexBuilder::new(&anchored).backtrack_limit(MOST_STEPS).build().ok();
        Pattern { text: text.to_owned(), regex }
    }

    /// Whether a name matches; `None` if the pattern cannot be read, or takes too many steps.
    pub fn matches(&self, name: &str) -> Option<bool> {
        self.regex.as_ref()?.is_match(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_matched_from_the_beginning_and_may_look_around() {
        let cases = [
            ("up", "up_proj", Some(true)),
            ("up", "a.up_proj", Some(false)),
            ("a|up", "b.up", Some(false)),
            (r".*\.\d+\.mlp", "model.layers.11.mlp.up", Some(true)),
            ("(?!.*lm_head).*", "model.up", Some(true)),
            ("(?!.*lm_head).*", "lm_head", Some(false)),
            (".*(?<!gate)_proj$", "a.gate_proj", Some(false)),
            ("(?i)LM_head", "lm_head", Some(true)),
            ("(", "up", None),
            (".*(?P=none)", "up", None),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), want, "{pattern} on {name}");
        }
    }

    #[test]
    fn a_pattern_without_end_is_given_up() {
        let name = "a".repeat(64);
        assert_eq!(Pattern::new(r"(?:(a*)*\1)*b").matches(&name), None);
    }
}
