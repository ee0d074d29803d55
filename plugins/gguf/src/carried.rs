//! Other formats' metadata inside this one (`--foreign keep`): one string key with a JSON object, by format.

use crate::ID;
use apr_sdk::{Error, Foreign, LayoutSink, Limits, Model, ModelSink, Result, Value, json};
use serde_json::{Map, Value as Json};

/// The key's value for `model`, or `None` if no other format left anything.
///
/// # Errors
/// What reading the values raised.
pub fn to_value(model: &Model, sink: &mut dyn LayoutSink) -> Result<Option<Value>> {
    let mut map = Map::new();
    for foreign in model.foreign.iter().filter(|foreign| foreign.format != ID && says_something(foreign)) {
        let mut fetch = |bytes: &_| sink.fetch(bytes);
        map.insert(
            foreign.format.clone(),
            json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut fetch)?,
        );
    }
    Ok((!map.is_empty()).then(|| Value::from_string(Json::Object(map).to_string())))
}

/// Not the record of a single file without metadata, which every reader leaves.
fn says_something(foreign: &Foreign) -> bool {
    foreign.files.len() > 1
        || foreign.files.iter().any(|file| !file.typed.is_empty() || file.verbatim.is_some())
}

/// The metadata in a value of the key; `None` if it is not what [`to_value`] makes, or the budget does not allow for
/// parsing it.
pub fn from_text(text: &[u8], limits: &Limits) -> Option<Vec<Foreign>> {
    // A JSON value takes up to 32 bytes for the two that a number and its comma may have in the text.
    limits.budget.charge((text.len() as u64).saturating_mul(16)).ok()?;
    let Json::Object(map) = serde_json::from_slice(text).ok()? else { return None };
    // This format's own keys are the file's, whatever the text says.
    if map.is_empty() || map.keys().any(|format| format == ID || !is_id(format)) {
        return None;
    }
    let mut elsewhere = |_: &_| Err(Error::malformed("carried metadata that lies elsewhere"));
    map.iter().map(|(format, json)| json::foreign_from_json(format, json, &mut elsewhere).ok()).collect()
}

fn is_id(format: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    !format.is_empty() && format.bytes().all(fits)
}

/// Hands the metadata on.
///
/// # Errors
/// Whatever the sink raised.
pub fn push(carried: &[Foreign], sink: &mut dyn ModelSink) -> Result<()> {
    for foreign in carried {
        for file in &foreign.files {
            sink.foreign_file(&foreign.format, &file.name, file.n_tensors)?;
            for (key, value) in &file.typed {
                sink.foreign(key, value.clone())?;
            }
            if let Some(verbatim) = &file.verbatim {
                sink.verbatim(verbatim.clone())?;
            }
        }
    }
    Ok(())
}
