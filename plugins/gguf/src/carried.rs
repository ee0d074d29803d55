//! Other formats' metadata inside this one (`--foreign keep`): one string key with a JSON object, by format.

use crate::ID;
use apr_sdk::carried::{Carried, formats, formats_to_json};
use apr_sdk::{Foreign, ForeignPolicy, LayoutSink, Limits, Model, Result, Value};
use serde_json::Value as Json;

/// The key's value for `model`, or `None` if no other format left anything.
///
/// # Errors
/// Any error from reading the values.
pub fn to_value(model: &Model, sink: &mut dyn LayoutSink) -> Result<Option<Value>> {
    let map = formats_to_json(&Carried::of(model, ID, &[], ForeignPolicy::Keep, sink)?.formats)?;
    Ok((!map.is_empty()).then(|| Value::from_string(Json::Object(map).to_string())))
}

/// The metadata in a value of the key; `None` if it is not what [`to_value`] makes, or the budget does not allow for
/// parsing it.
pub fn from_text(text: &[u8], limits: &Limits) -> Option<Vec<Foreign>> {
    // A JSON value takes up to 32 bytes for the two that a number and its comma may have in the text.
    limits.budget.charge((text.len() as u64).saturating_mul(16)).ok()?;
    let Json::Object(map) = serde_json::from_slice(text).ok()? else { return None };
    formats(&map, ID).ok().filter(|formats| !formats.is_empty())
}
