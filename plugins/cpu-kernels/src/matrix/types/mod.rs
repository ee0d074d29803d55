//! The element types: one file each, and one line here.

mod bf16;
mod f16;
mod f32;
mod five_bits;
mod four_bits;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod six_bits;

use super::activations::Rounding;
use super::kernels::Kernels;
use super::layout::Layout;
use apr_sdk::{DType, Error, Result};

/// An element type that matrices may have.
pub struct Type {
    /// Which it is.
    pub dtype: DType,
    /// The id of its layout.
    pub id: &'static str,
    /// How its bytes lie in an image.
    pub layout: Layout,
    /// What it makes of activations.
    pub rounding: Rounding,
    /// Its products.
    pub kernels: Kernels,
    /// Decodes a plain block.
    pub decode: fn(block: &[u8], out: &mut [f32]),
}

/// Every type.
pub static TYPES: &[&Type] = &[
    &f32::F32,
    &f16::F16,
    &bf16::BF16,
    &q4_0::Q4_0,
    &q4_1::Q4_1,
    &q5_0::Q5_0,
    &q5_1::Q5_1,
    &q8_0::Q8_0,
    &q4_k::Q4_K,
    &q5_k::Q5_K,
    &q6_k::Q6_K,
];

/// The type of a dtype.
///
/// # Errors
/// Unsupported if there is none, naming those that there are.
pub fn of(dtype: DType) -> Result<&'static Type> {
    let found = TYPES.iter().find(|of| of.dtype == dtype);
    found.copied().ok_or_else(|| {
        let known = TYPES.iter().map(|of| of.dtype.name()).collect::<Vec<_>>().join(", ");
        Error::unsupported(format!("matrices of {dtype} cannot be multiplied, only those of {known}"))
            .hint("convert the model to one of these types")
    })
}

/// The half at an offset.
fn half(block: &[u8], at: usize) -> f32 {
    apr_sdk::half::from_f16(u16::from_le_bytes([block[at], block[at + 1]]))
}
