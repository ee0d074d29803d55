//! The types that the user asked for.

use apr_sdk::{DType, Options};
use std::path::PathBuf;

/// The types that the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Quantization {
    /// The name of the recipe (`--quantize`).
    pub recipe: Option<String>,
    /// The model whose types the tensors get, each that of its counterpart (`--recipe-from`).
    pub recipe_from: Option<PathBuf>,
    /// True if a tensor that cannot get the type of its counterpart keeps its own, instead of failing.
    pub keep_impossible: bool,
    /// Options for the recipe's plugin: `tensor-type`, `output-tensor-type`, `token-embedding-type`,
    /// `leave-output-tensor`, `pure`.
    pub options: Options,
    /// The type for tensors that are floats (`--precision`).
    pub precision: Option<DType>,
    /// True if `precision` concerns packed weights too, unless a block type holds every value of them, which they become
    /// then: what llama.cpp's `--outtype` does.
    pub repack: bool,
    /// The type for tensors that are blocks (`--dequantize`).
    pub dequantize: Option<DType>,
    /// True if tensors that are already blocks stay unchanged.
    pub keep_quantization: bool,
    /// True if blocks may become blocks of another type.
    pub allow_requantize: bool,
    /// The file with the importance matrix.
    pub importance: Option<PathBuf>,
    /// Use the matrix only for tensors whose names contain one of these texts; for all, if empty.
    pub include_weights: Vec<String>,
    /// Do not use it for tensors whose names contain one of these.
    pub exclude_weights: Vec<String>,
    /// The size of the weights to aim for; decides on the recipe.
    pub target: Option<SizeTarget>,
}

impl Quantization {
    /// Returns whether nothing is requested.
    pub fn is_nothing(&self) -> bool {
        !self.has_recipe()
            && self.precision.is_none()
            && self.dequantize.is_none()
            && self.importance.is_none()
    }

    /// Returns whether a recipe chooses the types.
    pub fn has_recipe(&self) -> bool {
        self.recipe.is_some() || self.recipe_from.is_some() || self.target.is_some()
    }
}

/// The size of the weights to aim for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeTarget {
    /// At most so many bytes of weights.
    Bytes(u64),
    /// At most so many bits per weight, averaged over all tensors.
    BitsPerWeight(f64),
}
