//! The differences between two tokenizers: what is listed, and how much more there is.

use super::TokenType;
use crate::escape;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

/// One difference: where it is, and the value on either side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The field that differs: `text`, `type`, `score`, `merge`, `special id`, ...
    pub field: &'static str,
    /// The item of that field: `of token 5 ...`, a merge's index, a name; may be empty.
    pub of: String,
    /// The planned value, or the first tokenizer's, for display.
    pub planned: String,
    /// The value found in the output, or the second tokenizer's, for display.
    pub written: String,
}

impl Difference {
    /// The field and its item.
    pub fn place(&self) -> String {
        let space = if self.of.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.field, self.of)
    }
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its {} is {}, {} was planned", self.place(), self.written, self.planned)
    }
}

/// All differences between two tokenizers. Of each field the first [`Differences::LISTED`] are kept: where one token
/// more shifts all others, there is one difference per token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    listed: Vec<Difference>,
    counts: BTreeMap<&'static str, usize>,
}

/// Characters of a text shown in a message.
pub const SHOWN: usize = 60;
/// Characters that two texts share at their start which are still shown.
const SHARED: usize = 20;

/// The item, and the value on either side, for display.
pub type Sides = (String, String, String);

impl Differences {
    /// Differences listed per field.
    pub const LISTED: usize = 10;

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The differences, at most [`Differences::LISTED`] per field.
    pub fn listed(&self) -> &[Difference] {
        &self.listed
    }

    /// Fields with more differences than are listed, and how many more.
    pub fn unlisted(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let more = |(field, n): (&&'static str, &usize)| (*field, n.saturating_sub(Differences::LISTED));
        self.counts.iter().map(more).filter(|(_, n)| *n > 0)
    }

    /// Returns whether the field has a difference.
    pub(super) fn has(&self, field: &str) -> bool {
        self.counts.contains_key(field)
    }

    /// Counts a difference; `sides` is asked only if it is listed.
    pub(super) fn put(&mut self, field: &'static str, sides: impl FnOnce() -> Sides) {
        let count = self.counts.entry(field).or_insert(0);
        *count += 1;
        if *count <= Differences::LISTED {
            let (of, planned, written) = sides();
            self.listed.push(Difference { field, of, planned, written });
        }
    }

    /// Counts a difference if the two values are not the same.
    pub(super) fn unless_same<T: PartialEq + Debug>(
        &mut self,
        field: &'static str,
        of: &str,
        one: &T,
        other: &T,
    ) {
        if one != other {
            self.put(field, || (of.to_owned(), format!("{one:?}"), format!("{other:?}")));
        }
    }

    /// Compares values by name.
    pub(super) fn named<T: PartialEq>(
        &mut self,
        field: &'static str,
        one: &BTreeMap<String, T>,
        other: &BTreeMap<String, T>,
        show: impl Fn(&T) -> String,
    ) {
        let shown = |value: Option<&T>| value.map_or_else(|| "none".to_owned(), &show);
        for name in names(one, other) {
            let (a, b) = (one.get(name), other.get(name));
            if a != b {
                self.put(field, || (format!("`{}`", escape(name, SHOWN)), shown(a), shown(b)));
            }
        }
    }

    /// Compares chat templates by name; two long ones are shown from where they part.
    pub(super) fn templates(&mut self, one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
        for name in names(one, other) {
            let (a, b) = (one.get(name), other.get(name));
            if a == b {
                continue;
            }
            let shared = match (a, b) {
                (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
                _ => 0,
            };
            let from = if shared > SHARED { shared } else { 0 };
            let shown = |text: Option<&String>| match text {
                None => "none".to_owned(),
                Some(text) => {
                    let rest: String = text.chars().skip(from).take(SHOWN + 1).collect();
                    format!("`{}`", escape(&rest, SHOWN))
                }
            };
            self.put("chat template", || {
                let place =
                    if from == 0 { String::new() } else { format!(" from character {} on", from + 1) };
                (format!("`{}`{place}", escape(name, SHOWN)), shown(a), shown(b))
            });
        }
    }

    /// Compares two lists of merges, whose parts' texts `texts` gives. Those that one list has more are looked for
    /// where the lists part.
    pub(super) fn merges(&mut self, lists: [&[(u32, u32)]; 2], texts: [&dyn Fn(u32) -> String; 2]) {
        let [one, other] = lists;
        let first = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let (left, right) = (&one[first..], &other[first..]);
        let last = match left.len() == right.len() {
            true => 0,
            false => left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count(),
        };
        let (left, right) = (&left[..left.len() - last], &right[..right.len() - last]);
        let shown = |side: usize, merge: Option<&(u32, u32)>| match merge {
            Some(&(a, b)) => format!("`{}` + `{}` ({a}, {b})", texts[side](a), texts[side](b)),
            None => "none".to_owned(),
        };
        for at in 0..left.len().max(right.len()) {
            let (a, b) = (left.get(at), right.get(at));
            if a != b {
                self.put("merge", || ((first + at).to_string(), shown(0, a), shown(1, b)));
            }
        }
    }
}

/// The names of both, each once, in order.
fn names<'n, T>(one: &'n BTreeMap<String, T>, other: &'n BTreeMap<String, T>) -> Vec<&'n String> {
    let new = other.keys().filter(|name| !one.contains_key(*name));
    let mut all: Vec<&String> = one.keys().chain(new).collect();
    all.sort();
    all
}

/// The word for a type of tokens.
pub fn word(kind: TokenType) -> &'static str {
    match kind {
        TokenType::None => "none",
        TokenType::Normal => "normal",
        TokenType::Unknown => "unknown",
        TokenType::Control => "control",
        TokenType::UserDefined => "user-defined",
        TokenType::Unused => "unused",
        TokenType::Byte => "byte",
    }
}
