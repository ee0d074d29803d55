//! Builds the card from `general.*` keys, using only values in memory.

use super::{DRAWS, ENDS, ORIGIN, ORIGINS, SAMPLING, SAMPLING_NAMES, SOURCE, TEXTS, WORDS};
use crate::metadata::Key;
use apr_sdk::{Value, ValueType};
use serde_json::{Map, Value as Json, json};

/// Base models or datasets. 1024: merges name a dozen.
const MAX_ORIGINS: u64 = 1024;

/// Tokens that end an answer. 1024: models name a handful.
const MAX_ENDS: u64 = 1024;

/// The card; `None` if the keys have nothing that belongs on one.
pub fn read(keys: &[Key]) -> Option<Vec<u8>> {
    let get = |key: &str| keys.iter().find(|k| k.name == key).map(|k| &k.value);
    let text = |key: &str| get(key).and_then(Value::as_str).map(Json::from);
    let mut card = Map::new();
    for (name, key) in TEXTS {
        put(&mut card, name, text(key));
    }
    let mut source = Map::new();
    for name in SOURCE {
        put(&mut source, name, text(&format!("general.source.{name}")));
    }
    put(&mut card, "source", object(source));
    for (name, prefix) in ORIGINS {
        let count = get(&format!("{prefix}.count")).and_then(Value::as_unsigned).unwrap_or(0);
        let mut list = Vec::new();
        for n in 0..count.min(MAX_ORIGINS) {
            let mut one = Map::new();
            for field in ORIGIN {
                put(&mut one, field, text(&format!("{prefix}.{n}.{field}")));
            }
            list.push(Json::Object(one));
        }
        put(&mut card, name, (!list.is_empty()).then_some(Json::Array(list)));
    }
    for (name, key) in WORDS {
        let words = get(key).filter(|value| value.array_head().is_some_and(|(k, _)| k == ValueType::STRING));
        let words =
            words.map(|value| value.items().iter().filter_map(Value::as_str).map(Json::from).collect());
        put(&mut card, name, words);
    }
    let mut sampling = Map::new();
    for name in SAMPLING_NAMES {
        put(&mut sampling, name, get(&format!("{SAMPLING}{name}")).and_then(number));
    }
    put(&mut card, "sampling", object(sampling));
    let mut generation = Map::new();
    put(&mut generation, "do_sample", get(DRAWS).and_then(Value::as_bool).map(Json::from));
    put(&mut generation, "eos_token_id", get(ENDS).and_then(ids));
    put(&mut card, "generation", object(generation));
    object(card).map(|card| card.to_string().into_bytes())
}

fn put(map: &mut Map<String, Json>, name: &str, value: Option<Json>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value);
    }
}

fn object(map: Map<String, Json>) -> Option<Json> {
    (!map.is_empty()).then_some(Json::Object(map))
}

/// A list of ids; `None` for anything else.
fn ids(value: &Value) -> Option<Json> {
    let (kind, count) = value.array_head()?;
    let ids = value.items();
    let fits = kind == ValueType::U32 && (1..=MAX_ENDS).contains(&count);
    fits.then(|| ids.iter().filter_map(Value::as_u32).map(Json::from).collect())
}

fn number(value: &Value) -> Option<Json> {
    // The shortest decimal for this f32: 0.7, not 0.699999988.
    let float = value.as_f32().and_then(|x| x.to_string().parse::<f64>().ok()).filter(|x| x.is_finite());
    let whole = value.as_i32().map(Json::from).or_else(|| value.as_unsigned().map(Json::from));
    float.map(|x| json!(x)).or(whole).or_else(|| value.as_str().map(Json::from))
}
