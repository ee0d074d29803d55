//! Sets of characters as Oniguruma has them, and its folding of cases.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use std::sync::LazyLock;

/// The place where a set is named: letters and numbers are others in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// By itself.
    Alone,
    /// Between brackets.
    InBrackets,
}

/// A set by what the engine that follows calls it; `None` if it has none.
fn known(expression: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(expression).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set),
        HirKind::Literal(text) => {
            let c = std::str::from_utf8(&text.0).ok()?.chars().next()?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(c, c)]))
        }
        _ => None,
    }
}

fn union(expression: &str) -> ClassUnicode {
    known(expression).unwrap_or_else(ClassUnicode::empty)
}

/// The characters that are not in a set.
pub fn negated(mut set: ClassUnicode) -> ClassUnicode {
    set.negate();
    set
}

/// What is in both, or in `two` where there is no other.
pub fn both(one: Option<ClassUnicode>, mut two: ClassUnicode) -> ClassUnicode {
    if let Some(one) = one {
        two.intersect(&one);
    }
    two
}

/// Every character.
pub fn all() -> ClassUnicode {
    negated(ClassUnicode::empty())
}

/// Every character but the line feed.
pub fn no_line_end() -> ClassUnicode {
    negated(union(r"[\n]"))
}

/// The characters that end a line.
pub fn line_ends() -> ClassUnicode {
    union(r"[\n-\r\x{85}\x{2028}\x{2029}]")
}

/// Digits of all scripts.
pub fn digits() -> ClassUnicode {
    union(r"\p{Nd}")
}

/// White space.
pub fn spaces() -> ClassUnicode {
    union(r"\p{White_Space}")
}

/// Digits to the base of 16.
pub fn hex_digits() -> ClassUnicode {
    union("[0-9A-Fa-f]")
}

/// The characters of words, between brackets: without the joiners of the other engine.
pub fn word() -> ClassUnicode {
    union(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]")
}

/// The characters of words, elsewhere: a table of the first 256 characters has some numbers more.
pub fn word_alone() -> ClassUnicode {
    let mut set = word();
    set.union(&union(r"[\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}]"));
    set
}

/// A set of POSIX, as `[:name:]`.
pub fn of_brackets(name: &str) -> Option<ClassUnicode> {
    if name == "punct" {
        return known(r"[\p{P}\p{S}]");
    }
    let is_one = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "space", "upper",
        "word", "xdigit",
    ];
    if is_one.contains(&name) { of_name(name, Named::InBrackets) } else { None }
}

/// A set of Unicode or POSIX, as `\p{name}`.
pub fn of_name(name: &str, place: Named) -> Option<ClassUnicode> {
    const GRAPH: &str = r"[^\p{White_Space}\p{Cc}\p{Cn}]";
    let plain: String = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect();
    if plain.is_empty() || !plain.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    match &*plain.to_ascii_lowercase() {
        "alnum" => known(r"[\p{Alphabetic}\p{Nd}]"),
        "alpha" => known(r"\p{Alphabetic}"),
        "ascii" => known(r"[\x00-\x7f]"),
        "blank" => known(r"[\p{Zs}\t]"),
        "cntrl" => known(r"\p{Cc}"),
        "digit" => Some(digits()),
        "graph" => known(GRAPH),
        "lower" => known(r"\p{Lowercase}"),
        "print" => {
            let mut set = known(GRAPH)?;
            set.union(&known(r"\p{Zs}")?);
            Some(set)
        }
        "punct" => known(r"\p{P}"),
        "space" => Some(spaces()),
        "upper" => known(r"\p{Uppercase}"),
        "word" if place == Named::Alone => Some(word_alone()),
        "word" => Some(word()),
        "xdigit" => Some(hex_digits()),
        "any" => Some(all()),
        plain => known(&format!(r"\p{{{plain}}}")),
    }
}

/// The characters that are several in another case, and which.
static SEVERAL: LazyLock<Vec<(char, Vec<char>)>> = LazyLock::new(|| {
    let several = |c: char| {
        let upper: Vec<char> = c.to_uppercase().collect();
        let lower: Vec<char> = c.to_lowercase().collect();
        match (upper.len(), lower.len()) {
            (1, 1) => None,
            (1, _) => Some(lower),
            _ => Some(upper.into_iter().flat_map(char::to_lowercase).collect()),
        }
    };
    // Beyond, no character is.
    let all = (0..0x2_0000).filter_map(char::from_u32);
    let mut found: Vec<(char, Vec<char>)> = all.filter_map(|c| Some((c, several(c)?))).collect();
    // A capital that is its own upper case, and is several as its small letter is.
    found.push(('\u{1e9e}', vec!['s', 's']));
    found
});

/// A character of a set that is several in another case.
pub fn of_several(set: &ClassUnicode) -> Option<char> {
    let mut singles = SEVERAL.iter().map(|(c, _)| *c);
    singles.find(|c| set.iter().any(|range| range.start() <= *c && *c <= range.end()))
}

/// A character, or characters side by side, of which one case has more characters than another.
pub fn several_in(chars: &[char]) -> Option<String> {
    if let Some(single) = chars.iter().find(|c| SEVERAL.iter().any(|(single, _)| single == *c)) {
        return Some(single.to_string());
    }
    let mut runs = SEVERAL.iter().map(|(_, run)| run);
    let run = runs.find(|run| chars.windows(run.len()).any(|window| is_a_case_of(window, run)))?;
    Some(run.iter().collect())
}

/// Returns whether characters are another's, but for their case.
fn is_a_case_of(chars: &[char], run: &[char]) -> bool {
    let mut pairs = chars.iter().zip(run);
    pairs.all(|(a, b)| folded(*b).iter().any(|range| range.start() <= *a && *a <= range.end()))
}

/// A character in all its cases.
pub fn folded(c: char) -> ClassUnicode {
    let mut set = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    set.case_fold_simple();
    set
}
