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
        write!(f, "its {} is {}, expected {}", self.place(), self.written, self.planned)
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
        let more = self.counts.iter().map(|(field, n)| (*field, n.saturating_sub(Differences::LISTED)));
        more.filter(|(_, n)| *n > 0)
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
        for name in names(one, other) {
            let [value, other_value] = [one, other].map(|values| values.get(name));
            if value != other_value {
                self.put(field, || {
                    (quoted(Some(name)), or_none(value.map(&show)), or_none(other_value.map(&show)))
                });
            }
        }
    }

    /// Compares chat templates by name; two long ones are shown from where they part.
    pub(super) fn templates(&mut self, one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
        for name in names(one, other) {
            let [template, other_template] = [one, other].map(|templates| templates.get(name));
            if template == other_template {
                continue;
            }
            let shared = match (template, other_template) {
                (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
                _ => 0,
            };
            let from = if shared > SHARED { shared } else { 0 };
            self.put("chat template", || {
                let place =
                    if from == 0 { String::new() } else { format!(" from character {} on", from + 1) };
                let [template, other_template] = [template, other_template].map(|text| {
                    let rest = text.map(|text| text.chars().skip(from).take(SHOWN + 1).collect::<String>());
                    quoted(rest.as_deref())
                });
                (quoted(Some(name)) + &place, template, other_template)
            });
        }
    }

    /// Compares two lists of merges, whose parts' texts `texts` gives. Those that one list has more are looked for
    /// where the lists part.
    pub(super) fn merges(&mut self, lists: [&[(u32, u32)]; 2], texts: [&dyn Fn(u32) -> String; 2]) {
        let [one, other] = lists;
        let first = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let [left, right] = [&one[first..], &other[first..]];
        let last = match left.len() == right.len() {
            true => 0,
            false => left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count(),
        };
        let [left, right] = [left, right].map(|merges| &merges[..merges.len() - last]);
        let [left_text, right_text] = texts;
        for at in 0..left.len().max(right.len()) {
            let [merge, other_merge] = [left, right].map(|merges| merges.get(at));
            if merge != other_merge {
                self.put("merge", || {
                    let place = (first + at).to_string();
                    (place, merge_in_words(merge, left_text), merge_in_words(other_merge, right_text))
                });
            }
        }
    }
}

fn merge_in_words(merge: Option<&(u32, u32)>, text: &dyn Fn(u32) -> String) -> String {
    or_none(merge.map(|&(a, b)| format!("`{}` + `{}` ({a}, {b})", text(a), text(b))))
}

/// A value for display, `none` where there is none.
pub fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// A text for display.
pub fn quoted(text: Option<&str>) -> String {
    or_none(text.map(|text| format!("`{}`", escape(text, SHOWN))))
}

/// The size of a map of normalization, for display.
pub fn map_size(map: &Option<Vec<u8>>) -> String {
    or_none(map.as_ref().map(|map| format!("{} bytes", map.len())))
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
