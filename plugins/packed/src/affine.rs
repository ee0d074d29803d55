//! Codes of any bits along rows, with a scale and an addend for each group of a row: MLX, int4 of torchao, and AWQ in its
//! version gemv_fast.
//!
//! ```text
//! part 0  codes   each row one string of bits, the first element in the lowest ones; or four rows are interleaved: of each in
//!                 turn 64 columns in 32 bytes, where place p of 32 is column p % 4 * 8 + p / 8 * 2 + p % 8 / 4
//! part 1  scales  [rows, groups]; or [groups, rows] if they are transposed
//! part 2  biases  likewise
//!
//! value = code * scale + bias, each step rounded to F32; a code of four bits may have a sign
//! ```

use crate::blocks;
use crate::layout::{Layout, index, numbers, too_short};
use crate::numbers::values;
use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, ExactType, HeldRows, PackedRows, PartBox, PartRange, Result};
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "affine";

/// Columns of a row that lie together where four rows are interleaved.
pub const COLUMNS: u64 = 64;

/// The layout.
pub struct Affine;

/// How such a weight is stored.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// Bits of a code: 1 to 8.
    pub bits: u32,
    /// Bytes of a stored element that holds codes.
    pub unit: u64,
    /// Elements of a group: a multiple of 8.
    pub group: u64,
    /// The types of scales and biases.
    pub scales: (DType, DType),
    /// Whether the codes are two's complement.
    pub is_signed: bool,
    /// Whether scales lie column after column.
    pub is_transposed: bool,
    /// Whether four rows of four-bit codes are interleaved.
    pub is_interleaved: bool,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

impl Groups {
    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let (scales, biases) = self.scales;
        let flags = [self.is_signed, self.is_transposed, self.is_interleaved].map(u32::from);
        let small = [self.bits, scales.0, biases.0].into_iter().chain(flags);
        let numbers = small.into_iter().map(u64::from).chain([self.unit, self.group]).collect();
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Groups> {
        let [bits, scales, biases, signed, transposed, interleaved, unit, group] = numbers(packed)?;
        let short = |number: u64| u32::try_from(number).map_err(|_| Error::plugin("a number is too large"));
        let fits_four = bits == 4 && packed.row_len.is_multiple_of(COLUMNS) && packed.rows.is_multiple_of(4);
        if !(1..=8).contains(&bits) || group == 0 || group % 8 != 0 || (interleaved != 0 && !fits_four) {
            return Err(Error::plugin("groups out of range"));
        }
        Ok(Groups {
            bits: short(bits)?,
            unit: unit.max(1),
            group,
            scales: (DType(short(scales)?), DType(short(biases)?)),
            is_signed: signed != 0,
            is_transposed: transposed != 0,
            is_interleaved: interleaved != 0,
            rows: packed.rows,
            row_len: packed.row_len,
        })
    }

    /// Bytes of a row of codes.
    fn row_bytes(&self) -> u64 {
        self.row_len * u64::from(self.bits) / 8
    }

    /// The types that may hold its values: ggml's blocks with a scale and a smallest value in F16.
    pub fn exact(&self) -> Vec<ExactType> {
        let dtype = match self.bits {
            0..=4 => DType::Q4_1,
            5 => DType::Q5_1,
            _ => return Vec::new(),
        };
        let fits = self.group.is_multiple_of(32) && self.row_len.is_multiple_of(32) && !self.is_signed;
        if fits { vec![ExactType { dtype, evidence: vec![1, 2] }] } else { Vec::new() }
    }

    /// Scales and biases of the rows held.
    fn scales(&self, held: &HeldRows<'_>) -> Result<(Vec<f32>, Vec<f32>)> {
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        values(self.scales.0, held.parts.get(1).copied().unwrap_or_default(), &mut scales)?;
        values(self.scales.1, held.parts.get(2).copied().unwrap_or_default(), &mut biases)?;
        if let Some(bad) = scales.iter().chain(&biases).find(|scale| !scale.is_finite()) {
            return Err(Error::malformed(format!("a scale or bias is {bad}, expected a finite number")));
        }
        Ok((scales, biases))
    }

    /// The rows of which some bytes are read, so that no element is cut.
    fn whole(&self, rows: &Range<u64>) -> Range<u64> {
        if !self.is_interleaved {
            return rows.clone();
        }
        rows.start / 4 * 4..rows.end.div_ceil(4) * 4
    }

