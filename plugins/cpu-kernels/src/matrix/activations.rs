//! Rows of activations, rounded as the matrices that they are multiplied with need them.
//!
//! ```text
//! token      codes: an i8 per column; then a record per block
//! Blocks32   per 32 columns: f32 d, f32 d * sum, i32 -8 * sum, 4 bytes unused
//! Blocks256  per 256 columns: i32 -32 * sum of 16 [16], low and high digits of the sums of 16 [16 + 16] and of the
//!            sums of 32 [8 + 8], f32 d, 12 bytes unused
//! None       an f32 per column
//! ```
//!
//! An element is d * code. The digits are of base 128, so that sum = 128 * high + low and each fits an i8.

#![allow(unsafe_code, reason = "several workers fill the tokens of one buffer")]

use crate::level::{Level, versions};
use apr_sdk::{Error, Result};
use std::cell::UnsafeCell;
use std::ops::Range;

/// What a kernel makes of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rounding {
    /// Nothing: they stay floats of 4 bytes.
    None,
    /// Codes of 8 bits with a scale per 32.
    Blocks32,
    /// Codes of 8 bits with a scale per 256.
    Blocks256,
}

impl Rounding {
    /// Every rounding.
    #[cfg(test)]
    pub const ALL: [Rounding; 3] = [Rounding::None, Rounding::Blocks32, Rounding::Blocks256];

    /// Columns of a block, and bytes of its record.
    const fn block(self) -> (usize, usize) {
        match self {
            Rounding::None => (1, 3),
            Rounding::Blocks32 => (32, 16),
            Rounding::Blocks256 => (256, 128),
        }
    }
}

/// A line of the cache.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; LINE]);

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Room for rows of activations, in one rounding.
pub struct Activations {
    rounding: Rounding,
    columns: usize,
    tokens: usize,
    /// Lines of a token. It is odd, so that the same column of many tokens does not share one place in the cache.
    lines: usize,
    cells: Box<[UnsafeCell<Line>]>,
}

// SAFETY: the cells are plain bytes. They are written through a shared reference by `fill` alone, whose callers see to
// it that no other thread reads or writes the same token meanwhile.
unsafe impl Sync for Activations {}

impl Activations {
    /// Room for `tokens` rows of `columns` columns, whole blocks of the rounding. All are zero.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub fn new(rounding: Rounding, columns: usize, tokens: usize) -> Result<Activations> {
        let (block, record) = rounding.block();
        assert!(
            columns.is_multiple_of(block),
            "{columns} columns are not a multiple of the block size {block}"
        );
        let lines = (columns + columns / block * record).div_ceil(LINE) | 1;
        let mut cells = Vec::new();
        cells.try_reserve_exact(lines.saturating_mul(tokens)).map_err(|_| {
            let bytes = lines.saturating_mul(tokens).saturating_mul(LINE);
            Error::io(format!("cannot allocate {bytes} bytes of memory")).hint("use fewer rows in a step")
        })?;
        cells.resize_with(lines * tokens, || UnsafeCell::new(Line([0; LINE])));
        Ok(Activations { rounding, columns, tokens, lines, cells: cells.into_boxed_slice() })
    }

    /// How they are rounded.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// Columns of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows that there is room for.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Rounds a row and keeps it as that of `token`. A block with a number that is not finite becomes NaN.
    ///
    /// # Safety
    /// Meanwhile, no other thread fills the same token, and none multiplies with it.
    pub unsafe fn fill(&self, level: Level, token: usize, values: &[f32]) {
        assert_eq!(values.len(), self.columns, "a row of activations has the wrong length");
        // SAFETY: the caller sees to it that nothing else reads or writes the token meanwhile.
        let bytes = unsafe { &mut *self.token(token) };
        match self.rounding {
            Rounding::None => {
                for (to, from) in bytes.chunks_exact_mut(4).zip(values) {
                    to.copy_from_slice(&from.to_le_bytes());
                }
            }
            Rounding::Blocks32 => blocks_of_32(level, values, bytes),
            Rounding::Blocks256 => blocks_of_256(level, values, bytes),
        }
    }

    /// A token's row as it was rounded.
    #[allow(dead_code, reason = "for tests and benches")]
    pub fn values(&self, token: usize) -> Vec<f32> {
        // SAFETY: as for `multiply`: nobody fills a token that is read (the contract of `fill`).
        let bytes = unsafe { &*self.token(token) };
        let float = |at: usize| f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (0..self.columns)
            .map(|column| {
                let code = f32::from(bytes[column].cast_signed());
                match self.rounding {
                    Rounding::None => float(4 * column),
                    Rounding::Blocks32 => float(self.columns + column / 32 * 16) * code,
                    Rounding::Blocks256 => float(self.columns + column / 256 * 128 + 112) * code,
                }
            })
            .collect()
    }

    /// The bytes of a token.
    fn token(&self, token: usize) -> *mut [u8] {
        let cells: &[UnsafeCell<Line>] = &self.cells[self.range(token)];
        let first = UnsafeCell::raw_get(cells.as_ptr());
        std::ptr::slice_from_raw_parts_mut(first.cast::<u8>(), cells.len() * LINE)
    }

    /// The bytes of a token.
    #[cfg(test)]
    pub(super) fn bytes(&self, token: usize) -> &[u8] {
        // SAFETY: as for `values`.
        unsafe { &*self.token(token) }
    }

    /// The first token, and the bytes from each token to the next.
    pub(super) fn memory(&self) -> (*const u8, usize) {
        (UnsafeCell::raw_get(self.cells.as_ptr()).cast::<u8>(), self.lines * LINE)
    }

    fn range(&self, token: usize) -> Range<usize> {
        token * self.lines..(token + 1) * self.lines
    }
}

