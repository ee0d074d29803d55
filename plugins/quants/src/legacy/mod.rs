//! The blocks of 32 elements whose scales are halves: Q4_0, Q4_1, Q5_0 and Q5_1.
//!
//! ```text
//! symmetric.rs   a scale, codes around their middle
//! affine.rs      a scale and the smallest element, codes from 0
//! ```
//!
//! Source: `quantize_row_*_ref` of ggml, and `quantize_row_*_impl` where importance is known.

pub mod affine;
pub mod symmetric;

use crate::nibbles::{ELEMENTS, lanes};
use crate::simd::Lanes;

/// How the codes of a block lie in its bytes.
pub trait Packing<const BYTES: usize> {
    /// Writes codes.
    fn pack(codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]);

    /// Writes codes that are in vectors.
    fn pack_vectors<V: Lanes>(v: V, codes: &lanes::Vectors<V::Ints>, block: &mut [u8; BYTES]);
}

/// What elements are multiplied by, from the scale before it is rounded to a half.
#[inline(always)]
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
