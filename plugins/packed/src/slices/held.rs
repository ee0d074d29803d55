//! What is read of slices: the codes, scales and zero points of a row, from the bytes that are held.

use super::Slices;
use crate::layout::{index, too_short};
use crate::numbers::values;
use apr_sdk::{DType, Error, HeldRows, PackedRows, Result};
use std::ops::Range;

/// The bytes of elements of a part.
fn bytes_of(part: &[u8], from: u64, len: u64, each: u64) -> Result<&[u8]> {
    let end = from.checked_add(len).and_then(|end| end.checked_mul(each)).ok_or_else(too_short)?;
    part.get(index(from * each)..index(end)).ok_or_else(too_short)
}

/// Bytes of an element of scales.
fn width(dtype: DType) -> u64 {
    dtype.info().map_or(1, |info| info.block_bytes.into())
}

/// Rows held, and what is read from them.
pub(super) struct Held<'a> {
    pub(super) slices: Slices,
    pub(super) rows: Range<u64>,
    parts: &'a [&'a [u8]],
}

impl<'a> Held<'a> {
    pub(super) fn new(packed: &PackedRows, held: &HeldRows<'a>) -> Result<Held<'a>> {
        Ok(Held { slices: Slices::of(packed)?, rows: held.rows.clone(), parts: held.parts })
    }

    pub(super) fn part(&self, at: usize) -> &'a [u8] {
        self.parts.get(at).copied().unwrap_or_default()
    }

    /// The codes of a row.
    pub(super) fn codes(&self, row: u64, out: &mut [u8]) -> Result<()> {
        let slices = &self.slices;
        let (unit, codes) = (slices.unit, self.part(0));
        if slices.words == 0 {
            let first = self.rows.start / slices.fields;
            let from = (row / slices.fields - first) * slices.row_len;
            let words = bytes_of(codes, from, slices.row_len, unit)?;
            self.field(words, slices.shift(row % slices.fields), out);
            return Ok(());
        }
        let flat = slices.flat(&(row..row + 1));
        // What is held are the runs one after the other: in the order of the elements.
        let mut from = flat.start - slices.flat(&self.rows).start;
        let mut out = out;
        for (field, _, len) in slices.runs(flat) {
            let words = bytes_of(codes, from, len, unit)?;
            let (now, rest) = out.split_at_mut(index(len).min(out.len()));
            self.field(words, slices.shift(field), now);
            (from, out) = (from + len, rest);
        }
        Ok(())
    }

    /// One field of words.
    fn field(&self, words: &[u8], shift: u64, out: &mut [u8]) {
        let (mask, flip) = (0xffu8 >> (8 - self.slices.bits), self.slices.flip);
        if self.slices.unit == 1 {
            out.iter_mut().zip(words).for_each(|(out, word)| *out = word >> (shift & 7) & mask ^ flip);
        } else {
            let words = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
            out.iter_mut().zip(words).for_each(|(out, word)| {
                let [low, ..] = (word >> (shift & 31)).to_le_bytes();
                *out = low & mask ^ flip;
            });
        }
    }

    /// Scales or zeros of a row, from part `at`: of each element if they lie across, and otherwise of each group.
    fn scales(&self, (at, dtype): (usize, DType), row: u64, out: &mut Vec<f32>) -> Result<()> {
        let slices = &self.slices;
        let (flat, part, each) = (slices.flat(&(row..row + 1)), self.part(at), width(dtype));
        out.clear();
        if slices.is_across {
            let mut element = flat.start;
            while element < flat.end {
                let column = element % slices.group;
                let len = (slices.group - column).min(flat.end - element);
                values(dtype, bytes_of(part, column, len, each)?, out)?;
                element += len;
            }
        } else {
            let first = slices.flat(&self.rows).start / slices.group;
            let groups = flat.start / slices.group..flat.end.div_ceil(slices.group);
            values(dtype, bytes_of(part, groups.start - first, groups.end - groups.start, each)?, out)?;
        }
        // Without a way out in between, the compiler makes vectors of it.
        if out.iter().fold(true, |all, value| all & value.is_finite()) {
            return Ok(());
        }
        Err(Error::malformed("a scale or zero point is infinite or NaN"))
    }

    /// Scales and zeros of a row; zeros are as many, or none.
    pub(super) fn scales_and_zeros(
        &self,
        row: u64,
        scales: &mut Vec<f32>,
        zeros: &mut Vec<f32>,
    ) -> Result<()> {
        self.scales((1, self.slices.scales), row, scales)?;
        if let Some(dtype) = self.slices.zeros {
            self.scales((2, dtype), row, zeros)?;
        }
        if self.slices.is_divisor && scales.contains(&0.0) {
            return Err(Error::malformed("a scale used as a divisor is 0"));
        }
        Ok(())
    }

    /// Pieces of a row that share a scale: where each begins, and how long it is. For scales that do not lie across.
    pub(super) fn pieces(&self, row: u64) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (group, flat) = (self.slices.group, self.slices.flat(&(row..row + 1)));
        let (start, mut at) = (flat.start, flat.start);
        std::iter::from_fn(move || {
            let len = (group - at % group).min(flat.end - at);
            let piece = (index(at - start), index(len));
            at += len;
            (len > 0).then_some(piece)
        })
    }
}
