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
            codes[n] = L::or(L::and(both, mask), L::fifths(high, 4 * n));
            codes[n + 4] = L::or(L::and(L::right(both, 4), mask), L::fifths(high, 4 * n + 16));
        });
        codes
    }
}
