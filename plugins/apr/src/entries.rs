//! Parses a JSON object into keys and the unparsed text of their values, in order, refusing duplicate keys.

use apr_sdk::{Error, Result, escape};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

/// Keys with the text of their values.
pub type Entries<'a> = Vec<(String, &'a RawValue)>;

/// The entries of the object in `text`; `what` names it in errors, whose offsets are relative to it.
///
/// # Errors
/// Malformed with the JSON parser's message, or for a duplicate key; LimitExceeded for more than `most` keys.
pub fn parse<'a>(what: &str, text: &'a str, most: u64) -> Result<Entries<'a>> {
    let too_many = Cell::new(false);
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = Object { most, too_many: &too_many }.deserialize(&mut parser);
    parsed.and_then(|entries| parser.end().map(|()| entries)).map_err(|e| {
        if too_many.get() {
            return Error::limit(format!("the {what} has more than {most} keys"));
        }
        let column = if e.line() == 1 { e.column().saturating_sub(1) as u64 } else { 0 };
        Error::malformed(format!("the {what} is invalid: {e}")).at(column)
    })
}

/// The offset in `text` of a value that was parsed from it.
pub fn offset(text: &str, value: &RawValue) -> u64 {
    value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr()) as u64
}

struct Object<'a> {
    most: u64,
    too_many: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Entries<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<Entries<'de>, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries<'de>, A::Error> {
        let mut entries = Entries::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if entries.len() as u64 >= self.most {
                self.too_many.set(true);
                return Err(A::Error::custom("too many keys"));
            }
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key `{}`", escape(&key, 120))));
            }
            entries.push((key, map.next_value::<&RawValue>()?));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use apr_sdk::ErrorKind;

    #[test]
    fn keeps_order_and_text_and_refuses_second_keys() {
        let entries = parse("text", r#" {"b": [1,  2], "a":1e400}"#, 2).unwrap();
        let shown: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.get())).collect();
        assert_eq!(shown, [("b", "[1,  2]"), ("a", "1e400")]);
        for text in [r#"{"a":1,"\u0061":2}"#, "[]", "{} x", "{", ""] {
            assert_eq!(parse("text", text, 2).unwrap_err().kind(), ErrorKind::Malformed, "{text}");
        }
        let many = parse("text", r#"{"a":1,"b":2,"c":3}"#, 2).unwrap_err();
        assert_eq!(many.kind(), ErrorKind::LimitExceeded);
    }
}
