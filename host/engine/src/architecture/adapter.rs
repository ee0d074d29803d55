//! Adapters: models that only change another one. What marks them is data of their format's manifest (`F.adapters`).

use crate::registry::Registry;
use apr_sdk::{Error, Foreign, Model, Result, Value, escape};

/// Refuses a model that is an adapter, or has one beside it: without it, something else would be computed.
///
/// # Errors
/// Unsupported for an adapter, with its mark.
pub fn refuse_adapter(model: &Model, registry: &Registry) -> Result<()> {
    let Some(mark) = adapter_mark(model, registry) else { return Ok(()) };
    let message = format!("`{mark}` marks this as an adapter, and apr does not apply adapters");
    Err(Error::unsupported(message).hint(WAY_OUT_OF_ADAPTER))
}

/// What to do with an adapter, as an imperative.
pub const WAY_OUT_OF_ADAPTER: &str =
    "merge it into its base model first (`merge_and_unload` of PEFT), or use the base model alone";

/// What marks a model as an adapter, or as one that has an adapter beside it; escaped.
pub fn adapter_mark(model: &Model, registry: &Registry) -> Option<String> {
    let mark = model.foreign.iter().find_map(|foreign| mark_of(foreign, registry));
    mark.map(|mark| escape(&mark, 120))
}

/// The mark of an adapter in a format's metadata: the name of a record, or a key with its value.
fn mark_of(foreign: &Foreign, registry: &Registry) -> Option<String> {
    let marks = &registry.format(&foreign.format).ok()?.manifest.adapters;
    let mark = marks.iter().find(|mark| match mark.split_once('=') {
        Some((key, value)) => foreign.get(key).and_then(Value::as_str) == Some(value),
        None => foreign.files.iter().any(|file| file.name == **mark),
    });
    mark.cloned()
}
