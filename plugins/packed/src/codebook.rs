//! Codes of four bits that index a table of values, in blocks that ignore rows: NF4 and FP4 of bitsandbytes.
//!
//! ```text
//! part 0  codes      two in a byte, the upper bits first, over the flattened weight; the bytes may lie in wider elements
//! part 1  absmax     one for each block of the flattened weight: floats, or bytes that index part 3
//! part 2  table      F32 [16]
//! part 3  state      JSON, read when the weight was found
//! part 4  nested absmax  F32, one for each nested block of absmax; parts 4 and 5 only if absmax is bytes
//! part 5  nested table   F32 [256]
//!
//! value = table[code] * absmax        absmax = nested table[byte] * nested absmax + offset; every step is rounded to F32
//! ```

use crate::layout::{Layout, index, numbers, too_short};
use crate::numbers::values;
use apr_sdk::{DType, Error, HeldRows, PackedRows, PartBox, PartRange, Result};
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "codebook";

/// The layout.
pub struct Codebook;

/// How such a weight is stored.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Elements of a block.
    pub block: u64,
    /// Bytes of a stored element that holds codes.
    pub unit: u64,
    /// The type of absmax if it is floats.
    pub absmax: DType,
    /// If absmax is bytes: how many share a nested absmax, and what is added.
    pub nested: Option<(u64, f32)>,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

impl Blocks {
    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let (nested, offset) = self.nested.unwrap_or((0, 0.0));
        let (absmax, offset) = (u64::from(self.absmax.0), u64::from(offset.to_bits()));
        let numbers = vec![self.block, self.unit, absmax, nested, offset];
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Blocks> {
        let [block, unit, absmax, nested, offset] = numbers(packed)?;
        let short = |number: u64| u32::try_from(number).map_err(|_| Error::plugin("a number is too large"));
        let nested = (nested != 0).then_some((nested, f32::from_bits(short(offset)?)));
        let (block, unit, absmax) = (block.max(1), unit.max(1), DType(short(absmax)?));
        Ok(Blocks { block, unit, absmax, nested, rows: packed.rows, row_len: packed.row_len })
    }

    /// The elements of rows in the flattened weight.
    fn flat(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start * self.row_len..rows.end.max(rows.start) * self.row_len
    }

    /// The stored elements that hold the codes of these.
    fn units(&self, flat: &Range<u64>) -> Range<u64> {
        flat.start / 2 / self.unit..flat.end.div_ceil(2).div_ceil(self.unit)
    }
}

/// The absmax of blocks, as far as they are held.
struct Absmax<'a> {
    bytes: &'a [u8],
    first: u64,
    dtype: DType,
    nested: Option<(u64, f32)>,
    nested_absmax: Vec<f32>,
    nested_table: Vec<f32>,
    floats: Vec<f32>,
}

impl<'a> Absmax<'a> {
    fn new(blocks: &Blocks, held: &HeldRows<'a>) -> Result<Absmax<'a>> {
        let part = |at: usize| held.parts.get(at).copied().unwrap_or_default();
        let mut new = Absmax {
            bytes: part(1),
            first: blocks.flat(&held.rows).start / blocks.block,
            dtype: blocks.absmax,
            nested: blocks.nested,
            nested_absmax: Vec::new(),
            nested_table: Vec::new(),
            floats: Vec::new(),
        };
        if new.nested.is_some() {
            values(DType::F32, part(4), &mut new.nested_absmax)?;
            values(DType::F32, part(5), &mut new.nested_table)?;
        } else {
            values(new.dtype, new.bytes, &mut new.floats)?;
        }
        Ok(new)
    }

    fn of(&self, block: u64) -> Result<f32> {
        let at = index(block - self.first);
        let absmax = match self.nested {
            None => *self.floats.get(at).ok_or_else(too_short)?,
            Some((of_nested, offset)) => {
                let code = usize::from(*self.bytes.get(at).ok_or_else(too_short)?);
                let value = self.nested_table.get(code).ok_or_else(too_short)?;
                let nested = self.nested_absmax.get(index(block / of_nested)).ok_or_else(too_short)?;
                value * nested + offset
            }
        };
        if !absmax.is_finite() {
            return Err(Error::malformed(format!(
                "the absmax of block {block} is {absmax}, expected a finite number"
            )));
        }
        Ok(absmax)
    }
}

impl Layout for Codebook {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let blocks = Blocks::of(packed)?;
        let flat = blocks.flat(&rows);
        let run =
            |range: Range<u64>| PartRange::Boxes(vec![PartBox::run(range.start, range.end - range.start)]);
        let of_absmax =
            flat.start / blocks.block..flat.end.div_ceil(blocks.block).max(flat.start / blocks.block);
        // The state has been read: no bytes of it are needed again.
        let state = PartRange::Boxes(Vec::new());
        let mut found = vec![run(blocks.units(&flat)), run(of_absmax), PartRange::Whole, state];
        if blocks.nested.is_some() {
            found.extend([PartRange::Whole, PartRange::Whole]);
        }
        Ok(found)
    }

    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let blocks = Blocks::of(packed)?;
        let absmax = Absmax::new(&blocks, held)?;
        let codes = held.parts.first().copied().unwrap_or_default();
        let mut table = Vec::new();
        values(DType::F32, held.parts.get(2).copied().unwrap_or_default(), &mut table)?;
        let table: [f32; 16] = table.try_into().map_err(|_| too_short())?;
        if let Some(bad) = table.iter().find(|value| !value.is_finite()) {
            return Err(Error::malformed(format!(
                "a code maps to {bad} in `quant_map`, expected a finite number"
            )));
        }
        let first_byte = blocks.units(&blocks.flat(&held.rows)).start * blocks.unit;
        let (mut at, mut out) = (blocks.flat(&rows).start, out);
        while !out.is_empty() {
            let block = at / blocks.block;
            let len = index(blocks.block - at % blocks.block).min(out.len());
            let scale = absmax.of(block)?;
            let values = table.map(|value| value * scale);
            let from = index(at / 2 - first_byte);
            let to = from + (index(at % 2) + len).div_ceil(2);
            let codes = codes.get(from..to).ok_or_else(too_short)?;
            let (now, rest) = out.split_at_mut(len);
            run(&values, codes, at % 2 == 1, now);
            out = rest;
            at += u64::try_from(len).unwrap_or(u64::MAX);
        }
        Ok(())
    }
}