    /// The codes of a row as one string of bits, in `string` if they do not lie so.
    fn row<'a>(&self, held: &HeldRows<'a>, row: u64, string: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let codes = held.parts.first().copied().unwrap_or_default();
        let bytes = index(self.row_bytes());
        let from = index(row - self.whole(&held.rows).start);
        if !self.is_interleaved {
            return codes.get(from * bytes..(from + 1) * bytes).ok_or_else(too_short);
        }
        let four = codes.get(from / 4 * 4 * bytes..(from / 4 + 1) * 4 * bytes).ok_or_else(too_short)?;
        string.clear();
        for blocks in four.as_chunks::<128>().0 {
            for block in blocks[from % 4 * 32..].as_chunks::<16>().0.iter().take(2) {
                string.extend_from_slice(&in_order(block));
            }
        }
        Ok(string)
    }

    /// Where the scale of a row's group is among those held.
    fn place(&self, held: &HeldRows<'_>, row: u64, group: usize) -> usize {
        let (row, n) = (index(row - held.rows.start), index(held.rows.end - held.rows.start));
        if self.is_transposed { group * n + row } else { row * index(self.row_len / self.group) + group }
    }
}

/// The 32 codes of interleaved rows in their order: place p is column p % 4 * 8 + p / 8 * 2 + p % 8 / 4.
fn in_order(block: &[u8; 16]) -> [u8; 16] {
    let mut out = [0; 16];
    for (q, bytes) in block.as_chunks::<4>().0.iter().enumerate() {
        let word = u32::from_le_bytes(*bytes);
        for a in 0..4 {
            let [low, _, high, _] = (word >> (4 * a)).to_le_bytes();
            out[4 * a + q] = low & 15 | high << 4;
        }
    }
    out
}

/// Eight codes from as many bytes as they have bits: fields are moved apart by halves, so that each comes to lie in a byte.
#[inline(always)]
fn eight<const BITS: usize>(bytes: &[u8; BITS]) -> [u8; 8] {
    // Not through memory: a word that was just written in pieces is slow to read.
    let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let low = |bits: usize| u64::MAX >> (64 - bits);
    let (four, two, one) = (low(4 * BITS), low(2 * BITS) * 0x1_0000_0001, low(BITS) * 0x1_0001_0001_0001);
    let word = word & four | (word >> (4 * BITS) & four) << 32;
    let word = word & two | (word >> (2 * BITS) & two) << 16;
    (word & one | (word >> BITS & one) << 8).to_le_bytes()
}

/// The values of a group.
fn group<const BITS: usize>(codes: &[u8], flip: u8, (scale, bias): (f32, f32), out: &mut [f32]) {
    // Codes first, as bytes: the compiler then makes vectors of what turns them into values.
    let mut bytes = [0; 64];
    for (out, codes) in out.chunks_mut(64).zip(codes.chunks(8 * BITS)) {
        for (bytes, codes) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(codes.as_chunks::<BITS>().0) {
            *bytes = eight::<BITS>(codes);
        }
        let codes = out.iter_mut().zip(&bytes);
        if flip == 0 {
            codes.for_each(|(out, code)| *out = f32::from(*code) * scale + bias);
        } else {
            // With a sign, the code and its top bit the other way around differ by that bit's value.
            let zero = f32::from(flip);
            codes.for_each(|(out, code)| *out = (f32::from(code ^ flip) - zero) * scale + bias);
        }
    }
}

/// The codes of a block of 32.
fn block<const BITS: usize>(codes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (out, bytes) in out.as_chunks_mut::<8>().0.iter_mut().zip(codes.as_chunks::<BITS>().0) {
        *out = eight::<BITS>(bytes);
    }
    out
}

