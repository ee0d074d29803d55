//! Codes of four bits, as blocks of 32 keep them: byte l of 16 holds element l, and above it element l + 16.

#![allow(unsafe_code, reason = "registers")]

use crate::matrix::kernels::unrolled;
use crate::matrix::lanes::Lanes;

/// The codes of a block of 16 rows.
///
/// # Safety
/// `body` is four registers; the level's instructions are enabled.
#[inline(always)]
pub unsafe fn codes<L: Lanes>(body: *const u8) -> [L::Bytes; 8] {
    // SAFETY: as the caller says.
    unsafe {
        let mask = L::splat(0x0f0f_0f0f);
        let mut codes = [mask; 8];
        unrolled!(n < 4, {
            let both = L::load(body.add(64 * n));
            codes[n] = L::and(both, mask);
            codes[n + 4] = L::and(L::right(both, 4), mask);
        });
        codes
    }
}
