//! Answers people's first questions about a model: its name, its size and dimensions, and what it takes to
//! run it. Everything follows from the header, which the architecture's table interprets.

mod chat_template;
mod tokenizer;

pub use tokenizer::Tokenizer;

use crate::architecture::config::ConfigScope;
use crate::architecture::description::{Known, known};
use crate::architecture::language::expression::{Scalar, Scope};
use crate::architecture::tensor_spec::tensor_specs;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::schemes::companions::named_after;
use crate::registry::Registry;
use apr_sdk::{Bytes, Error, ErrorKind, Model, Record, Result, checked_elements, escape};
use serde::Serialize;
use serde_json::Value as Json;

/// A model in a few lines. Whatever its header does not tell is left out; sizes are in bytes.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Summary {
    /// The name that its makers gave it.
    pub name: Option<String>,
    /// The licence, as its makers name it.
    pub license: Option<String>,
    /// The models it was made from.
    pub base_models: Vec<String>,
    /// The architecture's display name, from its table.
    pub architecture_name: Option<String>,
    /// Number of elements in all tensors.
    pub parameters: u64,
    /// The number of these used per token, for a mixture of experts.
    pub active_parameters: Option<u64>,
    /// Total payload of all tensors, as stored.
    pub weights_bytes: u64,
    /// The recipe it was quantized with.
    pub quantization: Option<String>,
    /// Bits of payload per parameter; scales of codes are none.
    pub bits_per_weight: Option<f64>,
    /// Number of layers.
    pub layers: Option<u64>,
    /// The width of the hidden state between layers.
    pub embedding_width: Option<u64>,
    /// The width inside a layer's feed-forward network.
    pub feed_forward_width: Option<u64>,
    /// Number of rows in the embedding.
    pub vocabulary: Option<u64>,
    /// Number of query heads.
    pub heads: Option<u64>,
    /// Number of key and value heads.
    pub kv_heads: Option<u64>,
    /// Width of a head.
    pub head_width: Option<u64>,
    /// Number of experts per layer.
    pub experts: Option<u64>,
    /// Number of experts used per token.
    pub experts_used: Option<u64>,
    /// The context length it was made for, in tokens.
    pub context: Option<u64>,
    /// The attention window in tokens, for the layers that have one.
    pub sliding_window: Option<u64>,
    /// The rotary position embedding.
    pub rope: Option<Rope>,
    /// The size of the key-value cache.
    pub kv_cache: Option<KvCache>,
    /// Weights and cache together: the minimum for running it.
    pub memory_bytes: Option<u64>,
    /// An outline of the tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// The family of its chat template, by its usual name, or `other`.
    pub chat_template: Option<String>,
    /// The reason why the tokenizer could not be read, if there is one that could not.
    #[serde(skip)]
    pub not_understood: Option<Error>,
}

/// The rotary position embedding.
#[derive(Clone, Debug, Serialize)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f64,
    /// The kind of scaling, if any.
    pub scaling: Option<String>,
    /// The scaling factor.
    pub factor: Option<f64>,
}

