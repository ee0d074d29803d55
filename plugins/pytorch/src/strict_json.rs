//! JSON in which no key stands twice: serde would take the last one without a word.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};
use std::fmt;

/// Parses `text`.
///
/// # Errors
/// What is wrong and the offset of its byte; a key that stands twice is named.
pub fn parse(text: &str) -> Result<Json, (String, u64)> {
    serde_json::from_str(text).map(|Strict(json)| json).map_err(|error| {
        // Columns count bytes from 1.
        let before: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        (message.to_owned(), (before + error.column().saturating_sub(1)) as u64)
    })
}

struct Strict(Json);

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
        Ok(number.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let shown = apr_sdk::escape(&key, 120);
                return Err(de::Error::custom(format!("the key `{shown}` occurs twice")));
            }
            map.insert(key, entries.next_value::<Strict>()?.0);
        }
        Ok(Json::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_named_with_its_place() {
        let text = "{\"a\": [1, -1, 1.5, null, true, \"x\"],\n \"b\": {}}";
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Json>(text).unwrap());
        for text in ["{\"a\": 1,\n\"a\": 2}", "{\"b\": [{\"a\": 1,\n\"a\": 2}]}"] {
            let (message, at) = parse(text).unwrap_err();
            assert_eq!(message, "the key `a` occurs twice");
            let line = text.find('\n').unwrap() as u64;
            assert!((line..line + 5).contains(&at), "{at}");
        }
        assert_eq!(parse("{\n x").unwrap_err().1, 3);
    }
}