impl Layout for Affine {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let groups = Groups::of(packed)?;
        let (n, units) = (rows.end.saturating_sub(rows.start), groups.row_bytes() / groups.unit);
        let columns = groups.row_len / groups.group;
        let scales = if groups.is_transposed {
            PartBox { start: rows.start, dims: vec![(columns, groups.rows), (n, 1)] }
        } else {
            PartBox::run(rows.start * columns, n * columns)
        };
        let scales = PartRange::Boxes(vec![scales]);
        let whole = groups.whole(&rows);
        let held = whole.end.saturating_sub(whole.start);
        let codes = PartRange::Boxes(vec![PartBox::run(whole.start * units, held * units)]);
        Ok(vec![codes, scales.clone(), scales])
    }

    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let groups = Groups::of(packed)?;
        let (scales, biases) = groups.scales(held)?;
        let (of_group, mut string) = (index(groups.group), Vec::new());
        let one = match groups.bits {
            1 => group::<1>,
            2 => group::<2>,
            3 => group::<3>,
            4 => group::<4>,
            5 => group::<5>,
            6 => group::<6>,
            7 => group::<7>,
            _ => group::<8>,
        };
        let flip = if groups.is_signed { 1 << (groups.bits - 1) } else { 0 };
        let group_bytes = of_group / 8 * index(groups.bits.into());
        for (row, out) in rows.zip(out.chunks_exact_mut(index(groups.row_len).max(1))) {
            let codes = groups.row(held, row, &mut string)?;
            let parts = out.chunks_exact_mut(of_group).zip(codes.chunks_exact(group_bytes));
            for (number, (out, codes)) in parts.enumerate() {
                let at = groups.place(held, row, number);
                let scale = scales.get(at).copied().ok_or_else(too_short)?;
                let bias = biases.get(at).copied().ok_or_else(too_short)?;
                one(codes, flip, (scale, bias), out);
            }
        }
        Ok(())
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let groups = Groups::of(packed)?;
        if !groups.exact().iter().any(|exact| exact.dtype == dtype) {
            return Ok(false);
        }
        let (scales, biases) = groups.scales(held)?;
        Ok(scales.iter().chain(&biases).all(|scale| from_f16(to_f16(*scale)) == *scale))
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let groups = Groups::of(packed)?;
        if !groups.exact().iter().any(|exact| exact.dtype == dtype) {
            return Err(Error::unsupported(format!(
                "these codes cannot be repacked as {dtype} without loss"
            )));
        }
        let (scales, biases) = groups.scales(held)?;
        let mut string = Vec::new();
        let of_block = if dtype == DType::Q4_1 { blocks::Q4_1_BYTES } else { blocks::Q5_1_BYTES };
        let codes_of = match groups.bits {
            1 => block::<1>,
            2 => block::<2>,
            3 => block::<3>,
            4 => block::<4>,
            _ => block::<5>,
        };
        let code_bytes = 4 * index(groups.bits.into());
        for (row, out) in rows.zip(out.chunks_exact_mut((index(groups.row_len) / 32 * of_block).max(1))) {
            let codes = groups.row(held, row, &mut string)?;
            let parts = out.chunks_exact_mut(of_block).zip(codes.chunks_exact(code_bytes));
            for (number, (out, codes)) in parts.enumerate() {
                let at = groups.place(held, row, number * 32 / index(groups.group));
                let scale = scales.get(at).copied().ok_or_else(too_short)?;
                let bias = biases.get(at).copied().ok_or_else(too_short)?;
                let codes = codes_of(codes);
                match dtype {
                    DType::Q4_1 => blocks::q4_1((scale, bias), &codes, out),
                    _ => blocks::q5_1((scale, bias), &codes, out),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of codes as one string of bits.
    fn string(codes: &[u8], bits: u32) -> Vec<u8> {
        let mut out = vec![0u8; codes.len() * usize::try_from(bits).unwrap_or(0) / 8];
        for (at, code) in (0u32..).zip(codes) {
            for bit in 0..bits {
                let place = at * bits + bit;
                out[usize::try_from(place / 8).unwrap_or(0)] |= (code >> bit & 1) << (place % 8);
            }
        }
        out
    }

    #[test]
    fn codes_of_all_bits_are_one_string() {
        for bits in 1..=8 {
            let codes: Vec<u8> = (0u8..64).map(|n| n.wrapping_mul(37) & (0xff >> (8 - bits))).collect();
            let scales = (DType::F32, DType::F32);
            let (rows, row_len) = (2, 32);
            let groups = Groups {
                bits,
                unit: 1,
                group: 16,
                scales,
                is_signed: false,
                is_transposed: false,
                is_interleaved: false,
                rows,
                row_len,
            };
            let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            let (scales, biases) = (bytes(&[1.0, 2.0, -3.0, 4.0]), bytes(&[0.5, 0.25, 0.125, 8.0]));
            let packed_codes = string(&codes, bits);
            let parts: [&[u8]; 3] = [&packed_codes, &scales, &biases];
            let mut out = [0.0; 64];
            let held = HeldRows { rows: 0..2, parts: &parts };
            assert!(Affine.unpack(&groups.packed(), &held, 0..2, &mut out).is_ok());
            for (at, (value, code)) in out.iter().zip(&codes).enumerate() {
                let (scale, bias) = [(1.0, 0.5), (2.0, 0.25), (-3.0, 0.125), (4.0, 8.0)][at / 16];
                assert_eq!(*value, f32::from(*code) * scale + bias, "{bits} bits, element {at}");
            }
        }
    }

    #[test]
    fn signed_codes_and_transposed_scales() {
        let scales = (DType::F32, DType::F32);
        let (rows, row_len) = (2, 16);
        let groups = Groups {
            bits: 4,
            unit: 1,
            group: 8,
            scales,
            is_signed: true,
            is_transposed: true,
            is_interleaved: false,
            rows,
            row_len,
        };
        let packed = groups.packed();
        let one: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let parts: [&[u8]; 3] = [&[0x87, 0, 0, 0, 0x1f, 0, 0, 0], &one, &[0; 8]];
        let mut out = [0.0; 16];
        let held = HeldRows { rows: 1..2, parts: &parts };
        assert!(Affine.unpack(&packed, &held, 1..2, &mut out).is_ok());
        assert_eq!([out[0], out[1], out[8], out[9]], [7.0, -8.0, -2.0, 2.0]);
        let ranges = Affine.ranges(&packed, 1..2).unwrap_or_default();
        assert_eq!(ranges[1], PartRange::Boxes(vec![PartBox { start: 1, dims: vec![(2, 2), (1, 1)] }]));
        assert!(groups.exact().is_empty());
    }
}
