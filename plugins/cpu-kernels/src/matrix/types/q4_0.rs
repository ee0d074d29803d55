//! Q4_0: 32 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d
//!         2   u8 q[16]    four bits per element: byte l holds element l, and above it element l + 16
//!
//! element = d * (q - 8)
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
pub static Q4_0: Type = Type {
    dtype: DType::Q4_0,
    id: "tile16.q4_0.1",
    layout: Layout {
        elements: 32,
        bytes: 18,
        group: 2,
        band: 1,
        heads: &[Field::halves(0, 1)],
        body: &[Field::words(2, 4)],
    },
    rounding: Rounding::Blocks32,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (l, q) in block[2..18].iter().enumerate() {
        out[l] = d * f32::from(i16::from(q & 15) - 8);
        out[l + 16] = d * f32::from(i16::from(q >> 4) - 8);
    }
}

/// How its codes lie.
struct Kind;

// SAFETY: the body of a block is 16 bytes, times 16.
unsafe impl Small for Kind {
    const BYTES: usize = 18;
    const GROUP: usize = 2;
    const MINIMUM: bool = false;
    const MOST: i32 = 15;
    const ZERO: i32 = 8;

    #[inline(always)]
    unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
        // SAFETY: as the caller says; there are four registers.
        unsafe { codes::<L>(body) }
    }
}
