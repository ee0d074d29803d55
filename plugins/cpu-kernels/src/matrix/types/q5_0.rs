//! Q5_0: 32 elements in 22 bytes.
//!
//! ```text
//! offset  0   half d
//!         2   u32 high    bit l is the fifth bit of element l
//!         6   u8 q[16]    four bits per element: byte l holds element l, and above it element l + 16
//!
//! element = d * (q - 16)
//! ```

#![allow(unsafe_code, reason = "registers")]

use super::five_bits::{codes, five_bits};
use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::Kernels;
use crate::matrix::kernels::small::{Blocks, Small};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q5_0: Type = Type {
    dtype: DType::Q5_0,
    id: "tile16.q5_0.1",
    layout: Layout {
        elements: 32,
        bytes: 22,
        group: 2,
        band: 1,
        heads: &[Field::halves(0, 1)],
        body: &[Field::words(2, 5)],
    },
    rounding: Rounding::Blocks32,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (element, out) in out.iter_mut().enumerate() {
        *out = d * f32::from(i16::from(five_bits(&block[2..6], &block[6..22], element)) - 16);
    }
}

/// How its codes lie.
struct Kind;

// SAFETY: the body of a block is 20 bytes, times 16.
unsafe impl Small for Kind {
    const BYTES: usize = 22;
    const GROUP: usize = 2;
    const MINIMUM: bool = false;
    const MOST: i32 = 31;
    const ZERO: i32 = 16;

    #[inline(always)]
    unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
        // SAFETY: as the caller says; there are five registers.
        unsafe { codes::<L>(body) }
    }
}
