//! Patterns for tensor names, as users type them: `blk.*.ffn_{up,down}.weight`.
//!
//! `*` matches any text, including dots and slashes; `?` one character; `[abc]`, `[0-9]` and `[!a]` one
//! character in or not in a set; `{a,b}` one of several texts; `\` takes the next character literally. A
//! pattern that equals a tensor's whole name means that tensor, whatever characters it contains.

use apr_sdk::{Error, Result, escape};
use regex_lite::Regex;
use std::iter::Peekable;
use std::str::Chars;

/// Number of similar names that a message lists.
const NEAREST: usize = 3;
/// Number of characters of a name that are compared for similarity: names in files may have any length.
const COMPARED: usize = 200;

/// A tensor that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match<'n> {
    /// Its index among the names.
    pub number: usize,
    /// The text that each `*` of the pattern matches in the name, except inside braces. Each takes as little
    /// as possible.
    pub stars: Vec<&'n str>,
}

/// The names that the pattern matches, in order; `flag` is where the user gave it.
///
/// # Errors
/// InvalidArgument for an invalid pattern, and for one that matches nothing, with similar names.
pub fn matches<'n>(flag: &str, pattern: &str, names: &[&'n str]) -> Result<Vec<Match<'n>>> {
    let whole = names.iter().enumerate().filter(|(_, name)| **name == pattern);
    let whole: Vec<_> =
        whole.map(|(number, _)| Match { number, stars: vec!["*"; n_stars(pattern)] }).collect();
    if !whole.is_empty() {
        return Ok(whole);
    }
    let regex = compile(pattern).map_err(|what| {
        let message = format!("{flag} '{}' is not a valid pattern: {what}", escape(pattern, 200));
        Error::invalid_argument(message).hint("escape special characters with a backslash")
    })?;
    // Most names start differently and are ruled out at once.
    let start = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    let matches =
        names.iter().enumerate().filter(|(_, name)| name.starts_with(start)).filter_map(|(number, name)| {
            let captures = regex.captures(name)?;
            let stars = captures.iter().skip(1).map(|star| star.map_or("", |star| star.as_str())).collect();
            Some(Match { number, stars })
        });
    let matches: Vec<Match<'_>> = matches.collect();
    if matches.is_empty() { Err(unmatched(flag, pattern, names)) } else { Ok(matches) }
}

/// Number of `*` of a pattern that can be used in a replacement.
pub fn n_stars(pattern: &str) -> usize {
    compile(pattern).map_or(0, |regex| regex.captures_len() - 1)
}