/// The key-value cache in F16, with all tokens in every layer.
#[derive(Clone, Debug, Serialize)]
pub struct KvCache {
    /// Number of tokens.
    pub tokens: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Tokens in the cache, unless the user says otherwise or the model was made for fewer.
const TOKENS: u64 = 4096;

/// Summarizes an opened model; `tokens` is the capacity of the cache.
///
/// # Errors
/// Any error from reading. A card or a configuration that is not understood is left out: converting the model reports why.
pub fn summary(engine: &Engine, opened: &OpenedModel, tokens: Option<u64>) -> Result<Summary> {
    let tokenizer = match opened.tokenizer(engine) {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        tokenizer => tokenizer,
    };
    let known = tokenizer.as_ref().ok().and_then(Option::as_ref);
    let mut summary = summary_of(engine, &opened.model, known, &|bytes| opened.fetch(bytes), tokens)?;
    summary.not_understood = tokenizer.err();
    Ok(summary)
}

/// The warning for a tokenizer that cannot be read.
pub fn not_understood(error: &Error) -> String {
    let file = error.file().map(|file| format!(" ({})", escape(file, 400))).unwrap_or_default();
    format!("the tokenizer is not supported: {}{file}", error.message())
}

/// Summarizes a model with this tokenizer. `fetch` reads what is in its files, `tokens` is the capacity of
/// the cache.
///
/// # Errors
/// As [`summary`].
pub fn summary_of(
    engine: &Engine,
    model: &Model,
    tokenizer: Option<&Bytes>,
    fetch: &dyn Fn(&Bytes) -> Result<Bytes>,
    tokens: Option<u64>,
) -> Result<Summary> {
    let mut summary = Summary::default();
    for tensor in &model.tensors {
        summary.parameters = summary.parameters.saturating_add(checked_elements(&tensor.shape)?);
        summary.weights_bytes = summary.weights_bytes.saturating_add(tensor.stored_len()?);
    }
    // The scales of codes are no weights, but part of what weights take.
    let scales =
        named_after(&model.tensors).map(|(_, scales)| checked_elements(&model.tensors[scales].shape));
    let scales = scales.sum::<Result<u64>>()?;
    let weights = summary.parameters.saturating_sub(scales);
    let bits = summary.weights_bytes as f64 * 8.0 / weights as f64;
    summary.bits_per_weight = Some(bits).filter(|bits| bits.is_finite());
    summary.quantization = recipe_of(&engine.registry, model);
    if let Some(card) = &model.model_card {
        summary.read_card(fetch(card)?.inline().unwrap_or_default());
    }
    let tokenizer = tokenizer.map(fetch).transpose()?;
    if let Some((tokenizer, templates)) = tokenizer.and_then(|json| tokenizer::outline(json.inline()?)) {
        summary.tokenizer = Some(tokenizer);
        let template = templates.get("default").or_else(|| templates.values().next());
        summary.chat_template = template.and_then(Json::as_str).map(|t| chat_template::family(t).to_owned());
    }
    // A configuration that contradicts itself is reported by translation; here it is ignored.
    if let Ok(Some(known)) = known(engine, model, None) {
        summary.read_config(&known, model, tokens);
        summary.active_parameters = summary.active(engine, model)?;
    }
    Ok(summary)
}

impl Summary {
    fn read_card(&mut self, json: &[u8]) {
        let card: Json = serde_json::from_slice(json).unwrap_or_default();
        let id = || card.get("ids")?.get(0)?.as_str();
        let name = text(&card, "name").or_else(id).or_else(|| text(&card, "folder"));
        self.name = name.map(str::to_owned);
        // `other` only means that the name is stated separately.
        let named = text(&card, "license_name");
        let license = text(&card, "license").filter(|license| *license != "other" || named.is_none());
        self.license = license.or(named).map(str::to_owned);
        let bases = card.get("base_models").and_then(Json::as_array).into_iter().flatten();
        self.base_models = bases.filter_map(base_model).collect();
    }

    fn read_config(&mut self, known: &Known<'_>, model: &Model, tokens: Option<u64>) {
        let dimensions = known.dimensions(model);
        let scope = ConfigScope::new(known.table, &known.config, &dimensions);
        let value = |name: &str| scope.value(name).ok().flatten();
        let number = |name: &str| match value(name)? {
            Scalar::Int(n) => u64::try_from(n).ok(),
            _ => None,
        };
        self.architecture_name = Some(known.table.name.clone());
        self.layers = number("num_hidden_layers");
        self.embedding_width = number("hidden_size");
        self.feed_forward_width = number("moe_intermediate_size").or_else(|| number("intermediate_size"));
        self.vocabulary = number("vocab_size");
        self.heads = number("num_attention_heads");
        self.kv_heads = number("num_key_value_heads").or(self.heads);
        self.head_width = number("head_dim");
        self.experts = number("num_local_experts").filter(|n| *n > 0);
        self.experts_used = number("num_experts_per_tok").filter(|_| self.experts.is_some());
        self.context = number("max_position_embeddings");
        let is_off = value("use_sliding_window") == Some(Scalar::Bool(false));
        self.sliding_window = number("sliding_window").filter(|n| *n > 0 && !is_off);
        if self.heads.is_some() && known.table.rope != "none" && !known.table.rope.is_empty() {
            let scaling = value("rope_scaling_type").and_then(|kind| match kind {
                Scalar::Text(kind) if kind != "default" => Some(kind),
                _ => None,
            });
            let factor = value("rope_scaling_factor").and_then(float).filter(|_| scaling.is_some());
            let theta = value("rope_theta").and_then(float);
            self.rope = theta.map(|theta| Rope { theta, scaling, factor });
        }
        let tokens = tokens.unwrap_or_else(|| self.context.map_or(TOKENS, |context| context.min(TOKENS)));
        // If keys and values share one projection, its output is what is cached.
        let joined = number("kv_lora_rank").zip(number("qk_rope_head_dim")).map(|(rank, rope)| rank + rope);
        let values = joined.or_else(|| self.kv_heads?.checked_mul(self.head_width?)?.checked_mul(2));
        let values = values.filter(|_| is_decoder(known));
        let bytes =
            values.and_then(|values| values.checked_mul(self.layers?)?.checked_mul(2)?.checked_mul(tokens));
        self.kv_cache = bytes.map(|bytes| KvCache { tokens, bytes });
        self.memory_bytes = self.kv_cache.as_ref().and_then(|kv| kv.bytes.checked_add(self.weights_bytes));
    }

