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

/// What making a pattern that looks around counts for: it takes long, and keeps some ten kilobytes.
const MAKING: u32 = 1 << 12;

/// A pattern.
pub struct Pattern {
    /// As it is written.
    pub text: String,
    /// What it is made of; `None` if it looks around, refers back, or cannot be read.
    hir: Option<Hir>,
    /// The longest text that must be in a name.
    needle: Option<String>,
    /// The pairs of bytes that must be in one: see [`pairs`].
    pairs: u128,
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

/// The name of a module.
#[derive(Clone, Copy)]
pub struct Module<'n> {
    name: &'n str,
    pairs: u128,
}

impl Module<'_> {
    /// A module of this name.
    pub fn new(name: &str) -> Module<'_> {
        Module { name, pairs: pairs(name) }
    }
}

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Pattern {
        let hir = regex_syntax::parse(text).ok();
        let mut all = Vec::new();
        if let Some(hir) = &hir {
            needles(hir, &mut all);
        }
        let pairs = all.iter().fold(0, |all, needle| all | pairs(needle));
        let needle = all.into_iter().max_by_key(|text| text.len()).map(str::to_owned);
        Pattern { text: text.to_owned(), hir, needle, pairs, regex: OnceCell::new() }
    }

    /// Whether a name matches; `None` if the pattern cannot be read, or if matching takes too long.
    pub fn matches(&self, Module { name, pairs }: Module<'_>, left: &Matches) -> Option<bool> {
        // A configuration may have a pattern for each module: nearly all end here.
        if self.pairs & !pairs != 0 {
            return Some(false);
        }
        let is_other = |hir: &Hir| begin(hir, name).is_none();
        if self.hir.as_ref().is_some_and(is_other)
            || self.needle.as_ref().is_some_and(|needle| !name.contains(needle))
        {
            return Some(false);
        }
        let is_made = self.hir.is_some() || self.regex.get().is_some();
        left.0.set(left.0.get().checked_sub(if is_made { 1 } else { MAKING })?);
        let anchored = || format!(r"\A(?:{})", self.text);
        let build = || RegexBuilder::new(&anchored()).backtrack_limit(MOST_STEPS).build().ok();
        self.regex.get_or_init(build).as_ref()?.is_match(name).ok()
    }
}

/// The pairs of bytes that follow one another in a text, each one of 128 bits: a text within has no others.
fn pairs(text: &str) -> u128 {
    let bit = |(one, next)| u16::from_le_bytes([one, next]).wrapping_mul(40_503) >> 9;
    text.bytes().zip(text.bytes().skip(1)).fold(0, |all, pair| all | 1 << bit(pair))
}

/// The texts that are in whatever matches.
fn needles<'h>(hir: &'h Hir, all: &mut Vec<&'h str>) {
    match hir.kind() {
        HirKind::Literal(text) => all.extend(std::str::from_utf8(&text.0)),
        HirKind::Capture(of) => needles(&of.sub, all),
        HirKind::Repetition(of) if of.min > 0 => needles(&of.sub, all),
        HirKind::Concat(parts) => parts.iter().for_each(|part| needles(part, all)),
        _ => {}
    }
}

/// What is left of a name after what a pattern begins with, as far as that is one text or character after another; `None` if the
/// name begins otherwise. What comes after it is not looked at.
fn begin<'n>(hir: &Hir, name: &'n str) -> Option<&'n str> {
    match hir.kind() {
        HirKind::Literal(text) if name.as_bytes().starts_with(&text.0) => name.get(text.0.len()..),
        HirKind::Literal(_) => None,
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
            assert_eq!(
                Pattern::new(pattern).matches(Module::new(name), &Matches::default()),
                want,
                "{pattern} on {name}"
            );
        }
    }

    #[test]
    fn a_pattern_without_end_is_given_up() {
        let name = "a".repeat(64);
        assert_eq!(Pattern::new(r"(?:(a*)*\1)*b").matches(Module::new(&name), &Matches::default()), None);
    }

    #[test]
    fn letters_decide_where_they_can_and_matching_ends() {
        let left = Matches::default();
        let is_left = || left.0.get();
        for pattern in [r".*down_proj", r"model\.layers\.1\.up", "model.layers.1.up"] {
            assert_eq!(
                Pattern::new(pattern).matches(Module::new("model.layers.2.up_proj"), &left),
                Some(false)
            );
        }
        assert_eq!(is_left(), MOST_MATCHES);
        let own = Pattern::new(".*[pq]roj");
        assert_eq!(own.matches(Module::new("up_proj"), &left), Some(true));
        assert_eq!(is_left(), MOST_MATCHES - 1);
        // One that looks around is made once.
        let around = Pattern::new("(?!z).*");
        for more in [MAKING, MAKING + 1] {
            assert_eq!(around.matches(Module::new("up_proj"), &left), Some(true));
            assert_eq!(is_left(), MOST_MATCHES - 1 - more);
        }
        left.0.set(0);
        assert_eq!(own.matches(Module::new("up_proj"), &left), None);
    }
}
