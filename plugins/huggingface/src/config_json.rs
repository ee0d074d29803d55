//! A JSON object as typed metadata: nested objects become dotted keys, values without a type become their
//! JSON.
//!
//! | JSON | typed |
//! | --- | --- |
//! | `{"rope_scaling": {"factor": 8.0}}` | `rope_scaling.factor` = 8.0 (F64) |
//! | `{"a.b": 1}` | `a\.b` = 1 (I64; U64 above 2^63) |
//! | numbers that are not all integers: `[1, 0.5]` | an array of F64 |
//! | `Infinity`, and as transformers 5 saves it: `{"__float__": "Infinity"}` | infinity (F64) |
//! | other lists, `{}` | an array of one string, its JSON |
//! | `null` | nothing; where its absence would change the model, false or an array of one string, its JSON |

use crate::json::{not_json, of_word};
use apr_sdk::{Error, Result, Value, ValueType, escape};
use serde_json::{Map, Number, Value as Json};
use std::collections::{HashMap, HashSet};

/// The members of an object as typed keys, in its order.
pub fn flatten(object: &Map<String, Json>) -> Vec<(String, Value)> {
    let mut typed = Vec::new();
    members("", object, None, &mut typed);
    typed
}

/// Keys whose null is another statement than none at all for some classes of the library: it switches off, or leaves to other keys,
/// what they do where the key is missing.
const STATED_NULL: [&str; 10] = [
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "head_dim",
    "mamba_d_ssm",
    "moe_normalize_expert_weights",
    "num_key_value_heads",
    "num_nextn_predict_layers",
    "position_embedding_type",
    "q_lora_rank",
    "sliding_window",
];

/// The object whose null is no other statement than none at all, but for two cases.
const SCALING: &str = "rope_scaling";

/// Classes that stretch the rotation unless told otherwise. Version 4 of the library takes null for an instruction, version 5 does not.
const STRETCHED: [&str; 2] = ["apertus", "gpt_oss"];

/// Returns whether null in [`SCALING`] says something inside of an object: its class stretches the rotation otherwise, or the file, at its
/// `root`, states how.
fn says_no_scaling(object: &Map<String, Json>, root: Option<&Map<String, Json>>) -> bool {
    let class = object.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let is_said = |object: &Map<String, Json>, key: &str| object.get(key).is_some_and(Json::is_object);
    let is_of_class = STRETCHED.contains(&class) && !is_said(object, "rope_parameters");
    is_of_class || root.is_some_and(|root| is_said(root, SCALING))
}

/// Keys whose null is false to the library, which asks only whether they are set, and true where they are missing:
/// `_compute_yarn_parameters`, the routers of DeepSeek V3 and GLM 4, GPT-NeoX, GPT-2, Mamba, Llama 4, Falcon.
const FALSE_IF_NULL: [&str; 8] = [
    "mamba_conv_bias",
    "norm_topk_prob",
    "parallel_attn",
    "scale_attn_weights",
    "truncate",
    "use_conv_bias",
    "use_parallel_residual",
    "use_qk_norm",
];

/// Adds the members of an object, which lies in `root` if that is another.
fn members(
    prefix: &str,
    object: &Map<String, Json>,
    root: Option<&Map<String, Json>>,
    typed: &mut Vec<(String, Value)>,
) {
    for (name, json) in object {
        let key = format!("{prefix}{}", name.replace('\\', "\\\\").replace('.', "\\."));
        match json {
            Json::Null if FALSE_IF_NULL.contains(&name.as_str()) => {
                typed.push((key, Value::from_bool(false)))
            }
            Json::Null if name == SCALING && says_no_scaling(object, root) => typed.push((key, value(json))),
            Json::Null if !STATED_NULL.contains(&name.as_str()) => {}
            Json::Object(inner) if !inner.is_empty() && spelled_float(json).is_none() => {
                members(&format!("{key}."), inner, root.or(Some(object)), typed);
            }
            _ => typed.push((key, value(json))),
        }
    }
}

