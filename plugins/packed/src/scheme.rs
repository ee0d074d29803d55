//! What a scheme is: a way to announce, name and store packed weights.

use crate::model::{Config, Found, Model};
use crate::{
    awq, bitnet, bitsandbytes, comfy, compressed_tensors, derived, factors, fp8, gptq, hqq, mlx, modelopt,
    mxfp4, refused, rows, torchao,
};
use apr_sdk::Result;

/// A scheme.
pub struct Scheme {
    /// Its name, for messages about tensors that two schemes claim.
    pub name: &'static str,
    /// What states that weights are of this scheme.
    pub states: States,
    /// Finds its weights.
    ///
    /// # Errors
    /// Malformed for parts that are missing or do not fit; Unsupported for what is recognised and not known.
    pub understand: fn(&Model<'_>, &mut Found) -> Result<()>,
}

/// What states that a model's weights are of a scheme. Where another is stated, it has none.
pub enum States {
    /// An object of the configuration of which this holds.
    Config(fn(&Config<'_>) -> bool),
    /// Such an object, or tensors whose names end so.
    Said {
        /// Whether an object states it.
        config: fn(&Config<'_>) -> bool,
        /// Endings of tensors' names.
        marks: &'static [&'static str],
    },
    /// Its weights themselves, whatever else is stated: their types, or their format's own description.
    Itself,
}

impl States {
    /// Whether an object of the configuration states the scheme.
    pub fn holds_of(&self, config: &Config<'_>) -> bool {
        match self {
            States::Config(states) | States::Said { config: states, .. } => states(config),
            States::Itself => false,
        }
    }

    /// Whether a tensor of the model states it.
    pub fn is_marked(&self, model: &Model<'_>) -> bool {
        match self {
            States::Said { marks, .. } => marks.iter().any(|mark| model.ending(mark).next().is_some()),
            _ => false,
        }
    }
}

/// All schemes, in the order in which they are asked: what a format says itself comes first; those that their configuration names come before those that names and
/// shapes tell.
pub static SCHEMES: &[&Scheme] = &[
    &derived::SCHEME,
    &refused::SCHEME,
    &factors::SCHEME,
    &comfy::SCHEME,
    &compressed_tensors::SCHEME,
    &mxfp4::SCHEME,
    &bitsandbytes::SCHEME,
    &modelopt::SCHEME,
    &mlx::SCHEME,
    &hqq::SCHEME,
    &bitnet::SCHEME,
    &torchao::SCHEME,
    &gptq::SCHEME,
    &awq::SCHEME,
    &fp8::SCHEME,
    &rows::SCHEME,
];
