//! The facts about a model and its tensors that recipes get.

use crate::architecture::TensorSpec;
use apr_sdk::{Bytes, Model, ModelFacts, Tensor, TensorFacts, Value, ValueType};
use serde_json::{Map, Value as Json};

/// The facts about a tensor.
pub fn of_tensor(tensor: &Tensor, spec: &TensorSpec) -> TensorFacts {
    let mut facts = TensorFacts::default();
    facts.name.clone_from(&tensor.name);
    facts.role.clone_from(&spec.role);
    facts.names.clone_from(&spec.names);
    facts.shape.clone_from(&tensor.shape);
    facts.dtype = Some(tensor.dtype);
    facts
}

/// The facts about the model: its canonical configuration and, under the id of each format with metadata, its
/// keys that are single numbers or words.
pub fn of_model(model: &Model) -> ModelFacts {
    let mut facts = ModelFacts::default();
    let held = model.architecture.as_ref().and_then(|architecture| architecture.config.inline());
    let mut config: Map<String, Json> =
        held.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
    for foreign in &model.foreign {
        let keys = foreign.files.iter().flat_map(|file| &file.typed);
        let keys: Map<String, Json> =
            keys.filter_map(|(key, value)| Some((key.clone(), scalar(value)?))).collect();
        config.insert(foreign.format.clone(), Json::Object(keys));
    }
    facts.architecture = model.architecture.as_ref().map(|architecture| architecture.id.clone());
    facts.config = Json::Object(config).to_string();
    facts
}

/// Elements in a list that is passed on: one number per layer.
const LONGEST: usize = 4096;

fn scalar(value: &Value) -> Option<Json> {
    if let Some((item, n)) = value.array_head() {
        let width = item.scalar_len().filter(|_| n <= LONGEST as u64)?;
        let Bytes::Inline(bytes) = &value.bytes else { return None };
        let items = bytes.get(12..)?.chunks_exact(usize::try_from(width).ok()?);
        return items.map(|bytes| scalar(&Value { kind: item, bytes: bytes.into() })).collect();
    }
    if let Some(n) = value.as_unsigned() {
        return Some(n.into());
    }
    if value.kind == ValueType::STRING {
        return value.as_str().map(Json::from);
    }
    None
}
