//! Writes the card as `general.*` keys: `Metadata.set_gguf_meta_model` of gguf-py, falling back to the
//! model's ids where the card says nothing.

use super::model_id::{components, title};
use super::{
    DRAWS, ENDS, ORIGIN, ORIGINS, Parameters, SAMPLING, SAMPLING_NAMES, SAMPLING_WHOLE, SOURCE, TEXTS, WORDS,
};
use apr_sdk::{Value, ValueType};
use serde_json::{Map, Value as Json};

type Keys = Vec<(String, Value)>;

/// The keys after `general.type`. `stem` is the output's name, for a model without any other.
pub fn keys(card: Option<&Json>, parameters: &Parameters, stem: &str) -> Keys {
    let mut card = card.and_then(Json::as_object).cloned().unwrap_or_default();
    fill(&mut card, parameters, stem);
    let mut keys = Keys::new();
    sampling(&mut keys, &card);
    for (name, key) in TEXTS {
        push_text(&mut keys, key, card.get(name));
    }
    for name in SOURCE {
        let value = card.get("source").and_then(|source| source.get(name));
        push_text(&mut keys, &format!("general.source.{name}"), value);
    }
    for (name, prefix) in ORIGINS {
        let Some(list) = card.get(name).and_then(Json::as_array) else { continue };
        let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
        keys.push((format!("{prefix}.count"), Value::from_u32(count)));
        for (n, origin) in list.iter().enumerate() {
            let origin = with_id(origin, parameters.total);
            for field in ORIGIN {
                push_text(&mut keys, &format!("{prefix}.{n}.{field}"), origin.get(field));
            }
        }
    }
    for (name, key) in WORDS {
        let words: Vec<&str> =
            card.get(name).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        if !words.is_empty() {
            keys.push((key.to_owned(), Value::from_strings(&words)));
        }
    }
    keys
}

/// Fills in the components of the model's ids, in order of preference, and the size.
fn fill(card: &mut Map<String, Json>, parameters: &Parameters, stem: &str) {
    let ids = card.get("ids").and_then(Json::as_array).into_iter().flatten().chain(card.get("folder"));
    let ids: Vec<String> = ids.filter_map(Json::as_str).map(str::to_owned).collect();
    for id in &ids {
        let said = components(id, parameters.total);
        set(card, "name", said.name.as_deref().map(title));
        set(card, "organization", said.organization.as_deref().map(title));
        set(card, "basename", said.basename);
        set(card, "finetune", said.finetune);
        set(card, "version", said.version);
        set(card, "size_label", said.size_label);
    }
    set(card, "name", Some(title(stem)).filter(|name| !name.is_empty()));
    set(card, "size_label", parameters.label());
}

/// Sets a value unless it is set already.
fn set(card: &mut Map<String, Json>, name: &str, value: Option<String>) {
    if let Some(value) = value
        && card.get(name).is_none_or(Json::is_null)
    {
        card.insert(name.to_owned(), Json::from(value));
    }
}

/// An origin, completed from its id. Only addresses of Hugging Face contain an id.
fn with_id(origin: &Json, total: u64) -> Map<String, Json> {
    const HUB: &str = "https://huggingface.co/";
    let mut origin = origin.as_object().cloned().unwrap_or_default();
    let Some(Json::String(id)) = origin.remove("id") else { return origin };
    let address = ["http://", "https://", "ssh://"].iter().any(|scheme| id.starts_with(scheme));
    let on_hub = id.strip_prefix(HUB).or_else(|| id.strip_prefix("http://huggingface.co/"));
    let own = match on_hub.filter(|id| id.split('/').count() == 2 && id.split('/').all(|w| !w.is_empty())) {
        Some(own) => own.to_owned(),
        None if address => String::new(),
        None => id.clone(),
    };
    if address {
        set(&mut origin, "repo_url", Some(id.clone()));
    }
    if own.is_empty() {
        return origin;
    }
    let said = components(&own, total);
    if let (Some(organization), Some(name), false) = (&said.organization, &said.name, address) {
        set(&mut origin, "repo_url", Some(format!("{HUB}{organization}/{name}")));
    }
    set(&mut origin, "name", said.name.as_deref().map(title));
    set(&mut origin, "organization", said.organization.as_deref().map(title));
    set(&mut origin, "version", said.version);
    origin
}

fn sampling(keys: &mut Keys, card: &Map<String, Json>) {
    let Some(sampling) = card.get("sampling") else { return };
    for name in SAMPLING_NAMES {
        let key = format!("{SAMPLING}{name}");
        match sampling.get(name) {
            Some(Json::String(text)) if !text.is_empty() => keys.push((key, Value::from_string(text))),
            Some(number @ Json::Number(_)) if SAMPLING_WHOLE.contains(&name) => {
                let whole = number.as_i64().and_then(|n| i32::try_from(n).ok());
                keys.extend(whole.map(|n| (key, Value::from_i32(n))));
            }
            Some(Json::Number(number)) => {
                // The format stores 32 bits.
                #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
                let float = number.as_f64().map(|x| x as f32);
                keys.extend(float.map(|x| (key, Value::from_f32(x))));
            }
            _ => {}
        }
    }
}

/// The keys for what the card says of an answer and no other key does. `ends` are the tokens that the tokenizer's keys name.
pub fn generation(card: Option<&Json>, ends: &[u32]) -> Keys {
    let said = |name: &str| card?.get("generation")?.get(name);
    let mut keys = Keys::new();
    let draws = said("do_sample").and_then(Json::as_bool);
    keys.extend(draws.map(|draws| (DRAWS.to_owned(), Value::from_bool(draws))));
    let listed = said("eos_token_id").and_then(Json::as_array).into_iter().flatten();
    let ids: Vec<u32> = listed.filter_map(Json::as_u64).filter_map(|id| u32::try_from(id).ok()).collect();
    let is_same = ids.iter().all(|id| ends.contains(id)) && ends.iter().all(|id| ids.contains(id));
    if !ids.is_empty() && !is_same {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        keys.push((ENDS.to_owned(), Value::from_items(ValueType::U32, ids.len() as u64, &bytes)));
    }
    keys
}

/// Adds a non-empty text. Some cards have numbers in place of texts, and lists of licences.
fn push_text(keys: &mut Keys, key: &str, value: Option<&Json>) {
    let text = match value {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Number(number)) => number.to_string(),
        Some(Json::Array(words)) => words.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(","),
        _ => String::new(),
    };
    if !text.is_empty() {
        keys.push((key.to_owned(), Value::from_string(text)));
    }
}
