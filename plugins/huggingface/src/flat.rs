//! A JSON object as typed metadata: nested objects become keys with dots, what has no type becomes its JSON.
//!
//! | JSON | typed |
//! | --- | --- |
//! | `{"rope_scaling": {"factor": 8.0}}` | `rope_scaling.factor` = 8.0 (F64) |
//! | `{"a.b": 1}` | `a\.b` = 1 (I64; U64 above 2^63) |
//! | numbers that are not all whole: `[1, 0.5]` | an array of F64 |
//! | other lists, `{}` | an array of one string, its JSON |
//! | `null` | nothing |

use crate::json::not_json;
use apr_sdk::{Value, ValueType};
use serde_json::{Map, Value as Json};

/// The members of an object as typed keys, in its order.
pub fn flatten(object: &Map<String, Json>) -> Vec<(String, Value)> {
    let mut typed = Vec::new();
    members("", object, &mut typed);
    typed
}

fn members(prefix: &str, object: &Map<String, Json>, typed: &mut Vec<(String, Value)>) {
    for (name, json) in object {
        let key = format!("{prefix}{}", name.replace('\\', "\\\\").replace('.', "\\."));
        match json {
            Json::Null => {}
            Json::Object(inner) if !inner.is_empty() => members(&format!("{key}."), inner, typed),
            _ => typed.push((key, value(json))),
        }
    }
}

/// A value that is no object with members.
fn value(json: &Json) -> Value {
    match json {
        Json::Bool(value) => Value::from_bool(*value),
        Json::String(text) => not_json(text).map_or_else(|| Value::from_string(text), Value::from_f64),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Value::from_i64(whole),
            (None, Some(whole)) => Value::from_u64(whole),
            (None, None) => Value::from_f64(number.as_f64().unwrap_or_default()),
        },
        Json::Array(items) => list(items).unwrap_or_else(|| Value::from_strings(&[json.to_string()])),
        Json::Null | Json::Object(_) => Value::from_strings(&[json.to_string()]),
    }
}

/// A list of one type; `None` for any other, and for a string that would be taken for the JSON of one.
fn list(items: &[Json]) -> Option<Value> {
    if let [Json::String(only)] = items
        && stands_for_json(only).is_some()
    {
        return None;
    }
    let scalars: Vec<Value> = items
        .iter()
        .map(|item| (!matches!(item, Json::Array(_) | Json::Object(_) | Json::Null)).then(|| value(item)))
        .collect::<Option<_>>()?;
    let kind = scalars.first().map_or(ValueType::STRING, |first| first.kind);
    if scalars.iter().all(|item| item.kind == kind) {
        return Some(array(kind, &scalars));
    }
    let floats = items.iter().map(|item| match item {
        Json::String(text) => not_json(text),
        _ => item.as_f64(),
    });
    let floats: Vec<Value> = floats.map(|float| float.map(Value::from_f64)).collect::<Option<_>>()?;
    Some(array(ValueType::F64, &floats))
}

fn array(kind: ValueType, items: &[Value]) -> Value {
    let bytes: Vec<u8> =
        items.iter().flat_map(|item| item.bytes.inline().unwrap_or_default()).copied().collect();
    Value::from_items(kind, items.len() as u64, &bytes)
}

/// The list or object that a string stands for, where it is the only one of a list.
fn stands_for_json(text: &str) -> Option<Json> {
    let json = crate::json::parse(text).ok()?;
    matches!(json, Json::Null | Json::Array(_) | Json::Object(_)).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_type() {
        let text = r#"{"n": null, "rope": {"factor": 8.0, "inner": {"on": true}}, "a.b": -1, "big": 18446744073709551615,
            "ids": [1, 2], "mixed": [1, 0.5], "names": ["x", "y"], "empty": [], "none": {}, "deep": [[1], null],
            "json": ["[1]"], "limit": Infinity, "long": 1000000000000000019884624838656}"#;
        let typed = flatten(&crate::json::parse_object(text).unwrap());
        let keys: Vec<_> = typed.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "rope.factor",
                "rope.inner.on",
                "a\\.b",
                "big",
                "ids",
                "mixed",
                "names",
                "empty",
                "none",
                "deep",
                "json",
                "limit",
                "long"
            ]
        );
        let value = |key: &str| &typed.iter().find(|(k, _)| k == key).unwrap().1;
        assert_eq!(value("rope.factor").as_f64(), Some(8.0));
        assert_eq!(value("a\\.b").as_i64(), Some(-1));
        assert_eq!(value("big").as_u64(), Some(u64::MAX));
        assert_eq!(value("ids").array_head(), Some((ValueType::I64, 2)));
        assert_eq!(value("mixed").items()[0].as_f64(), Some(1.0));
        assert_eq!(value("empty").array_head(), Some((ValueType::STRING, 0)));
        for (key, json) in [("none", "{}"), ("deep", "[[1],null]"), ("json", "[\"[1]\"]")] {
            assert_eq!(value(key), &Value::from_strings(&[json]), "{key}");
        }
        assert_eq!(value("limit").as_f64(), Some(f64::INFINITY));
        assert_eq!(value("long").as_f64(), Some(1e30));
    }
}
