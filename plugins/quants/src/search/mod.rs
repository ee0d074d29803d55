//! The searches for the scale of a group of weights, each as ggml's scalar code has it, shared by block types.
//!
//! ```text
//! symmetric.rs   codes around zero, the best of 19 scales             make_qx_quants
//! descent.rs     codes around zero, one code at a time                make_q3_quants
//! affine.rs      codes from 0, a scale and a minimum                  make_qkx2_quants
//! weighted.rs    the same where importance is known                   make_qkx3_quants
//! positive.rs    codes from 0 without a minimum, for scales           make_qp_quants
//! lanes/         each of them with a group in each lane
//! ```
//!
//! The order of all float operations is ggml's, and decides bits: sums are chains in the order of the elements, and
//! `a * b * c` is `(a * b) * c`.

mod affine;
mod descent;
pub mod lanes;
mod positive;
mod symmetric;
mod weighted;

pub use affine::{Affine, Error, Steps, affine};
pub use descent::descent;
pub use positive::positive;
pub use symmetric::symmetric;
pub use weighted::weighted;

/// A group whose greatest magnitude is below this counts as zero.
pub const ZERO_BELOW: f32 = 1e-15;

/// A code as the float it is in every product.
#[inline(always)]
#[allow(clippy::cast_precision_loss, reason = "codes are below 2²⁴")]
pub(crate) fn float(code: i32) -> f32 {
    code as f32
}

/// C's conversion of an `int` to `uint8_t`.
#[inline(always)]
fn byte(code: i32) -> u8 {
    code.to_le_bytes()[0]
}

/// The first value of the greatest magnitude, and that magnitude.
#[inline(always)]
fn greatest(values: &[f32]) -> (f32, f32) {
    let step = |(max, amax): (f32, f32), &value: &f32| {
        if value.abs() > amax { (value, value.abs()) } else { (max, amax) }
    };
    values.iter().fold((0.0, 0.0), step)
}
