//! The block types: one file each, and one line here.

mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
mod tq1_0;
mod tq2_0;

use crate::simd::Level;
use apr_sdk::{DType, Error, Result};

/// A block type.
pub struct BlockType {
    /// Which it is.
    pub dtype: DType,
    /// Whether it is never encoded without importance.
    pub needs_importance: bool,
    /// Decodes whole blocks, with the vector instructions that may be used; `out` has as many elements.
    pub decode: fn(level: Level, blocks: &[u8], out: &mut [f32]),
    /// Encodes whole rows of whole blocks; `out` has as many bytes.
    pub encode: fn(rows: &Rows<'_>, out: &mut [u8]) -> Result<()>,
}

/// Rows to be encoded.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// All elements, row after row.
    pub values: &'a [f32],
    /// Elements of a row: whole blocks.
    pub row_len: usize,
    /// The importance of each column.
    pub importance: Option<&'a [f32]>,
    /// The vector instructions that may be used.
    pub level: Level,
}

/// Every block type.
pub static TYPES: &[&BlockType] = &[
    &q4_0::Q4_0,
    &q4_1::Q4_1,
    &q5_0::Q5_0,
    &q5_1::Q5_1,
    &q8_0::Q8_0,
    &q8_1::Q8_1,
    &q1_0::Q1_0,
    &q2_0::Q2_0,
    &tq1_0::TQ1_0,
    &tq2_0::TQ2_0,
    &mxfp4::MXFP4,
    &nvfp4::NVFP4,
    &q2_k::Q2_K,
    &q3_k::Q3_K,
    &q4_k::Q4_K,
    &q5_k::Q5_K,
    &q6_k::Q6_K,
    &q8_k::Q8_K,
    &iq4_nl::IQ4_NL,
    &iq4_xs::IQ4_XS,
    &iq1_s::IQ1_S,
    &iq1_m::IQ1_M,
    &iq2_xxs::IQ2_XXS,
    &iq2_xs::IQ2_XS,
    &iq2_s::IQ2_S,
    &iq3_xxs::IQ3_XXS,
    &iq3_s::IQ3_S,
];

/// The block type of a dtype.
///
/// # Errors
/// Unsupported if there is none.
pub fn block_type(dtype: DType) -> Result<&'static BlockType> {
    let found = TYPES.iter().find(|of| of.dtype == dtype);
    found.copied().ok_or_else(|| Error::unsupported(format!("{dtype} is not one of ggml's block types")))
}
