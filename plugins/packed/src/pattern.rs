//! Patterns of modules in configurations: regular expressions of Python, matched from the beginning of a name on. They may look
//! around.

use fancy_regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};
use std::cell::{Cell, OnceCell};

/// Steps of a pattern over a name: patterns that people write take some hundred.
const MOST_STEPS: usize = 10_000;

/// How often patterns are matched to names in one configuration, where a look at their letters did not decide. A pattern for
/// each expert of a large model takes a thousandth.
const MOST_MATCHES: u32 = 1 << 24;

/// A pattern.
pub struct Pattern {
    /// As it is written.
    pub text: String,
    /// What it is made of; `None` if that takes fancier words.
    hir: Option<Hir>,
    /// The longest text that must be in a name.
    needle: Option<String>,
    /// Made once a name needs it; `None` if the pattern cannot be read.
    regex: OnceCell<Option<Regex>>,
}

/// How often the patterns of one configuration may still be matched.
pub struct Matches(Cell<u32>);

impl Default for Matches {
    fn default() -> Matches {
        Matches(Cell::new(MOST_MATCHES))
    }
}

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Pattern {
        let hir = regex_syntax::parse(text).ok();
        let needle = hir.as_ref().and_then(needle).map(str::to_owned);
        Pattern { text: text.to_owned(), hir, needle, regex: OnceCell::new() }
    }

    /// Whether a name matches; `None` if the pattern cannot be read, or if matching takes too long.
    pub fn matches(&self, name: &str, left: &Matches) -> Option<bool> {
        let is_other = |hir: &Hir| begin(hir, name).is_none();
        if self.hir.as_ref().is_some_and(is_other)
            || self.needle.as_ref().is_some_and(|needle| !name.contains(needle))
        {
            return Some(false);
        }
        left.0.set(left.0.get().checked_sub(1)?);
        let anchored = || format!(r"\A(?:{})", self.text);
        let build = || RegexBuilder::new(&anchored()).backtrack_limit(MOST_STEPS).build().ok();
        self.regex.get_or_init(build).as_ref()?.is_match(name).ok()
    }
}

/// The longest text that is in whatever matches.
fn needle(hir: &Hir) -> Option<&str> {
    match hir.kind() {
        HirKind::Literal(text) => std::str::from_utf8(&text.0).ok(),
        HirKind::Capture(of) => needle(&of.sub),
        HirKind::Repetition(of) if of.min > 0 => needle(&of.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(needle).max_by_key(|text| text.len()),
        _ => None,
    }
}

/// What is left of a name after what a pattern begins with, as far as that is one text or character after another; `None` if the
/// name begins otherwise. What comes after it is not looked at.
fn begin<'n>(hir: &Hir, name: &'n str) -> Option<&'n str> {
    match hir.kind() {
        HirKind::Literal(text) => name.strip_prefix(std::str::from_utf8(&text.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            let first = name.chars().next()?;
            let is_one = class.iter().any(|range| (range.start()..=range.end()).contains(&first));
            is_one.then(|| &name[first.len_utf8()..])
        }
        HirKind::Concat(parts) => {
            let is_plain = |part: &&Hir| matches!(part.kind(), HirKind::Literal(_) | HirKind::Class(_));
            parts.iter().take_while(is_plain).try_fold(name, |rest, part| begin(part, rest))
        }
        _ => Some(name),
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
            ("model.layers.1.up", "model.layers.1.up_proj", Some(true)),
            ("model.layers.1.up", "model.layers.2.up_proj", Some(false)),
            ("model.layers.[0-3]+.up", "model.layers.12.up_proj", Some(true)),
            (".*(q|k)_proj", "model.k_proj", Some(true)),
            (".*(q|k)_proj", "model.v_proj", Some(false)),
            ("(?:a.)?b", "b", Some(true)),
            ("^up", "up", Some(true)),
            ("a*up$", "up", Some(true)),
            ("", "up", Some(true)),
            ("model.é", "model.ü", Some(false)),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(Pattern::new(pattern).matches(name, &Matches::default()), want, "{pattern} on {name}");
        }
    }

    #[test]
    fn a_pattern_without_end_is_given_up() {
        let name = "a".repeat(64);
        assert_eq!(Pattern::new(r"(?:(a*)*\1)*b").matches(&name, &Matches::default()), None);
    }

    #[test]
    fn letters_decide_where_they_can_and_matching_ends() {
        let left = Matches::default();
        let is_left = || left.0.get();
        for pattern in [r".*down_proj", r"model\.layers\.1\.up", "model.layers.1.up"] {
            assert_eq!(Pattern::new(pattern).matches("model.layers.2.up_proj", &left), Some(false));
        }
        assert_eq!(is_left(), MOST_MATCHES);
        let own = Pattern::new(".*[pq]roj");
        assert_eq!(own.matches("up_proj", &left), Some(true));
        assert_eq!(is_left(), MOST_MATCHES - 1);
        left.0.set(0);
        assert_eq!(own.matches("up_proj", &left), None);
    }
}