/// The values of codes, which begin with the upper bits of a byte, or the lower ones.
fn run(values: &[f32; 16], mut codes: &[u8], begins_low: bool, mut out: &mut [f32]) {
    if begins_low && let Some((code, rest)) = codes.split_first() {
        let (first, others) = out.split_at_mut(out.len().min(1));
        first.fill(values[usize::from(code & 15)]);
        (codes, out) = (rest, others);
    }
    let (pairs, last) = out.as_chunks_mut::<2>();
    for (out, code) in pairs.iter_mut().zip(codes) {
        *out = [values[usize::from(code >> 4)], values[usize::from(code & 15)]];
    }
    if let ([last], Some(code)) = (last, codes.get(pairs.len())) {
        *last = values[usize::from(code >> 4)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn blocks_cross_rows_and_rows_begin_within_a_byte() {
        // Three rows of five, in blocks of four; the table doubles, absmax is 1, 10, 100, 1000.
        let blocks = Blocks { block: 4, unit: 1, absmax: DType::F32, nested: None, rows: 3, row_len: 5 };
        let packed = blocks.packed();
        let codes = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xe0];
        let table: Vec<f32> = (0u8..16).map(|code| f32::from(code) * 2.0).collect();
        let (absmax, table) = ([1.0, 10.0, 100.0, 1000.0], bytes(&table));
        let all: Vec<f32> = (0u8..15).map(|at| f32::from(at) * 2.0 * absmax[usize::from(at / 4)]).collect();
        for rows in [0..3, 1..2, 2..3, 0..1] {
            let ranges = Codebook.ranges(&packed, rows.clone()).unwrap_or_default();
            let take = |at: usize, bytes: &[u8], each: usize| match &ranges[at] {
                PartRange::Boxes(boxes) => {
                    let (from, len) = (index(boxes[0].start) * each, index(boxes[0].dims[0].0) * each);
                    bytes[from..from + len].to_vec()
                }
                PartRange::Whole => bytes.to_vec(),
            };
            let (codes, absmax) = (take(0, &codes, 1), take(1, &bytes(&absmax), 4));
            let parts: [&[u8]; 4] = [&codes, &absmax, &table, &[]];
            let mut out = vec![0.0; index(rows.end - rows.start) * 5];
            let held = HeldRows { rows: rows.clone(), parts: &parts };
            assert!(Codebook.unpack(&packed, &held, rows.clone(), &mut out).is_ok());
            assert_eq!(out, all[index(rows.start) * 5..index(rows.end) * 5], "{rows:?}");
        }
    }

    #[test]
    fn nested_absmax_is_a_table_of_its_own() {
        let nested = Some((2, 0.5));
        let blocks = Blocks { block: 2, unit: 1, absmax: DType::U8, nested, rows: 1, row_len: 6 };
        let nested_table: Vec<f32> = (0u8..=255).map(f32::from).collect();
        let table = bytes(&[1.0; 16]);
        let (absmax, nested_table) = (bytes(&[2.0, 4.0]), bytes(&nested_table));
        let parts: [&[u8]; 6] = [&[0, 0, 0], &[1, 2, 3], &table, &[], &absmax, &nested_table];
        let mut out = [0.0; 6];
        let held = HeldRows { rows: 0..1, parts: &parts };
        assert!(Codebook.unpack(&blocks.packed(), &held, 0..1, &mut out).is_ok());
        assert_eq!(out, [2.5, 2.5, 4.5, 4.5, 12.5, 12.5]);
    }
}
