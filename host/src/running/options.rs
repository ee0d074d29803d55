//! The options for loading a model.

use super::backend::Backend;
use apr_sdk::{DType, Options};
use std::path::PathBuf;

/// Positions that a context has unless the user says otherwise, if the model was trained for at least so many.
const CONTEXT: u32 = 8192;

/// The purpose for which a model is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Logits for the next token.
    #[default]
    Logits,
    /// One vector for a text, pooled as the model says, or the mean where it does not say, of length 1.
    Embedding,
    /// The last hidden state of each token.
    Hidden,
    /// Logits, or the last hidden state of each token of a model that has no head.
    Any,
}

/// Options for loading a model.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The architecture that the user named.
    pub arch: Option<String>,
    /// The backend.
    pub backend: Backend,
    /// The number of its device.
    pub device: u32,
    /// The backend's own options.
    pub options: Options,
    /// Number of threads that compute.
    pub threads: usize,
    /// Positions that there is room for; `None` for what the model was trained for, but at most `usual_context`.
    pub context: Option<u32>,
    /// See `context`.
    pub usual_context: u32,
    /// Sequences that there is room for, each with the whole context.
    pub sequences: u32,
    /// The type of keys and values: F32, F16 or Q8_0.
    pub cache: DType,
    /// The recipe to quantize with while loading.
    pub quantize: Option<String>,
    /// True if weights in blocks are loaded as F32, with which no backend rounds activations.
    pub as_floats: bool,
    /// The purpose.
    pub wanted: Wanted,
    /// The folder where prepared weights are kept for the next time.
    pub keep_images: Option<PathBuf>,
    /// True if intermediate results can be read.
    pub taps: bool,
    /// True if the program measures its results, or, on a device that cannot do that, they can be read.
    pub measures: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            arch: None,
            backend: Backend::Auto,
            device: 0,
            options: Options::new(),
            threads: 1,
            context: None,
            usual_context: CONTEXT,
            sequences: 1,
            cache: DType::F16,
            quantize: None,
            as_floats: false,
            wanted: Wanted::Logits,
            keep_images: None,
            taps: false,
            measures: false,
        }
    }
}
