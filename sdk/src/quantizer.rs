//! Quantizer plugins: blocks to floats and back, and the recipes that choose a type for each tensor. An outline: the
//! manifest kind is known, the host lists such plugins, and nothing calls them yet.

use crate::{DType, Options, Result};

/// What a recipe may know of a tensor.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorFacts {
    /// Its name in the model.
    pub name: String,
    /// What it is in its architecture, if that is known.
    pub role: Option<String>,
    /// Its name in every dialect of its architecture's table: (dialect, name).
    pub names: Vec<(String, String)>,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Its element type.
    pub dtype: Option<DType>,
    /// Whether an importance matrix has values for it.
    pub has_importance: bool,
}

/// What a recipe may know of the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelFacts {
    /// The architecture's id.
    pub architecture: Option<String>,
    /// The canonical configuration, as JSON.
    pub config: String,
}

/// Encodes and decodes block types (design section 4).
pub trait Quantizer: Send + Sync {
    /// The types it knows.
    fn dtypes(&self) -> Vec<DType>;

    /// Decodes whole rows of `row_len` elements.
    ///
    /// # Errors
    /// Malformed if `blocks` are not whole rows.
    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()>;

    /// Encodes whole rows of `row_len` elements; `importance` has `row_len` values, shared by the rows of the call.
    ///
    /// # Errors
    /// Malformed for non-finite input; Unsupported for a type that cannot be written.
    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()>;

    /// The names of its mixtures.
    fn recipes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The type for each tensor under a recipe, and whether it needs importance; `None` keeps a tensor.
    ///
    /// # Errors
    /// InvalidArgument for an unknown recipe or option.
    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Option<(DType, bool)>>>;
}