/// The float that JSON has not and that stands here: as Python's own spelling was marked, or in an object, as transformers 5
/// writes it.
fn spelled_float(json: &Json) -> Option<f64> {
    match json {
        Json::String(text) => not_json(text),
        Json::Object(members) if members.len() == 1 => of_word(members.get("__float__")?.as_str()?),
        _ => None,
    }
}

/// A value that is no object with members.
fn value(json: &Json) -> Value {
    if let Some(float) = spelled_float(json) {
        return Value::from_f64(float);
    }
    match json {
        Json::Bool(value) => Value::from_bool(*value),
        Json::String(text) => Value::from_string(text),
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
        .map(|item| {
            let is_nested = matches!(item, Json::Array(_) | Json::Object(_) | Json::Null);
            (!is_nested || spelled_float(item).is_some()).then(|| value(item))
        })
        .collect::<Option<_>>()?;
    let kind = scalars.first().map_or(ValueType::STRING, |first| first.kind);
    if scalars.iter().all(|item| item.kind == kind) {
        return Some(array(kind, &scalars));
    }
    let floats = items.iter().map(|item| spelled_float(item).or_else(|| item.as_f64()));
    let floats: Vec<Value> = floats.map(|float| float.map(Value::from_f64)).collect::<Option<_>>()?;
    Some(array(ValueType::F64, &floats))
}

fn array(kind: ValueType, items: &[Value]) -> Value {
    let bytes: Vec<u8> =
        items.iter().flat_map(|item| item.bytes.inline().unwrap_or_default()).copied().collect();
    Value::from_items(kind, items.len() as u64, &bytes)
}

/// The object that has these typed keys.
///
/// # Errors
/// Unsupported for a key that is both a value and an object.
pub fn unflatten<'v>(typed: impl Iterator<Item = (&'v str, &'v Value)>) -> Result<Map<String, Json>> {
    let mut object = Map::new();
    for (key, value) in typed {
        *place(&mut object, key)? = json_of(value);
    }
    Ok(object)
}

/// `object` with exactly these typed keys: what it has that no key stands for (null) stays, and so does its order.
///
/// # Errors
/// As [`unflatten`].
pub fn edited(mut object: Map<String, Json>, typed: &[(String, Value)]) -> Result<Map<String, Json>> {
    let before: HashMap<String, Value> = flatten(&object).into_iter().collect();
    let wanted: HashSet<&str> = typed.iter().map(|(key, _)| key.as_str()).collect();
    for key in before.keys().filter(|key| !wanted.contains(key.as_str())) {
        remove(&mut object, &names(key));
    }
    for (key, value) in typed.iter().filter(|(key, value)| before.get(key) != Some(value)) {
        *place(&mut object, key)? = json_of(value);
    }
    Ok(object)
}

fn remove(object: &mut Map<String, Json>, path: &[String]) {
    match path {
        [last] => {
            object.shift_remove(last);
        }
        [first, rest @ ..] => {
            if let Some(Json::Object(inner)) = object.get_mut(first) {
                remove(inner, rest);
                if inner.is_empty() {
                    object.shift_remove(first);
                }
            }
        }
        [] => {}
    }
}

/// Where the value of `key` stands, made if it is not there.
fn place<'o>(object: &'o mut Map<String, Json>, key: &str) -> Result<&'o mut Json> {
    let both = || Error::unsupported(format!("`{}` would be both a value and an object", escape(key, 120)));
    let mut path = names(key);
    let last = path.pop().unwrap_or_default();
    let mut inner = object;
    for name in path {
        let slot = inner.entry(name).or_insert(Json::Null);
        if slot.is_null() {
            *slot = Json::Object(Map::new());
        }
        inner = slot.as_object_mut().ok_or_else(both)?;
    }
    let slot = inner.entry(last).or_insert(Json::Null);
    if slot.as_object().is_some_and(|object| !object.is_empty()) { Err(both()) } else { Ok(slot) }
}

/// The names that a key is made of.
fn names(key: &str) -> Vec<String> {
    let (mut names, mut name, mut escaped) = (Vec::new(), String::new(), false);
    for c in key.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' if !escaped => names.push(std::mem::take(&mut name)),
            _ => {
                name.push(c);
                escaped = false;
            }
        }
    }
    names.push(name);
    names
}

