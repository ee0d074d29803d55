//! Computed bytes: tensors that a table generates, and rows of zeros.

use apr_sdk::DType;
use std::sync::Arc;

/// Computed bytes, in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fill {
    /// The type of its elements.
    pub dtype: DType,
    /// The bytes, row-major and little-endian.
    pub bytes: Arc<[u8]>,
}
