//! The stable codes of the layout contract's rules (`tensor-layout-contract.yaml`): what breaks a rule, whoever finds it,
//! names it by these.

/// A 2-D weight has the shape that the architecture's table says; in ggml's order it is the reverse.
pub const SHAPE: &str = "F-LAYOUT-CONTRACT-001";
/// The output (`lm_head`) is `[vocabulary, hidden]`.
pub const OUTPUT_SHAPE: &str = "F-LAYOUT-CONTRACT-002";
/// A tensor of one dimension has the same shape everywhere.
pub const VECTOR_SHAPE: &str = "F-LAYOUT-CONTRACT-003";
/// A payload has rows x blocks of a row x bytes of a block.
pub const BYTES: &str = "F-LAYOUT-CONTRACT-004";
/// An embedding is less than 50 % zeros, a weight less than 80 %.
pub const DENSITY: &str = "F-DATA-QUALITY-001";
/// Every value is finite.
pub const FINITE: &str = "F-DATA-QUALITY-002";
/// The L2 norm is above 1e-6, and values vary.
pub const DISTRIBUTION: &str = "F-DATA-QUALITY-003";
/// The rows of an embedding at 10, 50 and 90 % are not zero.
pub const SPOT: &str = "F-DATA-QUALITY-004";
/// Less than 25 % of an embedding's rows are zero.
pub const DEAD_ROWS: &str = "F-DATA-QUALITY-005";
/// The statistics lie in the range that the architecture's table states for the role.
pub const RANGE: &str = "E_RANGE";

/// What quantization loses of a tensor is less than what it keeps.
pub const LOSS: &str = "ROSETTA-QUANT-001";

/// The code of the rule that a wrong shape of a tensor of this role breaks.
pub fn shape_rule(role: Option<&str>, n_dims: usize) -> &'static str {
    match (role, n_dims) {
        (Some("output"), _) => OUTPUT_SHAPE,
        (_, 0 | 1) => VECTOR_SHAPE,
        _ => SHAPE,
    }
}
