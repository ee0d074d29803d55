//! The 12 bytes in which Q4_K and Q5_K keep a scale and a minimum of six bits for each of eight sub-blocks.
//!
//! ```text
//! for j of 0..4   byte j       scale j, and above it the top two bits of scale j + 4
//!                 byte j + 4   minimum j, and above it the top two bits of minimum j + 4
//!                 byte j + 8   the low four bits of scale j + 4, and above them those of minimum j + 4
//! ```

#![allow(unsafe_code, reason = "registers")]

use crate::matrix::lanes::Lanes;

/// The scale and the minimum of a sub-block.
pub fn six_bits(scales: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (scales[j] & 63, scales[j + 4] & 63);
    }
    (scales[j + 4] & 15 | scales[j - 4] >> 6 << 4, scales[j + 4] >> 4 | scales[j] >> 6 << 4)
}

/// Those of 16 rows: a byte for each sub-block, four in each lane.
#[derive(Clone, Copy)]
pub struct SixBits<L: Lanes> {
    /// The scales.
    pub scales: [L::Bytes; 2],
    /// The minima.
    pub minima: [L::Bytes; 2],
}

impl<L: Lanes> SixBits<L> {
    /// Loads them from the three registers at the beginning of a body.
    ///
    /// # Safety
    /// They are there; the level's instructions are enabled.
    #[inline(always)]
    pub unsafe fn load(body: *const u8) -> SixBits<L> {
        // SAFETY: as the caller says.
        unsafe {
            let [a, b, c] = [L::load(body), L::load(body.add(64)), L::load(body.add(128))];
            let (six, four, two) = (L::splat(0x3f3f_3f3f), L::splat(0x0f0f_0f0f), L::splat(0x3030_3030));
            let scales = L::or(L::and(c, four), L::and(L::right(a, 2), two));
            let minima = L::or(L::and(L::right(c, 4), four), L::and(L::right(b, 2), two));
            SixBits { scales: [L::and(a, six), scales], minima: [L::and(b, six), minima] }
        }
    }
}
