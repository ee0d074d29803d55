//! JSON as Python writes and reads it: strict about duplicate keys, and with numbers that are not JSON
//! (`NaN`, `Infinity`), which occur in some architectures' configurations.

use apr_sdk::{Error, Result, escape, strict_json};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;

/// What Python writes for floats that JSON has not, and the strings that stand for them in a parsed tree. No text that
/// a person or a tool writes begins with NUL.
const NOT_JSON: [(&str, &str, f64); 3] = [
    ("-Infinity", "\u{0}-Infinity", f64::NEG_INFINITY),
    ("Infinity", "\u{0}Infinity", f64::INFINITY),
    ("NaN", "\u{0}NaN", f64::NAN),
];

/// The float that a string of a parsed tree stands for: one that JSON has not, or the nearest to a whole number that no 64
/// bits hold, whose digits it has.
pub fn not_json(text: &str) -> Option<f64> {
    let known = NOT_JSON.iter().find(|(_, mark, _)| *mark == text).map(|(.., float)| *float);
    known.or_else(|| text.strip_prefix('\0').filter(|digits| is_long(digits))?.parse().ok())
}

/// Returns whether a number is whole, and beyond 64 bits.
fn is_long(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = digits.len() >= LONG_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

/// The fewest digits of a whole number that 64 bits may not hold.
const LONG_DIGITS: usize = 19;

/// The float that JSON has not and Python spells like this.
pub fn of_word(text: &str) -> Option<f64> {
    NOT_JSON.iter().find(|(word, ..)| *word == text).map(|(.., float)| *float)
}

/// The string that stands for a float that JSON has not.
pub fn mark(float: f64) -> &'static str {
    let same = |known: f64| known == float || known.is_nan() && float.is_nan();
    NOT_JSON.iter().find(|(.., known)| same(*known)).map_or("", |(_, mark, _)| mark)
}

/// Parses an object.
///
/// # Errors
/// Malformed, with the offset, for anything else, and for a key that occurs twice.
pub fn parse_object(text: &str) -> Result<Map<String, Json>> {
    match parse(text)? {
        Json::Object(map) => Ok(map),
        _ => Err(Error::malformed("it is JSON, but not an object").at(0)),
    }
}

/// Parses any JSON value.
///
/// # Errors
/// As [`parse_object`].
pub fn parse(text: &str) -> Result<Json> {
    let spelled = spelled(text);
    strict_json::parse(&spelled)
        .map_err(|(message, at)| Error::malformed(format!("invalid JSON: {}", escape(&message, 200))).at(at))
}

/// The text with each number that a parsed tree cannot hold as the string that stands for it.
fn spelled(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        let mark = match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'-' | b'0'..=b'9' | b'I' | b'N' => mark_at(&text[at..]),
            _ => (1, None),
        };
        let end = at + mark.0;
        if let (_, Some(mark)) = mark {
            out.push_str(&text[copied..at]);
            out.push_str(&Json::from(mark).to_string());
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Where a string ends that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        match bytes.get(at) {
            None | Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The length of what a text outside of strings begins with, and the string that stands for it if a parsed tree cannot hold it.
fn mark_at(text: &str) -> (usize, Option<String>) {
    if let Some((word, mark, _)) = NOT_JSON.iter().find(|(word, ..)| text.starts_with(word)) {
        return (word.len(), Some((*mark).to_owned()));
    }
    let number = number_at(text);
    (number.len().max(1), is_long(number).then(|| format!("\0{number}")))
}

/// The number that a text begins with; empty if it begins with none.
fn number_at(text: &str) -> &str {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let begins = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let len = if begins { text.bytes().take_while(|byte| is_of_number(byte)).count() } else { 0 };
    &text[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_that_json_has_not_are_found_outside_of_strings() {
        let map = parse_object(r#"{"a": [0.0, Infinity, -Infinity], "NaN": NaN, "c": "\"NaN\\", "d": NaN}"#)
            .unwrap();
        assert_eq!(map["c"], Json::from("\"NaN\\"));
        let floats = [&map["a"][1], &map["a"][2], &map["NaN"], &map["d"]]
            .map(|j| not_json(j.as_str().unwrap()).unwrap());
        assert_eq!(floats[..2], [f64::INFINITY, f64::NEG_INFINITY]);
        assert!(floats[2].is_nan() && floats[3].is_nan());
    }

    #[test]
    fn whole_numbers_beyond_64_bits_keep_their_digits() {
        let text = r#"{"a": [12345678901234567890123, -9223372036854775808, 18446744073709551615], "b": 1e30,
            "c": "12345678901234567890123", "d": -9223372036854775809}"#;
        let map = parse_object(text).unwrap();
        assert_eq!(map["a"][0], Json::from("\u{0}12345678901234567890123"));
        assert_eq!(not_json(map["a"][0].as_str().unwrap()), Some(12_345_678_901_234_567_890_123.0));
        assert_eq!((map["a"][1].as_i64(), map["a"][2].as_u64()), (Some(i64::MIN), Some(u64::MAX)));
        assert_eq!((map["b"].as_f64(), not_json(map["c"].as_str().unwrap())), (Some(1e30), None));
        assert_eq!(not_json(map["d"].as_str().unwrap()), Some(-9_223_372_036_854_775_809.0));
        assert!(crate::text::file(&map).contains("12345678901234567890123,"));
    }

    #[test]
    fn what_is_wrong_is_placed() {
        for (text, offset, message) in [
            ("{\n \"a\": 1,\n \"a\": 2}", 14, "invalid JSON: duplicate key `a`"),
            ("[1]", 0, "it is JSON, but not an object"),
            ("{\"a\": 1} x", 9, "invalid JSON: trailing characters"),
        ] {
            let error = parse_object(text).unwrap_err();
            assert_eq!((error.message(), error.offset()), (message, Some(offset)), "{text}");
        }
        assert!(parse_object(&"[".repeat(100_000)).is_err());
    }
}
