//! Statements of Model Optimizer's configurations about each module.

use crate::model::{Config, Model};
use crate::stars;
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;

/// The way to pack that adds a product of two small matrices to each weight.
pub const LOW_RANK: &str = "NVFP4_SVD";

/// The way to pack whose activations are not meant to be narrowed to four bits.
pub const WIDE_ACTIVATIONS: &str = "W4A16_NVFP4";

/// The form in which codes and scales are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Pairs of floats in groups of 16, with a scale of scales.
    Nvfp4,
    /// Pairs of floats in groups of 32.
    Mxfp4,
    /// Floats of a byte in groups of 32.
    Mxfp8,
    /// Floats of a byte.
    Fp8,
    /// Integers of a byte.
    Int8,
    /// Pairs of integers.
    Int4,
}
use Stored::{Fp8, Int4, Int8, Mxfp4, Mxfp8, Nvfp4};

impl Stored {
    /// Bits and kind of its codes, as groups of modules state them.
    pub fn codes(self) -> (u64, &'static str) {
        match self {
            Nvfp4 | Mxfp4 => (4, "float"),
            Mxfp8 | Fp8 => (8, "float"),
            Int8 => (8, "int"),
            Int4 => (4, "int"),
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Nvfp4 => "NVFP4",
            Mxfp4 => "MXFP4",
            Mxfp8 => "MXFP8",
            Fp8 => "FP8",
            Int8 => "INT8",
            Int4 => "int4",
        }
    }
}

/// Ways to pack, by `quant_algo`, and what each stores: what the package writes of all, and, in other letters, of single modules.
const ALGORITHMS: [(&str, Stored); 28] = [
    ("NVFP4", Nvfp4),
    ("NVFP4_AWQ", Nvfp4),
    (LOW_RANK, Nvfp4),
    ("NVFP4_SVDQUANT", Nvfp4),
    (WIDE_ACTIVATIONS, Nvfp4),
    ("W4A8_NVFP4_FP8", Nvfp4),
    ("MXFP4", Mxfp4),
    ("W4A8_MXFP4_FP8", Mxfp4),
    ("W4A8_MXFP4_MXFP8", Mxfp4),
    ("MXFP8", Mxfp8),
    ("FP8", Fp8),
    ("FP8_PER_CHANNEL_PER_TOKEN", Fp8),
    ("FP8_PC_PT", Fp8),
    ("FP8_PB_WO", Fp8),
    ("FP8_PB_REAL", Fp8),
    ("FP8_BLOCK_SCALES", Fp8),
    ("INT8", Int8),
    ("INT8_SQ", Int8),
    ("INT8_WO", Int8),
    ("W8A16", Int8),
    ("W8A8_SQ_PER_CHANNEL", Int8),
    ("W8A8_SQ_PER_CHANNEL_PER_TENSOR_PLUGIN", Int8),
    ("W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN", Int8),
    ("W8A8_SQ_PER_TENSOR_PLUGIN", Int8),
    ("INT4_AWQ", Int4),
    ("W4A16", Int4),
    ("W4A16_AWQ", Int4),
    ("W4A8_AWQ", Int4),
];

/// The way to pack that says nothing: each module has its own.
const MIXED: &str = "MIXED_PRECISION";

/// Returns whether a configuration is of this scheme: by its method, or as its own file, which names a producer.
pub fn is_ours(config: &Config<'_>) -> bool {
    let is_method = config.text("quant_method").is_some_and(|name| name.starts_with("modelopt"));
    is_method || config.json.get("quantization").is_some_and(|inner| inner.get("quant_algo").is_some())
}

/// A configuration in either of its forms.
pub struct Stated<'a> {
    json: &'a Json,
}

/// The configuration of this scheme, if the model has one.
pub fn config<'a>(model: &'a Model<'_>) -> Option<Stated<'a>> {
    let config = model.configs.iter().find(|config| is_ours(config))?;
    let inner = config.json.get("quantization").filter(|inner| inner.get("quant_algo").is_some());
    Some(Stated { json: inner.unwrap_or(&config.json) })
}

impl Stated<'_> {
    /// The statement for a module: for itself, for a module it is in, or for all.
    fn of(&self, name: &str) -> &Json {
        let layers = self.json.get("quantized_layers");
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        let mut outward = ends.collect::<Vec<_>>().into_iter().rev();
        outward.find_map(|end| layers?.get(&name[..end])).unwrap_or(self.json)
    }

    /// The name of the way in which a module is packed.
    pub fn algorithm(&self, name: &str) -> Option<&str> {
        self.of(name).get("quant_algo").and_then(Json::as_str)
    }

    /// The form that a module's way to pack stores; `None` where none is stated for it.
    ///
    /// # Errors
    /// Unsupported, with the name, for a way that is not known.
    pub fn stores(&self, name: &str) -> Result<Option<Stored>> {
        let Some(algorithm) = self.algorithm(name) else { return Ok(None) };
        let upper = algorithm.to_ascii_uppercase();
        if upper == MIXED {
            return Ok(None);
        }
        if let Some((_, stored)) = ALGORITHMS.iter().find(|(known, _)| *known == upper) {
            return Ok(Some(*stored));
        }
        let algorithm = escape(algorithm, 80);
        let message = format!("modelopt weights packed by `{algorithm}` (`quant_algo`) are not supported");
        Err(Error::unsupported(message))
    }

    /// The length of groups that is stated for a module, whatever that is. Files of another tool's form have it in groups of modules.
    pub fn group(&self, name: &str) -> Option<&Json> {
        let in_groups = || self.weights(name)?.get("group_size");
        self.of(name).get("group_size").or_else(in_groups).filter(|size| !size.is_null())
    }

    /// The entry for weights of the group that a module is in.
    fn weights(&self, name: &str) -> Option<&Json> {
        let groups = self.json.get("config_groups")?.as_object()?;
        let has = |group: &&Json, target: &str| {
            let targets = group.get("targets").and_then(Json::as_array);
            targets.is_some_and(|targets| targets.iter().any(|one| one.as_str() == Some(target)))
        };
        let own = groups.values().find(|group| has(group, name));
        own.or_else(|| groups.values().find(|group| has(group, "Linear")))?.get("weights")
    }

    /// Fails for codes of which the group of their module says that they are others.
    ///
    /// # Errors
    /// Malformed, with both.
    pub fn check_group(&self, name: &str, stored: Stored) -> Result<()> {
        let Some(weights) = self.weights(name) else { return Ok(()) };
        let (own_bits, own_kind) = stored.codes();
        let bits = weights.get("num_bits").and_then(Json::as_u64).unwrap_or(own_bits);
        let kind = weights.get("type").and_then(Json::as_str).unwrap_or(own_kind);
        if (bits, kind) == (own_bits, own_kind) {
            return Ok(());
        }
        let message = format!(
            "the configuration's group of modules states codes of {bits} bits (`{}`), but its codes are those of {}",
            escape(kind, 40),
            stored.name()
        );
        Err(Error::malformed(message))
    }

    /// Returns whether a module is among those that are not packed. A `*` stands for any text.
    pub fn is_excluded(&self, name: &str) -> bool {
        let lists =
            ["exclude_modules", "ignore"].into_iter().filter_map(|key| self.json.get(key)?.as_array());
        lists.flatten().filter_map(Json::as_str).any(|pattern| stars::is_of(pattern, name))
    }
}