    /// All parameters except those of experts that a token does not use.
    fn active(&self, engine: &Engine, model: &Model) -> Result<Option<u64>> {
        let Some((experts, used)) = self.experts.zip(self.experts_used) else { return Ok(None) };
        let Ok(specs) = tensor_specs(engine, model, None) else { return Ok(None) };
        let mut idle = 0u128;
        for (number, tensor) in model.tensors.iter().enumerate() {
            if specs.of(number).role.as_deref().is_some_and(|role| role.starts_with("experts.")) {
                idle += u128::from(checked_elements(&tensor.shape)?);
            }
        }
        if idle == 0 {
            return Ok(None);
        }
        let idle = idle * u128::from(experts.saturating_sub(used)) / u128::from(experts);
        Ok(u64::try_from(idle).ok().and_then(|idle| self.parameters.checked_sub(idle)))
    }
}

/// The id of a model that another was made from, or its name.
fn base_model(base: &Json) -> Option<String> {
    let name = text(base, "name");
    if let Some(id) = text(base, "id").or_else(|| repository(text(base, "repo_url")?)) {
        return Some(id.to_owned());
    }
    match text(base, "organization").zip(name) {
        Some((organization, name)) => Some(format!("{organization}/{name}")),
        None => name.map(str::to_owned),
    }
}

fn text<'j>(json: &'j Json, key: &str) -> Option<&'j str> {
    json.get(key)?.as_str()
}

fn float(value: Scalar) -> Option<f64> {
    match value {
        Scalar::Float(x) => Some(x),
        Scalar::Int(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

/// The recipe that a model was quantized with, as it says itself: by name, or by the records of a recipe, whose usual
/// name counts.
pub fn recipe_of(registry: &Registry, model: &Model) -> Option<String> {
    model.recipe.clone().or_else(|| recorded_recipe(registry, model))
}

fn recorded_recipe(registry: &Registry, model: &Model) -> Option<String> {
    if !model.tensors.iter().any(|tensor| tensor.dtype.is_block()) {
        return None;
    }
    let foreign = model.foreign_of(&model.format)?;
    let mut found: Option<(String, Vec<Record>)> = None;
    for quantizer in registry.quantizers() {
        for recipe in quantizer.recipes().unwrap_or_default() {
            let mut records = quantizer.records(&recipe.name).unwrap_or_default();
            records.retain(|(format, ..)| *format == model.format);
            if records.is_empty() || records.iter().any(|(_, key, value)| foreign.get(key) != Some(value)) {
                continue;
            }
            match &found {
                None => found = Some((recipe.name, records)),
                Some((_, first)) if *first == records => {}
                Some(_) => return None,
            }
        }
    }
    found.map(|(name, _)| name)
}

/// `ORG/NAME`, if an address ends that way.
fn repository(url: &str) -> Option<&str> {
    let (host, path) = url.strip_prefix("https://")?.split_once('/')?;
    (!host.is_empty() && path.matches('/').count() == 1 && !path.ends_with('/')).then_some(path)
}

/// Returns whether it generates tokens one after another: it has a head, and no encoder.
fn is_decoder(known: &Known<'_>) -> bool {
    let mut roles = known.table.rules.iter().filter_map(|rule| rule.role.as_deref());
    roles.clone().any(|role| role == "output") && !roles.any(|role| role.starts_with("encoder."))
}

#[cfg(test)]
mod tests {
    use super::repository;

    #[test]
    fn a_repository_is_two_names_behind_a_host() {
        assert_eq!(repository("https://hub.example/org/Model-7B"), Some("org/Model-7B"));
        for other in
            ["org/Model-7B", "https://hub.example/Model", "https://hub.example/a/b/c", "https://x/a/"]
        {
            assert_eq!(repository(other), None, "{other}");
        }
    }
}
