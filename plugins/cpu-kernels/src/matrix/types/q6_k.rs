//! Q6_K: 256 elements in 210 bytes, sixteen sub-blocks of 16.
//!
//! ```text
//! offset  0   u8 low[128]     the low four bits: of each half of 128 elements, byte l of 64 holds element l, and above
//!                             it element l + 64
//!       128   u8 high[64]     the high two bits: of each half, byte l of 32 holds elements l, l + 32, l + 64, l + 96
//!       192   i8 scales[16]
//!       208   half d
//!
//! element = d * scale * (q - 32)
//! ```

#![allow(unsafe_code, reason = "registers")]

use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::super_block::{Blocks, Minima, Super, Take};
use crate::matrix::kernels::{Kernels, Stream, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q6_K: Type = Type {
    dtype: DType::Q6_K,
    id: "tile16.q6_k.1",
    layout: Layout {
        elements: 256,
        bytes: 210,
        group: 2,
        heads: &[Field::halves(208, 1)],
        body: &[Field::words(192, 4), Field::words(0, 32), Field::words(128, 16)],
    },
    rounding: Rounding::Blocks256,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let d = half(block, 208);
    for (column, out) in out.iter_mut().enumerate() {
        let (half, l) = (column / 128, column % 128);
        let low = block[64 * half + l % 64] >> (l / 64 * 4) & 15;
        let high = block[128 + 32 * half + l % 32] >> (l / 32 * 2) & 3;
        let scale = block[192 + column / 16].cast_signed();
        *out = d * f32::from(scale) * f32::from(i16::from(low | high << 4) - 32);
    }
}

/// How its codes lie.
struct Kind;

// SAFETY: the head of a block is 2 bytes, the body 208, times 16.
unsafe impl Super for Kind {
    const BYTES: usize = 210;
    const HEAD: usize = 2;
    const GROUP: usize = 2;
    const SUB: usize = 16;
    const MINIMA: Minima = Minima::None;
    const MOST: i32 = 63;
    const ZERO: i32 = 32;

    type Scales<L: Lanes> = [L::Bytes; 4];

    #[inline(always)]
    unsafe fn scales<L: Lanes>(_head: *const u8, body: &Stream) -> [L::Bytes; 4] {
        // SAFETY: as the caller says; the body begins with four registers of scales.
        unsafe { [body.load::<L>(0), body.load::<L>(64), body.load::<L>(128), body.load::<L>(192)] }
    }

    #[inline(always)]
    fn minima<L: Lanes>(scales: &[L::Bytes; 4]) -> [L::Bytes; 4] {
        *scales
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(scales: &[L::Bytes; 4], sub: usize) -> L::Ints {
        // SAFETY: as the caller says.
        unsafe { L::signed_byte(scales[sub / 4], sub as u32 % 4) }
    }

    /// Columns 0 to 15 or 16 to 31 of each 32 of a half.
    #[inline(always)]
    unsafe fn quarter<L: Lanes, T: Take<L>, const QUARTER: usize>(body: &Stream, take: &mut T) {
        let (half, odd) = (QUARTER / 2, QUARTER % 2);
        // SAFETY: as the caller says; behind 4 registers of scales are 16 of low bits for each half, then 8 of high bits.
        unsafe {
            let (mask, two) = (L::splat(0x0f0f_0f0f), L::splat(0x3030_3030));
            let mut codes = [[mask; 4]; 4];
            unrolled!(n < 4, {
                let a = body.load::<L>(64 * (4 + 16 * half + 4 * odd + n));
                let b = body.load::<L>(64 * (4 + 16 * half + 8 + 4 * odd + n));
                let high = body.load::<L>(64 * (36 + 8 * half + 4 * odd + n));
                codes[0][n] = L::or(L::and(a, mask), L::and(L::left(high, 4), two));
                codes[1][n] = L::or(L::and(b, mask), L::and(L::left(high, 2), two));
                codes[2][n] = L::or(L::and(L::right(a, 4), mask), L::and(high, two));
                codes[3][n] = L::or(L::and(L::right(b, 4), mask), L::and(L::right(high, 2), two));
            });
            take.take(8 * half + odd, &codes[0]);
            take.take(8 * half + 2 + odd, &codes[1]);
            take.take(8 * half + 4 + odd, &codes[2]);
            take.take(8 * half + 6 + odd, &codes[3]);
        }
    }
}
