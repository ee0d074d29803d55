//! JSON without duplicate keys: serde_json alone silently keeps the last value. And the text of a file of JSON, which is UTF-8 without a
//! byte order mark, as Python's `json` demands.

use crate::{Error, escape};
use serde_core::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value as Json};
use std::fmt;

/// Any JSON value, none of whose objects has a duplicate key. Deserializes inside any other type.
pub struct Strict(pub Json);

/// Beginnings of files that are text of another encoding, or say which one they are: the bytes, and what is wrong with them.
const MARKS: [(&[u8], &str); 3] = [
    (b"\xef\xbb\xbf", "it starts with a byte order mark, which JSON does not allow"),
    (b"\xff\xfe", "it is UTF-16, but JSON must be UTF-8"),
    (b"\xfe\xff", "it is UTF-16, but JSON must be UTF-8"),
];

/// Returns whether bytes begin with a byte order mark.
pub fn is_marked(bytes: &[u8]) -> bool {
    MARKS.iter().any(|(mark, _)| bytes.starts_with(mark))
}

/// The text of a file of JSON.
///
/// # Errors
/// Malformed, with the offset, for what is not UTF-8, and for a byte order mark: the libraries that read such files refuse it too.
pub fn text(bytes: &[u8]) -> Result<&str, Error> {
    if let Some((_, what)) = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return Err(Error::malformed(*what).at(0).hint("save it as UTF-8 without a byte order mark"));
    }
    std::str::from_utf8(bytes)
        .map_err(|e| Error::malformed("it is not valid UTF-8").at(e.valid_up_to() as u64))
}

/// Parses a JSON value.
///
/// # Errors
/// What is wrong, and the byte offset in `text`; duplicate keys are named.
pub fn parse(text: &str) -> Result<Json, (String, u64)> {
    serde_json::from_str(text).map(|Strict(json)| json).map_err(|error| place(&error, text))
}

/// The message of a serde_json error on `text`, and its byte offset.
pub fn place(error: &serde_json::Error, text: &str) -> (String, u64) {
    let mut message = error.to_string();
    message.truncate(message.rfind(" at line ").unwrap_or(message.len()));
    // Columns count bytes from 1 and point at the last byte read.
    let lines_before = error.line().saturating_sub(1);
    let line: usize = text.split_inclusive('\n').take(lines_before).map(str::len).sum();
    (message, (line + error.column().saturating_sub(1)).min(text.len()) as u64)
}

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Any).map(Strict)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Json, E> {
        Number::from_f64(number).map(Json::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            // Files have many pairs, with which half of the usual room for four would be left.
            if list.len() < 2 {
                list.reserve_exact(2 - list.len());
            }
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(entry) => entry.insert(entries.next_value::<Strict>()?.0),
                Entry::Occupied(entry) => {
                    let key = escape(entry.key(), 120);
                    return Err(de::Error::custom(format!("duplicate key `{key}`")));
                }
            };
        }
        Ok(Json::Object(map))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_named_with_its_place() {
        let text = "{\"a\": [1, -1, 1.5, null, true, \"x\"],\n \"b\": {}}";
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Json>(text).unwrap());
        for text in ["{\"a\": 1,\n\"a\": 2}", "{\"b\": [{\"a\": 1,\n\"a\": 2}]}"] {
            let (message, at) = parse(text).unwrap_err();
            assert_eq!(message, "duplicate key `a`");
            let line = text.find('\n').unwrap() as u64;
            assert!((line..line + 5).contains(&at), "{at}");
        }
        assert_eq!(parse("{\n x").unwrap_err().1, 3);
        assert_eq!(
            parse(r#"{" at line 1": 1, " at line 1": 2}"#).unwrap_err().0,
            "duplicate key ` at line 1`"
        );
    }

    #[test]
    fn text_is_utf_8_without_a_mark() {
        assert_eq!(text(b"{}").unwrap(), "{}");
        for (bytes, at, says) in [
            (&b"\xef\xbb\xbf{}"[..], 0, "starts with a byte order mark"),
            (b"\xff\xfe{\0}\0", 0, "UTF-16"),
            (b"\xfe\xff\0{\0}", 0, "UTF-16"),
            (b"{\"\xff\"}", 2, "not valid UTF-8"),
        ] {
            let error = text(bytes).unwrap_err();
            assert!(error.message().contains(says) && error.offset() == Some(at), "{error}");
        }
    }

    #[test]
    fn nesting_does_not_reach_the_end_of_the_stack() {
        assert!(parse(&"[".repeat(1 << 20)).is_err());
    }
}
