//! What other keys of the tokenizer said when our own was written: who edits one of them since learns that ours counts.

use super::super::scan::Scan;
use super::TEXT;
use apr_sdk::{Value, escape};
use serde_json::{Map, Value as Json};

/// The member of our key for the others, by name.
const BESIDE: &str = "keys";
/// The prefix of keys that llama.cpp reads.
const READ: &str = "tokenizer.ggml.";

/// Adds to our key, if it is there, what the other keys say.
pub fn carry(keys: &mut [(String, Value)]) {
    let said: Map<String, Json> =
        keys.iter().filter_map(|(key, value)| Some((key.clone(), said(key, value)?))).collect();
    let Some((_, own)) = keys.iter_mut().find(|(key, _)| key == TEXT) else { return };
    let Some(Ok(mut text)) = own.as_str().map(serde_json::from_str::<Map<String, Json>>) else { return };
    text.insert(BESIDE.to_owned(), said.into());
    *own = Value::from_string(Json::Object(text).to_string());
}

/// States each key that says something else since our own was written.
pub fn notes(scan: &Scan<'_>, json: &Json) -> Vec<String> {
    let Some(before) = json.get(BESIDE).and_then(Json::as_object) else { return Vec::new() };
    let now: Map<String, Json> =
        scan.keys.iter().filter_map(|key| Some((key.name.clone(), said(&key.name, &key.value)?))).collect();
    let all = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    let edited = all.filter(|key| before.get(*key) != now.get(*key));
    let note = |key: &String| {
        let [was, is] = [before, &now].map(|of| of.get(key).map_or("nothing".to_owned(), Json::to_string));
        let key = escape(key, 120);
        format!("`{key}` is {is}, and was {was} when `{TEXT}` was written, which counts where it says more")
    };
    edited.map(note).collect()
}

/// What a key says, if it is a flag or a number that llama.cpp reads.
fn said(key: &str, value: &Value) -> Option<Json> {
    let flag = || value.as_bool().map(Json::from);
    let number = || value.as_unsigned().map(Json::from);
    key.starts_with(READ).then(|| flag().or_else(number)).flatten()
}
