//! A packed weight as stored bytes of a leaf.

use apr_sdk::{PackedRows, PackedWeight, Quantizer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A packed weight, and what its rows are transposed into.
#[derive(Clone)]
pub struct Packed {
    /// The weight.
    pub weight: Arc<PackedWeight>,
    /// Decodes the blocks that rows become, in order to compare the values; `None` for F32.
    pub decoder: Option<Arc<dyn Quantizer>>,
    /// True if the values are those without the weight's factor, which is stored beside them.
    pub is_factored: bool,
    /// Pieces of its rows begin and end at multiples of so many columns; 0 if the scheme gives only whole rows.
    pub(super) column_unit: u64,
}

impl Packed {
    /// The rows whose values are wanted.
    pub(super) fn rows(&self) -> &PackedRows {
        let factored = self.weight.factored.as_ref().filter(|_| self.is_factored);
        factored.map_or(&self.weight.tensor.rows, |factored| &factored.rows)
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Packed) -> bool {
        let same = Arc::ptr_eq(&self.weight, &other.weight) || self.weight == other.weight;
        same && self.is_factored == other.is_factored
    }
}

impl Eq for Packed {}

impl Hash for Packed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let tensor = &self.weight.tensor;
        (&tensor.name, &tensor.shape, self.rows(), &tensor.strides).hash(state);
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packed").field(&self.weight.tensor.name).finish()
    }
}