/// Compiles a pattern to a regular expression for a whole name.
fn compile(pattern: &str) -> std::result::Result<Regex, String> {
    let mut regex = String::from(r"(?s)\A");
    let mut letters = pattern.chars().peekable();
    let mut is_inside = false;
    while let Some(letter) = letters.next() {
        match letter {
            '*' if is_inside => regex.push_str(".*?"),
            '*' => regex.push_str("(.*?)"),
            '?' => regex.push('.'),
            '[' => regex.push_str(&set(&mut letters)?),
            '{' if is_inside => return Err("nested braces are not supported".to_owned()),
            '{' => {
                check_alternatives(letters.clone())?;
                is_inside = true;
                regex.push_str("(?:");
            }
            ',' if is_inside => regex.push('|'),
            '}' if is_inside => {
                is_inside = false;
                regex.push(')');
            }
            '\\' => {
                let letter = letters.next().ok_or("it ends with a backslash")?;
                regex.push_str(&regex_lite::escape(letter.encode_utf8(&mut [0; 4])));
            }
            letter => regex.push_str(&regex_lite::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push_str(r"\z");
    Regex::new(&regex).map_err(|_| "it is too long".to_owned())
}

/// Fails for braces that are not closed, or do not hold several texts.
fn check_alternatives(mut inside: Peekable<Chars<'_>>) -> std::result::Result<(), String> {
    let mut has_comma = false;
    loop {
        match inside.next() {
            None => return Err("it has an unclosed `{`".to_owned()),
            Some('\\') => drop(inside.next()),
            Some(',') => has_comma = true,
            Some('}') if has_comma => return Ok(()),
            Some('}') => return Err("braces require alternatives, as in {up,down}".to_owned()),
            Some(_) => {}
        }
    }
}

/// Parses the rest of a set of characters into a regular expression.
fn set(letters: &mut Peekable<Chars<'_>>) -> std::result::Result<String, String> {
    const OPEN: &str = "it has an unclosed `[`";
    let mut regex = String::from("[");
    if letters.next_if(|letter| ['!', '^'].contains(letter)).is_some() {
        regex.push('^');
    }
    let mut is_first = true;
    loop {
        let from = match letters.next().ok_or(OPEN)? {
            ']' if !is_first => break,
            '\\' => letters.next().ok_or(OPEN)?,
            letter => letter,
        };
        is_first = false;
        // A hyphen at the end is a literal.
        let mut ahead = letters.clone();
        let is_range = ahead.next() == Some('-') && ahead.peek().is_some_and(|letter| *letter != ']');
        let mut to = from;
        if is_range {
            letters.next();
            to = match letters.next().ok_or(OPEN)? {
                '\\' => letters.next().ok_or(OPEN)?,
                letter => letter,
            };
        }
        if to < from {
            return Err(format!("the range `{from}-{to}` is empty"));
        }
        regex.push_str(&format!(r"\x{{{:x}}}-\x{{{:x}}}", u32::from(from), u32::from(to)));
    }
    regex.push(']');
    Ok(regex)
}

/// The error for a pattern that matches nothing.
fn unmatched(flag: &str, pattern: &str, names: &[&str]) -> Error {
    let error = Error::invalid_argument(format!("{flag} '{}' matches no tensor", escape(pattern, 200)));
    let wanted = start(pattern);
    let mut near: Vec<(usize, &str)> =
        names.iter().map(|name| (strsim::levenshtein(&wanted, &start(name)), *name)).collect();
    near.sort_by_key(|(distance, _)| *distance);
    let near: Vec<String> = near.iter().take(NEAREST).map(|(_, name)| escape(name, 120)).collect();
    match &near[..] {
        [] => error.hint("remove it: the model has no tensors"),
        near => error.hint(format!("correct it; the most similar names are {}", near.join(", "))),
    }
}

/// The letters of a text that are compared.
fn start(text: &str) -> String {
    text.chars().take(COMPARED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'n>(pattern: &str, names: &[&'n str]) -> Vec<&'n str> {
        let found = matches("--include", pattern, names).unwrap();
        found.into_iter().map(|found| names[found.number]).collect()
    }

    #[test]
    fn patterns_match_whole_names() {
        let names = ["blk.0.ffn_up.weight", "blk.10.ffn_down.weight", "enc/a.w", "x\ny", "up"];
        for (pattern, wanted) in [
            ("blk.*.ffn_{up,down}.weight", &names[..2]),
            ("blk.?.*", &names[..1]),
            ("blk.[1-9]*", &names[1..2]),
            ("[!b]*", &names[2..]),
            ("[^beu]*", &names[3..4]),
            ("enc*", &names[2..3]),
            ("x*y", &names[3..4]),
            ("*up", &names[4..]),
            ("{up,blk.0.*}", &[names[0], names[4]]),
            ("*", &names[..]),
            ("**", &names[..]),
        ] {
            assert_eq!(found(pattern, &names), wanted, "{pattern}");
        }
    }

    #[test]
    fn a_whole_name_means_itself_and_a_backslash_takes_what_follows() {
        let names = ["a[0].w", "a0.w", "b{x}", "b*", "bc", "c[", r"d\e", "a]b", "e-"];
        assert_eq!(found("a[0].w", &names), ["a[0].w"]);
        assert_eq!(found("a[0]*", &names), ["a0.w"]);
        assert_eq!(found(r"a\[0\]*", &names), ["a[0].w"]);
        assert_eq!(found("b{x}", &names), ["b{x}"]);
        assert_eq!(found("b*", &names), ["b*"]);
        assert_eq!(found("c[", &names), ["c["]);
        assert_eq!(found(r"d\e", &names), [r"d\e"]);
        assert_eq!(found("a[]]b", &names), ["a]b"]);
        assert_eq!(found("?[!-]", &names), ["b*", "bc", "c["]);
        assert_eq!(found("e[+-]", &names), ["e-"]);
        assert_eq!(found("e[+.-]", &names), ["e-"]);
    }

    #[test]
    fn stars_take_as_little_as_they_can() {
        for (pattern, name, stars) in [
            ("a.*.*", "a.0.q.weight", &["0", "q.weight"][..]),
            ("*{.a*,.b}*", "x.ab", &["x", "b"]),
            ("a*", "a*", &["*"]),
        ] {
            assert_eq!(matches("--rename", pattern, &[name]).unwrap()[0].stars, stars);
        }
        assert_eq!(n_stars("*a[*]{b,*}?*"), 2);
    }

    #[test]
    fn what_is_no_pattern_or_matches_nothing_is_refused() {
        for (pattern, word) in [
            ("a[", "an unclosed `[`"),
            ("a[b", "an unclosed `[`"),
            ("a[]", "an unclosed `[`"),
            ("a[z-a]", "`z-a` is empty"),
            ("a{b", "an unclosed `{`"),
            ("a{b}", "require alternatives"),
            ("a{b,{c,d}}", "nested braces"),
            (r"a\", "ends with a backslash"),
            ("", "matches no tensor"),
            ("b", "matches no tensor"),
            ("A.w", "matches no tensor"),
        ] {
            let error = matches("--drop", pattern, &["a.w", "abc"]).unwrap_err();
            assert!(error.message().contains(word), "{pattern}: {}", error.message());
            assert!(error.message().starts_with(&format!("--drop '{pattern}'")), "{}", error.message());
        }
        let long = "x".repeat(1 << 20);
        assert!(matches("--drop", &long, &[&long[1..]]).is_err());
    }
}
