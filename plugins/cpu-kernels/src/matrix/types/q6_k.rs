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
use crate::matrix::kernels::super_block::{Blocks, Super, Take};
use crate::matrix::kernels::{Kernels, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{BAND, Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q6_K: Type = Type {
    dtype: DType::Q6_K,
    id: "tile16.q6_k.2",
    layout: Layout {
        elements: 256,
        bytes: 210,
        group: 2,
        band: BAND,
        heads: &[Field::halves(208, 1)],
        body: &[
            Field::words(192, 4),
            // The quarters, each in the order in which it is read: low bits of its first and of its second half, high bits.
            Field::words(0, 4),
            Field::words(32, 4),
            Field::words(128, 4),
            Field::words(16, 4),
            Field::words(48, 4),
            Field::words(144, 4),
            Field::words(64, 4),
            Field::words(96, 4),
            Field::words(160, 4),
            Field::words(80, 4),
            Field::words(112, 4),
            Field::words(176, 4),
        ],
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

#[allow(clippy::cast_possible_truncation, reason = "numbers of sub-blocks are below 16")]
// SAFETY: the head of a block is 2 bytes, the body 208, times 16.
unsafe impl Super for Kind {
    const BYTES: usize = 210;
    const HEAD: usize = 2;
    const GROUP: usize = 2;
    const SUB: usize = 16;
    const MINIMA: bool = false;
    const MOST: i32 = 63;
    const ZERO: i32 = 32;

    type Scales<L: Lanes> = [L::Bytes; 4];

    #[inline(always)]
    unsafe fn scales<L: Lanes>(_head: *const u8, body: *const u8) -> [L::Bytes; 4] {
        // SAFETY: as the caller says; the body begins with four registers of scales.
        unsafe { [L::load(body), L::load(body.add(64)), L::load(body.add(128)), L::load(body.add(192))] }
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
    unsafe fn quarter<L: Lanes, T: Take<L>, const QUARTER: usize>(body: *const u8, take: &mut T) {
        let (half, odd) = (QUARTER / 2, QUARTER % 2);
        // SAFETY: as the caller says; behind 4 registers of scales are 12 for each quarter.
        unsafe {
            let (mask, two) = (L::splat(0x0f0f_0f0f), L::splat(0x3030_3030));
            let quarter = body.add(64 * (4 + 12 * QUARTER));
            if L::FEW {
                // One sub-block after the other: what two of them need is loaded twice.
                for sub in 0..4 {
                    let mut codes = [mask; 4];
                    let (shift, low) = (sub as u32 / 2 * 4, quarter.add(64 * 4 * (sub % 2)));
                    unrolled!(n < 4, {
                        let (low, high) = (L::load(low.add(64 * n)), L::load(quarter.add(64 * (8 + n))));
                        let high =
                            if sub == 3 { L::right(high, 2) } else { L::left(high, 4 - 2 * sub as u32) };
                        codes[n] = L::or(L::and(L::right(low, shift), mask), L::and(high, two));
                    });
                    take.take(8 * half + 2 * sub + odd, &codes);
                }
                return;
            }
            let mut codes = [[mask; 4]; 4];
            let mut read = [mask; 12];
            unrolled!(n < 12, {
                read[n] = L::load(quarter.add(64 * n));
            });
            unrolled!(n < 4, {
                let (a, b, high) = (read[n], read[4 + n], read[8 + n]);
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
