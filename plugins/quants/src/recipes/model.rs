//! What the mixtures ask of a model: from its GGUF keys, from its canonical configuration, or else from its tensors.

use super::category::layer;
use apr_sdk::{Error, ModelFacts, Result, TensorFacts};
use serde_json::Value;

/// What the mixtures ask of a model.
#[derive(Debug, Default)]
pub struct Model {
    /// The architecture, as GGUF calls it.
    pub architecture: String,
    /// The number of layers, with those that predict further tokens.
    pub layers: i64,
    /// How many heads of the first layer share a key; 0 where it has none.
    pub sharing: u64,
    /// The number of experts, 0 or 1 for none.
    pub experts: u64,
    /// Whether it counts as one of 70 billion parameters with shared keys.
    pub is_seventy: bool,
    /// Whether an importance matrix was given.
    pub has_importance: bool,
}

/// Architectures and numbers of layers that llama.cpp takes for 70 billion parameters.
const SEVENTY: &[(&str, u64)] =
    &[("llama", 80), ("llama-embed", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl Model {
    /// # Errors
    /// InvalidArgument if the configuration is not JSON.
    pub fn of(facts: &ModelFacts, tensors: &[TensorFacts]) -> Result<Model> {
        let config: Value = match facts.config.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).map_err(|e| {
                Error::invalid_argument(format!("the model's configuration is not valid JSON: {e}"))
            })?,
        };
        let keys = &config["gguf"];
        let architecture = match keys["general.architecture"].as_str() {
            Some(name) => name,
            // Tables that GGUF has one name for.
            None => match facts.architecture.as_deref().unwrap_or("") {
                "mistral" | "mixtral" => "llama",
                other => other,
            },
        };
        let of_gguf = |key: &str| first(&keys[format!("{architecture}.{key}")]);
        let said = |key: &str, canonical: &[&str]| {
            of_gguf(key).or_else(|| canonical.iter().find_map(|name| first(&config[*name])))
        };

        let (heads, keys_of_heads) = heads(&said, tensors);
        let layers = said("block_count", &["num_hidden_layers", "num_layers"]).unwrap_or_else(|| {
            let largest = tensors.iter().filter_map(|tensor| layer(tensor.name_in("gguf"))).max();
            largest.map_or(0, |layer| u64::try_from(layer.saturating_add(1)).unwrap_or(0))
        });
        let experts = said("expert_count", &["num_local_experts"]).unwrap_or_else(|| {
            let stacked = tensors.iter().filter(|tensor| tensor.name_in("gguf").contains("_exps.weight"));
            stacked.filter(|tensor| tensor.shape.len() == 3).map(|tensor| tensor.shape[0]).max().unwrap_or(0)
        });
        let predicting = of_gguf("nextn_predict_layers").unwrap_or(0);
        let is_llama = architecture.starts_with("llama");
        let is_seventy = SEVENTY.contains(&(architecture, layers.saturating_sub(predicting)))
            && !(is_llama && (experts == 8 || heads == keys_of_heads));
        Ok(Model {
            architecture: architecture.to_owned(),
            layers: i64::try_from(layers).unwrap_or(i64::MAX),
            sharing: heads.checked_div(keys_of_heads).unwrap_or(0),
            experts,
            is_seventy,
            has_importance: facts.has_importance,
        })
    }
}

/// The first layer's heads, and its heads of keys: what is said, or the rows of its matrices, which are in proportion.
fn heads(said: &dyn Fn(&str, &[&str]) -> Option<u64>, tensors: &[TensorFacts]) -> (u64, u64) {
    if let Some(heads) = said("attention.head_count", &["num_attention_heads"]) {
        // What Falcon says of its keys does not always count; its table knows.
        let of_keys = said("attention.head_count_kv", &["kv_heads", "num_key_value_heads"]);
        return (heads, of_keys.unwrap_or(heads));
    }
    let rows = |name: &str| {
        let found = tensors.iter().find(|tensor| tensor.name_in("gguf") == name)?;
        found.shape.iter().rev().nth(1).copied()
    };
    rows("blk.0.attn_q.weight").zip(rows("blk.0.attn_k.weight")).unwrap_or((0, 0))
}

/// A whole number, or the first of one for each layer.
fn first(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.get(0)?.as_u64())
}
