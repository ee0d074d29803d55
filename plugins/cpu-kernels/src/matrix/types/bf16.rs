//! BF16: the upper half of a float of 4 bytes.

#![allow(unsafe_code, reason = "registers")]

use super::Type;
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::Kernels;
use crate::matrix::kernels::floats::{Float, Floats};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;
use apr_sdk::half::from_bf16;

/// The type.
pub static BF16: Type = Type {
    dtype: DType::BF16,
    id: "tile16.bf16.1",
    layout: Layout { elements: 1, bytes: 2, group: 1, band: 1, heads: &[], body: &[Field::halves(0, 1)] },
    rounding: Rounding::None,
    kernels: Kernels::of::<Floats<Kind>>(),
    decode: |block, out| out[0] = from_bf16(u16::from_le_bytes([block[0], block[1]])),
};

/// How it is loaded.
struct Kind;

// SAFETY: 32 bytes are 16 elements.
unsafe impl Float for Kind {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u8) -> L::Floats {
        // SAFETY: as the caller says.
        unsafe { L::load_bfloats(from) }
    }
}
