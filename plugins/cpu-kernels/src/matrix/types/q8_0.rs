//! Q8_0: 32 elements in 34 bytes.
//!
//! ```text
//! offset  0   half d
//!         2   i8 q[32]
//!
//! element = d * q
//! ```

#![allow(unsafe_code, reason = "registers")]

use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::small::{Blocks, Small};
use crate::matrix::kernels::{Kernels, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q8_0: Type = Type {
    dtype: DType::Q8_0,
    id: "tile16.q8_0.1",
    layout: Layout {
        elements: 32,
        bytes: 34,
        group: 2,
        band: 1,
        heads: &[Field::halves(0, 1)],
        body: &[Field::words(2, 8)],
    },
    rounding: Rounding::Blocks32,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (out, q) in out.iter_mut().zip(&block[2..34]) {
        *out = d * f32::from(q.cast_signed());
    }
}

/// How its codes lie.
struct Kind;

// SAFETY: the body of a block is 32 bytes, times 16.
unsafe impl Small for Kind {
    const BYTES: usize = 34;
    const GROUP: usize = 2;
    const MINIMUM: bool = false;
    const MOST: i32 = 255;
    const ZERO: i32 = 128;

    #[inline(always)]
    unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
        // SAFETY: as the caller says; there are eight registers.
        unsafe {
            let sign = L::splat(0x8080_8080);
            let mut codes = [sign; 8];
            unrolled!(n < 8, {
                codes[n] = L::xor(L::load(body.add(64 * n)), sign);
            });
            codes
        }
    }
}
