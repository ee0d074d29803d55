//! The codes of Q5_0 and Q5_1: four bits of each element, and a word with the fifth bits of all.

#![allow(unsafe_code, reason = "registers")]

use super::four_bits;
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
        let (high, mut codes) = (L::load(body), four_bits::codes::<L>(body.add(64)));
        unrolled!(n < 8, {
            codes[n] = L::or(codes[n], L::fifths(high, 4 * n));
        });
        codes
    }
}
