//! Strict JSON on top of serde: borrowed keys and strings, no duplicate keys, errors with absolute offsets.

use apr_sdk::{Error, escape, strict_json};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// A string, borrowed from the text unless it contains escapes; `0` describes what was expected.
pub struct Text(pub &'static str);

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// An unsigned 64-bit integer.
pub struct Whole;

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_u64(self)
    }
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 0 to 2^64 - 1")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }
}

/// Any value, checked and discarded: even there, duplicate keys and invalid strings are refused.
pub struct Forgotten;

impl<'de> DeserializeSeed<'de> for Forgotten {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Forgotten {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Forgotten)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key_seed(Text("a key"))? {
            first_time(&mut seen, key)?;
            map.next_value_seed(Forgotten)?;
        }
        Ok(())
    }
}

/// Records `key`, and refuses a duplicate.
pub fn first_time<'de, E: de::Error>(seen: &mut HashSet<Cow<'de, str>>, key: Cow<'de, str>) -> Result<(), E> {
    match seen.replace(key) {
        None => Ok(()),
        Some(key) => Err(E::custom(format!("duplicate key `{}`", escape(&key, 120)))),
    }
}

/// Converts a serde error about `text`, which begins at `start` of its file, to an error with an offset.
pub fn place(error: &serde_json::Error, text: &str, start: u64, what: &str) -> Error {
    let (message, at) = strict_json::place(error, text);
    Error::malformed(format!("{what}: {}", escape(&message, 300))).at(start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_through(text: &str) -> Result<(), Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        Forgotten.deserialize(&mut json).and_then(|()| json.end()).map_err(|e| place(&e, text, 100, "here"))
    }

    #[test]
    fn looks_through_everything() {
        look_through(r#"{"a":[1,-2,3.5,null,true,"\u00e9"],"b":{"a":{}}}"#).unwrap();
        for (text, offset) in [
            (r#"{"a":1,"a":2}"#, 109),
            (r#"{"b":[{"a":1,"\u0061":2}]}"#, 120),
            ("{\n\n \"a\": x}", 109),
            (r#"["\ud800"]"#, 108),
            ("[] ]", 103),
        ] {
            let error = look_through(text).unwrap_err();
            assert_eq!(error.offset(), Some(offset), "{text}: {error}");
        }
    }

    #[test]
    fn nesting_does_not_reach_the_end_of_the_stack() {
        assert!(look_through(&"[".repeat(1 << 20)).is_err());
    }
}
