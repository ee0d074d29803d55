//! Q4_K: 256 elements in 144 bytes, eight sub-blocks of 32.
//!
//! ```text
//! offset  0   half d          what the codes of scales are multiplied with
//!         2   half dmin       what the codes of minima are multiplied with
//!         4   u8 scales[12]   six bits per scale and per minimum; see `six_bits`
//!        16   u8 q[128]       four bits per element: byte l of 32 holds element l of 64, and above it element l + 32
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
pub static Q4_K: Type = Type {
    dtype: DType::Q4_K,
    id: "tile16.q4_k.2",
    layout: Layout {
        elements: 256,
        bytes: 144,
        group: 1,
        band: BAND,
        heads: &[Field::halves(0, 2)],
        body: &[Field::words(4, 3), Field::words(16, 32)],
    },
    rounding: Rounding::Blocks256,
    kernels: Kernels::of::<Blocks<Kind>>(),
    decode,
};

fn decode(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    for (pair, q) in block[16..144].chunks_exact(32).enumerate() {
        for high in 0..2 {
            let (scale, minimum) = six_bits(&block[4..16], 2 * pair + high);
            let (scale, minimum) = (d * f32::from(scale), dmin * f32::from(minimum));
            for (l, q) in q.iter().enumerate() {
                out[64 * pair + 32 * high + l] = scale * f32::from(q >> (4 * high) & 15) - minimum;
            }
        }
    }
}

/// How its codes lie.
struct Kind;

#[allow(clippy::cast_possible_truncation, reason = "numbers of sub-blocks are below 16")]
// SAFETY: the head of a block is 4 bytes, the body 140, times 16.
unsafe impl Super for Kind {
    const BYTES: usize = 144;
    const HEAD: usize = 4;
    const GROUP: usize = 1;
    const SUB: usize = 32;
    const MINIMA: bool = true;
    const MOST: i32 = 15;
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
        // SAFETY: as the caller says; codes begin behind 3 registers of scales, 8 for each quarter.
        unsafe {
            let mask = L::splat(0x0f0f_0f0f);
            let (mut low, mut high) = ([mask; 8], [mask; 8]);
            unrolled!(n < 8, {
                let both = L::load(body.add(64 * (3 + 8 * QUARTER + n)));
                low[n] = L::and(both, mask);
                high[n] = L::and(L::right(both, 4), mask);
            });
            take.take(2 * QUARTER, &low);
            take.take(2 * QUARTER + 1, &high);
        }
    }
}
