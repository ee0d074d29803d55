//! JSON as Python writes and reads it: strict about keys that occur twice, and with numbers that are no JSON
//! (`NaN`, `Infinity`), which configurations of some architectures have.

use apr_sdk::{Error, Result, escape};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};
use std::borrow::Cow;
use std::fmt;

/// What Python writes for floats that JSON has not, and the strings that stand for them in a parsed tree. No text that
/// a person or a tool writes begins with NUL.
const NOT_JSON: [(&str, &str, f64); 3] = [
    ("-Infinity", "\u{0}-Infinity", f64::NEG_INFINITY),
    ("Infinity", "\u{0}Infinity", f64::INFINITY),
    ("NaN", "\u{0}NaN", f64::NAN),
];

/// The float that a string of a parsed tree stands for.
pub fn not_json(text: &str) -> Option<f64> {
    NOT_JSON.iter().find(|(_, mark, _)| *mark == text).map(|(.., float)| *float)
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
    let mut json = serde_json::Deserializer::from_str(&spelled);
    let tree = Tree.deserialize(&mut json).and_then(|tree| json.end().map(|()| tree));
    tree.map_err(|e| {
        let before: usize =
            spelled.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
        let message = e.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        Error::malformed(format!("its JSON: {}", escape(message, 200)))
            .at((before + e.column().saturating_sub(1)) as u64)
    })
}

/// The text with each float that JSON has not as the string that stands for it.
fn spelled(text: &str) -> Cow<'_, str> {
    if !NOT_JSON.iter().any(|(word, ..)| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest, mut quoted) = (String::with_capacity(text.len()), text, false);
    while let Some(c) = rest.chars().next() {
        let mut len = c.len_utf8();
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => len += rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        let word = NOT_JSON.iter().find(|(word, ..)| !quoted && rest.starts_with(word));
        if let Some((word, mark, _)) = word {
            out.push_str(&Json::from(*mark).to_string());
            rest = &rest[word.len()..];
        } else {
            out.push_str(&rest[..len]);
            rest = &rest[len..];
        }
    }
    Cow::Owned(out)
}

/// Any value, no key twice.
struct Tree;

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Json, E> {
        Ok(Json::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Json, E> {
        Ok(Json::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Json, E> {
        Ok(Json::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Tree)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Json, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(de::Error::custom(format!("the key `{}` occurs twice", escape(&key, 120))));
            }
            let value = map.next_value_seed(Tree)?;
            members.insert(key, value);
        }
        Ok(Json::Object(members))
    }
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
    fn what_is_wrong_is_placed() {
        for (text, offset, message) in [
            ("{\n \"a\": 1,\n \"a\": 2}", 14, "its JSON: the key `a` occurs twice"),
            ("[1]", 0, "it is JSON, but not an object"),
            ("{\"a\": 1} x", 9, "its JSON: trailing characters"),
        ] {
            let error = parse_object(text).unwrap_err();
            assert_eq!((error.message(), error.offset()), (message, Some(offset)), "{text}");
        }
        assert!(parse_object(&"[".repeat(100_000)).is_err());
    }
}
