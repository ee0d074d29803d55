//! Metadata of older layouts, which have keys of any name: as typed keys, and as a model card.

use apr_sdk::{Bytes, Error, Fact, Limits, ModelSink, Result, Value};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value as Json};
use std::collections::HashMap;
use std::fmt;

/// Keys that say what a model card says, with the card's names for them.
const CARD: &[(&str, &str)] = &[
    ("name", "name"),
    ("model_name", "name"),
    ("author", "author"),
    ("version", "version"),
    ("description", "description"),
    ("license", "license"),
];

/// The keys of a file, in its order.
#[derive(Debug, Default)]
pub struct Keys {
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
    /// Number of values that a later one of the same key replaced.
    pub repeated: usize,
}

impl Keys {
    /// Parses the JSON object in `text`, which is at `offset`.
    ///
    /// # Errors
    /// Malformed for anything but an object; LimitExceeded.
    pub fn from_json(text: &str, offset: u64, limits: &Limits) -> Result<Keys> {
        // Every value once more, at most.
        limits.budget.charge(text.len() as u64).map_err(|e| e.at(offset))?;
        let (mut keys, mut failure) = (Keys::default(), None);
        let object = Object { keys: &mut keys, limits, failure: &mut failure };
        let mut parser = serde_json::Deserializer::from_str(text);
        let parsed = object.deserialize(&mut parser).and_then(|()| parser.end());
        if let Some(failure) = failure {
            return Err(failure.at(offset));
        }
        parsed.map_err(|e| {
            let column = if e.line() == 1 { e.column().saturating_sub(1) as u64 } else { 0 };
            Error::malformed(format!("the metadata is invalid: {e}")).at(offset + column)
        })?;
        Ok(keys)
    }

    /// Adds a key. The last of several values counts, as for the program that writes them.
    ///
    /// # Errors
    /// LimitExceeded.
    pub fn add(&mut self, key: String, value: Value, limits: &Limits) -> Result<()> {
        if let Some(&at) = self.places.get(&key) {
            self.entries[at].1 = value;
            self.repeated += 1;
            return Ok(());
        }
        let most = limits.metadata_keys;
        if self.entries.len() as u64 >= most {
            return Err(Error::limit(format!("the metadata has more than {most} keys")));
        }
        // The key twice, its value's record, its place.
        limits.budget.charge(2 * key.len() as u64 + 200)?;
        self.places.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        Ok(())
    }

    /// Pushes the keys as foreign metadata of `format`, and what a model card can say of them.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn push(&self, format: &str, n_tensors: u64, sink: &mut dyn ModelSink) -> Result<()> {
        let mut card = Map::new();
        for (key, name) in CARD {
            let value = self.places.get(*key).and_then(|&at| self.entries[at].1.as_str());
            if let Some(text) = value.filter(|text| !text.is_empty()) {
                card.entry(*name).or_insert(Json::from(text));
            }
        }
        if !card.is_empty() {
            sink.fact(Fact::ModelCard(Bytes::from(Json::Object(card).to_string().as_str())))?;
        }
        sink.foreign_file(format, "", n_tensors)?;
        self.entries.iter().try_for_each(|(key, value)| sink.foreign(key, value.clone()))
    }
}

/// A JSON value with the type that its notation tells. Null, a list or an object has none: it becomes a list of one string,
/// its JSON.
fn from_raw(text: &str) -> Value {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(text).ok().map(Value::from_string),
        Some(b't' | b'f') => Some(Value::from_bool(text == "true")),
        Some(b'-' | b'0'..=b'9') => serde_json::from_str::<Number>(text).ok().map(|number| {
            match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(whole), ..) => Value::from_u64(whole),
                (_, Some(whole), _) => Value::from_i64(whole),
                (.., float) => Value::from_f64(float.unwrap_or_default()),
            }
        }),
        _ => None,
    }
    .unwrap_or_else(|| Value::from_strings(&[text]))
}

/// Adds the entries of a JSON object, which may repeat keys.
struct Object<'a> {
    keys: &'a mut Keys,
    limits: &'a Limits,
    /// The error that is no fault of the text.
    failure: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<(), D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some((key, raw)) = map.next_entry::<String, &RawValue>()? {
            self.keys.add(key, from_raw(raw.get()), self.limits).map_err(|error| {
                let message = error.message().to_owned();
                *self.failure = Some(error);
                A::Error::custom(message)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::ErrorKind;

    #[test]
    fn the_last_of_several_values_counts_and_order_stays() {
        let text = r#"{"b": null, "a": 1, "b": [1, {"c": 2}], "d": -0.5, "e": "\n", "f": -7, "g": true, "h": 1e999}"#;
        let keys = Keys::from_json(text, 64, &Limits::default()).unwrap();
        let expected = [
            ("b", Value::from_strings(&[r#"[1, {"c": 2}]"#])),
            ("a", Value::from_u64(1)),
            ("d", Value::from_f64(-0.5)),
            ("e", Value::from_string("\n")),
            ("f", Value::from_i64(-7)),
            ("g", Value::from_bool(true)),
            ("h", Value::from_strings(&["1e999"])),
        ];
        assert_eq!(keys.entries, expected.map(|(key, value)| (key.to_owned(), value)));
        assert_eq!(keys.repeated, 1);
    }

    #[test]
    fn anything_but_an_object_is_refused() {
        let parse = |text: &str| Keys::from_json(text, 64, &Limits::default()).unwrap_err();
        for text in ["", "[]", "{", "{\"a\":}", "{} x", "{\"a\":01}"] {
            let error = parse(text);
            assert_eq!(error.kind(), ErrorKind::Malformed, "{text}");
            assert!(error.offset().is_some_and(|at| at >= 64), "{error}");
        }
        let limits = Limits { metadata_keys: 1, ..Limits::default() };
        let error = Keys::from_json(r#"{"a":1,"b":2}"#, 0, &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Keys::from_json(&deep, 0, &Limits::default()).is_ok());
    }
}
