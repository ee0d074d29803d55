//! The stable codes of the layout contract's rules (`tensor-layout-contract.yaml`), used by every check that
//! finds a rule broken.

/// A 2-D weight has the shape in the architecture's table; in ggml's order, the reverse.
pub const SHAPE: &str = "F-LAYOUT-CONTRACT-001";
/// The output (`lm_head`) is `[vocabulary, hidden]`.
pub const OUTPUT_SHAPE: &str = "F-LAYOUT-CONTRACT-002";
/// A one-dimensional tensor has the same shape everywhere.
pub const VECTOR_SHAPE: &str = "F-LAYOUT-CONTRACT-003";
/// A payload's size is rows x blocks per row x bytes per block.
pub const BYTES: &str = "F-LAYOUT-CONTRACT-004";
/// Less than 50 % of an embedding is zero, and less than 80 % of a weight.
pub const DENSITY: &str = "F-DATA-QUALITY-001";
/// Every value is finite.
pub const FINITE: &str = "F-DATA-QUALITY-002";
/// The L2 norm is above 1e-6, and the values vary.
pub const DISTRIBUTION: &str = "F-DATA-QUALITY-003";
/// The rows at 10, 50 and 90 % of an embedding are not zero.
pub const SPOT: &str = "F-DATA-QUALITY-004";
/// Less than 25 % of an embedding's rows are zero.
pub const DEAD_ROWS: &str = "F-DATA-QUALITY-005";
/// The statistics are within the range that the architecture's table states for the tensor.
pub const RANGE: &str = "E_RANGE";

/// Quantization loses less of a tensor than it keeps.
pub const LOSS: &str = "ROSETTA-QUANT-001";

/// The code of the rule that a wrong shape breaks, for a tensor with this role.
pub fn shape_rule(role: Option<&str>, n_dims: usize) -> &'static str {
    match (role, n_dims) {
        (Some("output"), _) => OUTPUT_SHAPE,
        (_, 0 | 1) => VECTOR_SHAPE,
        _ => SHAPE,
    }
}