versions! {
    /// Rounds a row in blocks of 32: codes, then records.
    blocks_of_32(values: &[f32], bytes: &mut [u8]) -> () {
        let (codes, records) = bytes.split_at_mut(values.len());
        let (values, codes) = (values.as_chunks::<32>().0, codes.as_chunks_mut::<32>().0);
        for ((values, codes), record) in values.iter().zip(codes).zip(records.chunks_exact_mut(16)) {
            let d = round(values, codes);
            let sum = sum(codes);
            record[..4].copy_from_slice(&d.to_le_bytes());
            record[4..8].copy_from_slice(&(d * sum as f32).to_le_bytes());
            record[8..12].copy_from_slice(&(-8 * sum).to_le_bytes());
        }
    }

    /// Rounds a row in blocks of 256: codes, then records.
    blocks_of_256(values: &[f32], bytes: &mut [u8]) -> () {
        let (codes, records) = bytes.split_at_mut(values.len());
        let (values, codes) = (values.as_chunks::<256>().0, codes.as_chunks_mut::<256>().0);
        for ((values, codes), record) in values.iter().zip(codes).zip(records.chunks_exact_mut(128)) {
            let d = round(values, codes);
            let mut sums = [0i32; 16];
            for (sum_of_16, codes) in sums.iter_mut().zip(codes.as_chunks::<16>().0) {
                *sum_of_16 = sum(codes);
            }
            for (n, sum) in sums.iter().enumerate() {
                record[4 * n..4 * n + 4].copy_from_slice(&(-32 * sum).to_le_bytes());
                (record[64 + n], record[80 + n]) = digits(*sum);
            }
            for (n, pair) in sums.as_chunks::<2>().0.iter().enumerate() {
                (record[96 + n], record[104 + n]) = digits(pair[0] + pair[1]);
            }
            record[112..116].copy_from_slice(&d.to_le_bytes());
        }
    }
}

/// Rounds a block to codes of -127 to 127; gives what they are to be multiplied with.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the codes lie in -127 to 127")]
fn round<const N: usize>(values: &[f32; N], codes: &mut [u8; N]) -> f32 {
    /// Adding it leaves no bits behind the point, of numbers that are not large: to nearest, ties to even.
    const ROUNDER: f32 = 12_582_912.0;
    const MAGNITUDE: u32 = 0x7fff_ffff;
    // Magnitudes are in the order of their bits, and NaN is beyond infinity: nothing gets lost.
    let largest = values.iter().fold(0, |largest, value| largest.max(value.to_bits() & MAGNITUDE));
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
        codes.fill(0);
        return f32::NAN;
    }
    let inverse = 127.0 / largest;
    if !inverse.is_finite() {
        // Zero, or so small that no product with it is more than that.
        codes.fill(0);
        return 0.0;
    }
    for (code, value) in codes.iter_mut().zip(values) {
        let rounded = value * inverse + ROUNDER;
        *code = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()) as u8;
    }
    largest / 127.0
}

/// The sum of codes.
#[inline(always)]
fn sum<const N: usize>(codes: &[u8; N]) -> i32 {
    codes.iter().map(|code| i32::from(code.cast_signed())).sum()
}

/// The low and the high digit of a sum of up to 32 codes, of base 128.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both fit an i8")]
fn digits(sum: i32) -> (u8, u8) {
    let high = (sum + 64) >> 7;
    ((sum - 128 * high) as u8, high as u8)
}
