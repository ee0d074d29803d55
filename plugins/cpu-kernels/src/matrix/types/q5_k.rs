//! Q5_K: 256 elements in 176 bytes, eight sub-blocks of 32.
//!
//! ```text
//! offset  0   half d          what the codes of scales are multiplied with
//!         2   half dmin       what the codes of minima are multiplied with
//!         4   u8 scales[12]   six bits per scale and per minimum; see `six_bits`
//!        16   u8 high[32]     bit j of byte l is the fifth bit of element l of sub-block j
//!        48   u8 q[128]       four bits per element: byte l of 32 holds element l of 64, and above it element l + 32
//!
//! element = d * scale * q - dmin * minimum
//! ```

#![allow(unsafe_code, reason = "registers")]

use super::six_bits::{SixBits, six_bits};
use super::{Type, half};
use crate::matrix::activations::Rounding;
use crate::matrix::kernels::super_block::{Blocks, Super, Take};
use crate::matrix::kernels::{Kernels, unrolled};
use crate::matrix::lanes::Lanes;
use crate::matrix::layout::{BAND, Field, Layout};
use apr_sdk::DType;

/// The type.
pub static Q5_K: Type = Type {
    dtype: DType::Q5_K,
    id: "tile16.q5_k.2",
    layout: Layout {
        elements: 256,
        bytes: 176,
        group: 1,
        band: BAND,
        heads: &[Field::halves(0, 2)],
        body: &[Field::words(4, 3), Field::words(16, 8), Field::words(48, 32)],
    },
    rounding: Rounding::Blocks256,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    for (pair, q) in block[48..176].chunks_exact(32).enumerate() {
        for high in 0..2 {
            let sub = 2 * pair + high;
            let (scale, minimum) = six_bits(&block[4..16], sub);
            let (scale, minimum) = (d * f32::from(scale), dmin * f32::from(minimum));
            for (l, q) in q.iter().enumerate() {
                let q = q >> (4 * high) & 15 | (block[16 + l] >> sub & 1) << 4;
                out[32 * sub + l] = scale * f32::from(q) - minimum;
            }
        }
    }
}

/// How its codes lie.
struct Kind;

#[allow(clippy::cast_possible_truncation, reason = "numbers of sub-blocks are below 16")]
// SAFETY: the head of a block is 4 bytes, the body 172, times 16.
unsafe impl Super for Kind {
    const BYTES: usize = 176;
    const HEAD: usize = 4;
    const GROUP: usize = 1;
    const SUB: usize = 32;
    const MINIMA: bool = true;
    const MOST: i32 = 31;
    const ZERO: i32 = 0;

    type Scales<L: Lanes> = SixBits<L>;

    #[inline(always)]
    unsafe fn scales<L: Lanes>(_head: *const u8, body: *const u8) -> SixBits<L> {
        // SAFETY: as the caller says; the body begins with three registers of scales.
        unsafe { SixBits::load(body) }
    }

    #[inline(always)]
    fn minima<L: Lanes>(scales: &SixBits<L>) -> [L::Bytes; 4] {
        let [low, high] = scales.minima;
        [low, high, low, high]
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(scales: &SixBits<L>, sub: usize) -> L::Ints {
        // SAFETY: as the caller says.
        unsafe { L::byte(scales.scales[sub / 4], sub as u32 % 4) }
    }

    #[inline(always)]
    unsafe fn quarter<L: Lanes, T: Take<L>, const QUARTER: usize>(body: *const u8, take: &mut T) {
        // SAFETY: as the caller says; behind 3 registers of scales are 8 of fifth bits, then 8 of codes for each quarter.
        unsafe {
            let (mask, fifth) = (L::splat(0x0f0f_0f0f), L::splat(0x1010_1010));
            let (mut low, mut high) = ([mask; 8], [mask; 8]);
            // All fifth bits first: the processor fetches ahead what is read in the order in which it lies.
            let mut fifths = [mask; 8];
            unrolled!(n < 8, {
                fifths[n] = L::load(body.add(64 * (3 + n)));
            });
            unrolled!(n < 8, {
                let (bits, both) = (fifths[n], L::load(body.add(64 * (11 + 8 * QUARTER + n))));
                // Bit 2 * QUARTER and the one above it come to bit 4.
                let of_low = if QUARTER < 2 {
                    L::left(bits, 4 - 2 * QUARTER as u32)
                } else {
                    L::right(bits, 2 * QUARTER as u32 - 4)
                };
                low[n] = L::or(L::and(both, mask), L::and(of_low, fifth));
                high[n] = L::or(L::and(L::right(both, 4), mask), L::and(L::right(of_low, 1), fifth));
            });
            take.take(2 * QUARTER, &low);
            take.take(2 * QUARTER + 1, &high);
        }
    }
}
