//! F16: a float of 2 bytes, IEEE 754 binary16.

#![allow(unsafe_code, reason = "registers")]

use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::Kernels;
use crate::matrix::kernels::floats::{Float, Floats};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static F16: Type = Type {
    dtype: DType::F16,
    id: "tile16.f16.1",
    layout: Layout { elements: 1, bytes: 2, group: 1, band: 1, heads: &[], body: &[Field::halves(0, 1)] },
    rounding: Rounding::None,
    kernels: Kernels::of::<Floats<Kind>>(),
    decode: |block, out| out[0] = half(block, 0),
};

/// How it is loaded.
struct Kind;

// SAFETY: 32 bytes are 16 elements.
unsafe impl Float for Kind {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u8) -> L::Floats {
        // SAFETY: as the caller says.
        unsafe { L::load_halves(from) }
    }
}
