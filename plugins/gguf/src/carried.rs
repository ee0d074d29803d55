//! Other formats' metadata inside a GGUF file (`--foreign keep`): one string key with a JSON object, keyed by
//! format.

use crate::ID;
use apr_sdk::carried_metadata::{Carried, formats, formats_to_json};
use apr_sdk::{Foreign, ForeignPolicy, LayoutSink, Limits, Model, Result, Value};
use serde_json::Value as Json;

/// The key's value for `model`, or `None` if no other format has any metadata.
///
/// # Errors
/// Any error from reading the values.
pub fn to_value(model: &Model, sink: &mut dyn LayoutSink) -> Result<Option<Value>> {
    let map = formats_to_json(&Carried::of(model, ID, &[], ForeignPolicy::Keep, sink)?.formats)?;
    Ok((!map.is_empty()).then(|| Value::from_string(Json::Object(map).to_string())))
}

/// Parses a value of the key; `None` for anything that [`to_value`] does not write, or if the budget does not
/// allow parsing it.
pub fn from_text(text: &[u8], limits: &Limits) -> Option<Vec<Foreign>> {
    // A parsed value takes up to 32 bytes for two bytes of text (a digit and its comma).
    limits.budget.charge((text.len() as u64).saturating_mul(16)).ok()?;
    let Json::Object(map) = serde_json::from_slice(text).ok()? else { return None };
    formats(&map, ID).ok().filter(|formats| !formats.is_empty())
}