/// The JSON of a typed value, whoever made it.
pub fn json_of(value: &Value) -> Json {
    let whole = |whole: Option<i64>| whole.map_or(Json::Null, Json::from);
    match value.kind {
        ValueType::STRING => {
            Json::from(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
        }
        ValueType::BOOL => Json::from(value.as_bool().unwrap_or_default()),
        // The shortest digits that are this float, not those of the double next to it.
        ValueType::F32 => {
            float(value.as_f32().and_then(|float| float.to_string().parse().ok()).unwrap_or(f64::NAN))
        }
        ValueType::F64 => float(value.as_f64().unwrap_or(f64::NAN)),
        ValueType::I8 => whole(value.as_i8().map(i64::from)),
        ValueType::I16 => whole(value.as_i16().map(i64::from)),
        ValueType::I32 => whole(value.as_i32().map(i64::from)),
        ValueType::I64 => whole(value.as_i64()),
        ValueType::ARRAY => {
            let items = value.items();
            let only = match &items[..] {
                [only] => only.as_str().and_then(stands_for_json),
                _ => None,
            };
            only.unwrap_or_else(|| Json::Array(items.iter().map(json_of).collect()))
        }
        _ => value.as_unsigned().map_or(Json::Null, Json::from),
    }
}

fn float(float: f64) -> Json {
    Number::from_f64(float).map_or_else(|| Json::from(crate::json::mark(float)), Json::Number)
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
    fn typed_keys_make_the_object_again() {
        let text = r#"{"rope": {"factor": 8.0, "inner": {"on": true}}, "a.b\\c": -1, "ids": [1, 2], "names": ["x"],
            "none": {}, "deep": [[1], null], "json": ["[1]"], "limit": Infinity, "empty": []}"#;
        let object = crate::json::parse_object(text).unwrap();
        let typed = flatten(&object);
        assert_eq!(unflatten(typed.iter().map(|(key, value)| (key.as_str(), value))).unwrap(), object);
        let clash = [("a".to_owned(), Value::from_i64(1)), ("a.b".to_owned(), Value::from_i64(1))];
        assert!(unflatten(clash.iter().map(|(key, value)| (key.as_str(), value))).is_err());
        assert_eq!(json_of(&Value::from_f32(0.1)).to_string(), "0.1");
    }

    #[test]
    fn floats_that_json_has_not_are_read_as_both_versions_of_the_library_save_them() {
        let object = |text: &str| crate::json::parse_object(text).unwrap();
        let five = object(
            r#"{"a": {"__float__": "-Infinity"}, "b": [0.0, {"__float__": "Infinity"}], "c": {"__float__": "x"}}"#,
        );
        let four = object(r#"{"a": -Infinity, "b": [0.0, Infinity], "c": {"__float__": "x"}}"#);
        assert_eq!(flatten(&five), flatten(&four));
        // What is not changed keeps its spelling.
        assert_eq!(edited(five.clone(), &flatten(&four)).unwrap(), five);
    }

    #[test]
    fn null_is_false_where_the_library_takes_it_for_that() {
        let object =
            |text: &str| crate::json::parse_object(&format!(r#"{{"rope_scaling": {{{text}}}}}"#)).unwrap();
        let null = object(r#""truncate": null"#);
        assert_eq!(flatten(&null), flatten(&object(r#""truncate": false"#)));
        // What is not changed keeps its spelling.
        assert_eq!(edited(null.clone(), &flatten(&null)).unwrap(), null);
    }

    #[test]
    fn an_edit_leaves_the_rest_as_it_was() {
        let object =
            crate::json::parse_object(r#"{"n": null, "a": {"x": 1, "y": 2}, "b": [1.5], "c": {"z": 3}}"#)
                .unwrap();
        let mut typed = flatten(&object);
        assert_eq!(edited(object.clone(), &typed).unwrap(), object);
        typed.retain(|(key, _)| key != "c.z" && key != "a.x");
        typed.push(("a.new".to_owned(), Value::from_string("s")));
        let text = Json::Object(edited(object, &typed).unwrap()).to_string();
        assert_eq!(text, r#"{"n":null,"a":{"y":2,"new":"s"},"b":[1.5]}"#);
    }

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
