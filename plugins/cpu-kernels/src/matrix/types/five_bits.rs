//! The codes of Q5_0 and Q5_1: four bits of each element, and a word with the fifth bits of all.

#![allow(unsafe_code, reason = "registers")]

use crate::matrix::kernels::unrolled;
use crate::matrix::lanes::Lanes;

/// The code of an element, of a block's fifth bits and its other bits.
pub fn five_bits(high: &[u8], low: &[u8], element: usize) -> u8 {
    let low = low[element % 16] >> (element / 16 * 4) & 15;
    low | (high[element / 8] >> (element % 8) & 1) << 4
}

/// The codes of a block of 16 rows.
///
/// # Safety
/// `body` is a register of fifth bits and four of the others; the level's instructions are enabled.
#[inline(always)]
pub unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
    // SAFETY: as the caller says.
    unsafe {
        let (mask, high) = (L::splat(0x0f0f_0f0f), L::load(body));
        let mut codes = [mask; 8];
        unrolled!(n < 4, {
            let both = L::load(body.add(64 * (n + 1)));
            codes[n] = L::or(L::and(both, mask), fifth::<L>(high, 4 * n));
            codes[n + 4] = L::or(L::and(L::right(both, 4), mask), fifth::<L>(high, 4 * n + 16));
        });
        codes
    }
}

/// The fifth bits of four elements in a byte each, where they belong.
///
/// # Safety
/// The level's instructions are enabled.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "elements are below 32")]
unsafe fn fifth<L: Lanes>(high: L::Bytes, element: usize) -> L::Bytes {
    // SAFETY: as the caller says.
    unsafe {
        let four = L::right(high, element as u32);
        // Bit n goes to bit 8n + 4.
        let bit = |n: u32| L::and(L::left(four, 7 * n + 4), L::splat(0x10 << (8 * n)));
        L::or(L::or(bit(0), bit(1)), L::or(bit(2), bit(3)))
    }
}
