//! F32: a float of 4 bytes.

#![allow(unsafe_code, reason = "registers")]

use super::Type;
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::Kernels;
use crate::matrix::kernels::floats::{Float, Floats};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static F32: Type = Type {
    dtype: DType::F32,
    id: "tile16.f32.1",
    layout: Layout { elements: 1, bytes: 4, group: 1, band: 1, heads: &[], body: &[Field::words(0, 1)] },
    rounding: Rounding::None,
    kernels: Kernels::of::<Floats<Kind>>(),
    decode: |block, out| out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
};

/// How it is loaded.
struct Kind;

// SAFETY: 64 bytes are 16 elements.
unsafe impl Float for Kind {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u8) -> L::Floats {
        // SAFETY: as the caller says.
        unsafe { L::load_floats(from.cast()) }
    }
}
