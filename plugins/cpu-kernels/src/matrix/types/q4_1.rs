//! Q4_1: 32 elements in 20 bytes.
//!
//! ```text
//! offset  0   half d
//!         2   half m
//!         4   u8 q[16]    four bits per element: byte l holds element l, and above it element l + 16
//!
//! element = d * q + m
//! ```

#![allow(unsafe_code, reason = "registers")]

use super::four_bits::codes;
use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::Kernels;
use crate::matrix::kernels::small::{Blocks, Small};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q4_1: Type = Type {
    dtype: DType::Q4_1,
    id: "tile16.q4_1.1",
    layout: Layout {
        elements: 32,
        bytes: 20,
        group: 1,
        band: 1,
        heads: &[Field::halves(0, 2)],
        body: &[Field::words(4, 4)],
    },
    rounding: Rounding::Blocks32,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (l, q) in block[4..20].iter().enumerate() {
        out[l] = d * f32::from(q & 15) + m;
        out[l + 16] = d * f32::from(q >> 4) + m;
    }
}

/// How its codes lie.
struct Kind;

// SAFETY: the body of a block is 16 bytes, times 16.
unsafe impl Small for Kind {
    const BYTES: usize = 20;
    const GROUP: usize = 1;
    const MINIMUM: bool = true;
    const MOST: i32 = 15;
    const ZERO: i32 = 0;

    #[inline(always)]
    unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
        // SAFETY: as the caller says; there are four registers.
        unsafe { codes::<L>(body) }
    }
}
