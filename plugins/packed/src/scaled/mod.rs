//! Codes of whole bytes, or floats of four or six bits, with a grid of scales over them: FP8 in all its forms, INT8, MXFP4, MXFP6,
//! MXFP8 and NVFP4.
//!
//! ```text
//! part 0  codes   [rows, row_len]     a byte each; or two in a byte, or four in three, the lower bits first unless `arranged.rs` says so
//! part 1  scales  one for each box of the grid, row-major, matrix after matrix
//! part 2  zeros   likewise; if there are any
//! part 3  global  a scale for each matrix, or for all; if there is one
//! part 4  columns a factor for each column; if there are any
//!
//! value = (code - zero) * scale * column
//! scale = scale * global, or scale / global; every step is rounded to F32, and so is a factor of all values at last
//! ```
//!
//! Where codes and scales do not lie row after row, `arranged.rs` puts them so first.

mod arranged;

use crate::blocks;
use crate::layout::{Layout, index, numbers, too_short};
use crate::numbers::{E2M3, PAIRS, of_bytes, values};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{DType, Error, ExactType, FactoredType, HeldRows, PackedRows, PackedTensor, PartRange, Result};
pub use arranged::{Arranged, tile_sides, tiled};
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "scaled";

/// The layout.
pub struct Scaled;

/// What a global scale does to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Global {
    /// There is none.
    No,
    /// Scales are multiplied by it.
    Times,
    /// Scales are divided by it.
    Over,
}

/// How such a weight is stored.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// The type of the codes; [`DType::F4_E2M1`] for pairs in bytes, [`DType::F6_E2M3`] for four in three bytes.
    pub codes: DType,
    /// The type of the scales.
    pub scales: DType,
    /// The type of the zero points, if there are any.
    pub zeros: Option<DType>,
    /// The global scale, and its type.
    pub global: (Global, DType),
    /// How many global scales there are.
    pub globals: u64,
    /// What every value is multiplied by at last.
    pub factor: f32,
    /// The type of the factors of columns, if there are any.
    pub columns: Option<DType>,
    /// Bytes of a stored element that holds codes: 4 if they lie in words.
    pub unit: u64,
    /// Rows of a matrix.
    pub matrix_rows: u64,
    /// Rows, and columns, that share a scale.
    pub of_scale: (u64, u64),
    /// Rows of all matrices.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
    /// How codes and scales lie.
    pub arranged: Arranged,
}

/// Blocks of NVFP4 that hold a weight's values but for its one global scale.
pub fn factored(weight: &PackedTensor) -> Option<FactoredType> {
    let grid = Grid::of(&weight.rows).ok().filter(|_| weight.rows.scheme == NAME)?;
    let is_divisor = grid.global.0 == Global::Over;
    let is_fine = grid.codes == DType::F4_E2M1 && grid.scales == DType::F8_E4M3 && grid.of_scale == (1, 16);
    let is_plain = grid.columns.is_none() && grid.factor == 1.0 && grid.zeros.is_none();
    let has_one = grid.global.0 != Global::No && grid.globals == 1 && grid.global.1 == DType::F32;
    let fits = is_fine && is_plain && has_one && grid.row_len.is_multiple_of(64);
    let (number, _) = weight.parts.get(grid.global_part()).filter(|_| fits)?;
    let rows = Grid { global: (Global::No, DType::F32), ..grid }.packed();
    let (factor, evidence) = ((*number, is_divisor), vec![1]);
    Some(FactoredType { weight: 0, dtype: DType::NVFP4, rows, evidence, factor, input: None })
}

impl Grid {
    /// A grid of scales for boxes of so many rows and columns over `rows` of `row_len`, in matrices of `matrix_rows`.
    pub fn new(
        codes: DType,
        scales: DType,
        of_scale: (u64, u64),
        (matrix_rows, rows, row_len): (u64, u64, u64),
    ) -> Grid {
        let of_scale = (of_scale.0.max(1), of_scale.1.max(1));
        let global = (Global::No, DType::F32);
        let (zeros, columns) = (None, None);
        let (globals, factor, unit) = (1, 1.0, 1);
        Grid {
            codes,
            scales,
            zeros,
            global,
            globals,
            factor,
            columns,
            unit,
            matrix_rows,
            of_scale,
            rows,
            row_len,
            arranged: Arranged::Rows,
        }
    }

    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let global = match self.global.0 {
            Global::No => 0,
            Global::Times => 1,
            Global::Over => 2,
        };
        let numbers = [
            self.codes.0,
            self.scales.0,
            self.zeros.map_or(u32::MAX, |dtype| dtype.0),
            global,
            self.global.1.0,
            self.factor.to_bits(),
            self.columns.map_or(u32::MAX, |dtype| dtype.0),
        ];
        let arranged = self.arranged.number();
        let sizes = [self.globals, self.matrix_rows, self.of_scale.0, self.of_scale.1, self.unit, arranged];
        let numbers = numbers.into_iter().map(u64::from).chain(sizes).collect();
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Grid> {
        let [codes, scales, zeros, global, of_global, factor, of_columns, sizes @ ..] =
            numbers::<13>(packed)?;
        let [globals, matrix_rows, rows, columns, unit, arranged] = sizes;
        let short = |number: u64| u32::try_from(number).map_err(|_| Error::plugin("a number is too large"));
        let (zeros, of_columns) = (short(zeros)?, short(of_columns)?);
        Ok(Grid {
            codes: DType(short(codes)?),
            scales: DType(short(scales)?),
            zeros: (zeros != u32::MAX).then_some(DType(zeros)),
            global: (
                match global {
                    0 => Global::No,
                    1 => Global::Times,
                    _ => Global::Over,
                },
                DType(short(of_global)?),
            ),
            globals,
            factor: f32::from_bits(short(factor)?),
            columns: (of_columns != u32::MAX).then_some(DType(of_columns)),
            unit: unit.max(1),
            matrix_rows: matrix_rows.max(1),
            of_scale: (rows.max(1), columns.max(1)),
            rows: packed.rows,
            row_len: packed.row_len,
            arranged: Arranged::of_number(arranged),
        })
    }

    /// Bits of a code.
    fn bits(&self) -> u64 {
        match self.codes {
            DType::F4_E2M1 => 4,
            DType::F6_E2M3 => 6,
            _ => 8,
        }
    }

    /// Bytes of a row of codes.
    fn code_bytes(&self) -> u64 {
        self.row_len / 8 * self.bits() + self.row_len % 8 * self.bits() / 8
    }

    /// How many rows are best read together: those of a tile; where they lie as columns, runs of some KiB, and no more than 16 MiB.
    pub fn panel(&self) -> u64 {
        const MOST: u64 = 16 << 20;
        match self.arranged {
            Arranged::Rows | Arranged::Blocks => 1,
            Arranged::Tiles | Arranged::UpperFirst => 128,
            Arranged::Columns => (MOST / self.code_bytes().max(1)).clamp(512, 4096) / 32 * 32,
        }
    }

    /// Scales in a row of them.
    pub fn scale_columns(&self) -> u64 {
        self.row_len.div_ceil(self.of_scale.1)
    }

    /// All columns of scales.
    fn all_scales(&self) -> Range<usize> {
        0..index(self.scale_columns())
    }

    /// Rows of scales for a matrix.
    pub fn scale_rows(&self) -> u64 {
        self.matrix_rows.div_ceil(self.of_scale.0)
    }

    /// The row of scales that a row needs.
    fn scale_row(&self, row: u64) -> u64 {
        row / self.matrix_rows * self.scale_rows() + row % self.matrix_rows / self.of_scale.0
    }

    /// The types that may hold its values, best first.
    pub fn exact(&self) -> Vec<ExactType> {
        let mut found = Vec::new();
        if self.columns.is_some() || self.factor != 1.0 {
            return found;
        }
        let is_plain = self.global.0 == Global::No;
        let blocks_of = |n: u64| self.row_len.is_multiple_of(n);
        let is_micro = self.codes == DType::F4_E2M1 && self.scales == DType::F8_E8M0;
        if is_micro && is_plain && self.of_scale == (1, 32) && blocks_of(32) {
            found.push(ExactType { dtype: DType::MXFP4, evidence: Vec::new() });
        }
        let is_integer = [DType::I8, DType::U8].contains(&self.codes);
        let evidence = || (1..self.parts()).collect::<Vec<usize>>();
        let is_fine = self.codes == DType::F4_E2M1 && self.scales == DType::F8_E4M3;
        if is_fine && self.of_scale == (1, 16) && blocks_of(64) {
            found.push(ExactType { dtype: DType::NVFP4, evidence: evidence() });
        }
        if is_integer
            && blocks_of(32)
            && (self.of_scale.1.is_multiple_of(32) || self.of_scale.1 >= self.row_len)
        {
            found.push(ExactType { dtype: DType::Q8_0, evidence: evidence() });
        }
        let is_small = of_bytes(self.codes).is_some() || self.bits() < 8;
        if is_small && !is_integer && self.zeros.is_none() {
            found.push(ExactType { dtype: DType::BF16, evidence: evidence() });
        }
        found
    }

    /// How many parts there are.
    fn parts(&self) -> usize {
        self.global_part() + usize::from(self.global.0 != Global::No) + usize::from(self.columns.is_some())
    }

    /// Where the global scale is among the parts, if there is one.
    fn global_part(&self) -> usize {
        let of_scales = usize::from(self.arranged != Arranged::Blocks);
        1 + of_scales + usize::from(self.zeros.is_some())
    }

    /// The global scales.
    fn global(&self, held: &HeldRows<'_>) -> Result<Vec<f32>> {
        let mut global = Vec::new();
        if self.global.0 != Global::No {
            values(
                self.global.1,
                held.parts.get(self.global_part()).copied().unwrap_or_default(),
                &mut global,
            )?;
        }
        Ok(global)
    }

    /// The factors of columns.
    fn columns(&self, held: &HeldRows<'_>) -> Result<Vec<f32>> {
        let mut columns = Vec::new();
        if let Some(dtype) = self.columns {
            values(dtype, held.parts.get(self.parts() - 1).copied().unwrap_or_default(), &mut columns)?;
            if index(self.row_len) != columns.len() {
                return Err(too_short());
            }
            if let Some(bad) = columns.iter().find(|column| !column.is_finite()) {
                return Err(Error::malformed(format!("a column factor is {bad}, expected a finite number")));
            }
        }
        Ok(columns)
    }

    /// The scales of some of the rows held, each as it is multiplied by; and their zeros. `columns` are those of the scales.
    fn scales(
        &self,
        held: &HeldRows<'_>,
        rows: &Range<u64>,
        columns: &Range<usize>,
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        let append = |dtype: DType, stored: &[u8], out: &mut Vec<f32>| {
            if *columns == self.all_scales() {
                return values(dtype, stored, out);
            }
            let each = dtype.require()?.block_bytes as usize;
            let wanted = columns.start * each..columns.end * each;
            let row_bytes = index(self.scale_columns()) * each;
            let picked: Option<Vec<&[u8]>> =
                stored.chunks_exact(row_bytes.max(1)).map(|row| row.get(wanted.clone())).collect();
            values(dtype, &picked.ok_or_else(too_short)?.concat(), out)
        };
        append(self.scales, &self.scales_of(held, rows)?, &mut scales)?;
        if let Some(dtype) = self.zeros {
            let part = held.parts.get(2).copied().unwrap_or_default();
            append(dtype, self.in_scale_rows(part, dtype, &held.rows, rows)?, &mut zeros)?;
        }
        let kind = self.global.0;
        if kind != Global::No {
            let global = self.global(held)?;
            let columns = columns.len();
            let first = self.scale_row(rows.start);
            let matrices = if self.globals > 1 { self.scale_rows() } else { u64::MAX };
            for (row, scales) in (first..).zip(scales.chunks_mut(columns.max(1))) {
                let global = global.get(index(row / matrices)).copied().ok_or_else(too_short)?;
                match kind {
                    Global::Over => scales.iter_mut().for_each(|scale| *scale /= global),
                    _ => scales.iter_mut().for_each(|scale| *scale *= global),
                }
            }
        }
        if let Some(bad) = scales.iter().find(|scale| !scale.is_finite()) {
            return Err(Error::malformed(format!("a scale is {bad}, expected a finite number")));
        }
        if let Some(bad) = zeros.iter().find(|zero| !zero.is_finite()) {
            return Err(Error::malformed(format!("a zero point is {bad}, expected a finite number")));
        }
        Ok((scales, zeros))
    }
}

impl Layout for Scaled {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let grid = Grid::of(packed)?;
        let scales = grid.place_of_scales(&rows);
        let mut found = vec![grid.place_of_codes(&rows)];
        if grid.arranged != Arranged::Blocks {
            found.push(scales.clone());
        }
        if grid.zeros.is_some() {
            found.push(scales);
        }
        if grid.global.0 != Global::No {
            found.push(PartRange::Whole);
        }
        if grid.columns.is_some() {
            found.push(PartRange::Whole);
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
        let all = 0..packed.row_len;
        self.unpack_columns(packed, held, rows, all, out)
    }

    fn column_unit(&self, packed: &PackedRows) -> Result<u64> {
        let grid = Grid::of(packed)?;
        Ok(match (grid.arranged, grid.bits()) {
            (Arranged::Columns | Arranged::Blocks, _) => 0,
            (_, 8) => 1,
            (_, 6) => 4,
            _ => 2,
        })
    }

    fn unpack_columns(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let grid = Grid::of(packed)?;
        if columns.end > grid.row_len || columns.start > columns.end {
            return Err(Error::plugin("columns out of range"));
        }
        let of_scales = index(columns.start / grid.of_scale.1)..index(columns.end.div_ceil(grid.of_scale.1));
        let (scales, zeros) = grid.scales(held, &rows, &of_scales)?;
        let factors = grid.columns(held)?;
        let factors = factors.get(index(columns.start)..).unwrap_or_default();
        let table = of_bytes(grid.codes);
        let (bytes, width) = (index(grid.code_bytes()), index(grid.of_scale.1));
        let codes = grid.codes_of(held, &rows)?;
        let first = rows.start;
        let (begin, end) = (index(columns.start), index(columns.end));
        for (row, out) in rows.zip(out.chunks_exact_mut((end - begin).max(1))) {
            let from = index(row - first) * bytes;
            let codes = codes.get(from..from + bytes).ok_or_else(too_short)?;
            let at = index(grid.scale_row(row) - grid.scale_row(first)) * of_scales.len();
            let scales = scales.get(at..at + of_scales.len()).ok_or_else(too_short)?;
            let zeros = zeros.get(at..at + of_scales.len());
            let (mut column, mut rest) = (begin, &mut *out);
            for (number, &scale) in scales.iter().enumerate() {
                // To the end of the box, or of the columns.
                let len = (width - column % width).min(rest.len());
                let (out, more) = std::mem::take(&mut rest).split_at_mut(len);
                let at = column;
                (column, rest) = (column + len, more);
                match (&table, zeros) {
                    (Some(table), None) => {
                        let codes = codes.get(at..).unwrap_or_default();
                        out.iter_mut()
                            .zip(codes)
                            .for_each(|(out, code)| *out = table[usize::from(*code)] * scale);
                    }
                    (Some(table), Some(zeros)) => {
                        let codes = codes.get(at..).unwrap_or_default();
                        let zero = zeros[number];
                        let values = out.iter_mut().zip(codes);
                        values.for_each(|(out, code)| *out = (table[usize::from(*code)] - zero) * scale);
                    }
                    (None, _) if grid.codes == DType::F6_E2M3 => {
                        let codes = codes.get(at / 4 * 3..).unwrap_or_default();
                        for (out, [a, b, c]) in out.chunks_mut(4).zip(codes.as_chunks::<3>().0) {
                            let word = u32::from_le_bytes([*a, *b, *c, 0]);
                            for (out, shift) in out.iter_mut().zip([0, 6, 12, 18]) {
                                let [code, ..] = (word >> shift & 63).to_le_bytes();
                                *out = E2M3[usize::from(code)] * scale;
                            }
                        }
                    }
                    // Pairs: a box begins at a whole byte.
                    (None, _) => {
                        let codes = codes.get(at / 2..).unwrap_or_default();
                        let (pairs, last) = out.as_chunks_mut::<2>();
                        let n = pairs.len();
                        for (out, code) in pairs.iter_mut().zip(codes) {
                            *out = PAIRS[usize::from(*code)].map(|value| value * scale);
                        }
                        for (out, code) in last.iter_mut().zip(codes.get(n..).unwrap_or_default()) {
                            *out = PAIRS[usize::from(*code)][0] * scale;
                        }
                    }
                }
            }
            out.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
            if grid.factor != 1.0 {
                out.iter_mut().for_each(|value| *value *= grid.factor);
            }
        }
        Ok(())
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let grid = Grid::of(packed)?;
        let (scales, zeros) = grid.scales(held, &held.rows, &grid.all_scales())?;
        Ok(match dtype {
            DType::Q8_0 => {
                let middle = if grid.codes == DType::U8 { 128.0 } else { 0.0 };
                let is_centred = match zeros.is_empty() {
                    true => middle == 0.0,
                    false => zeros.iter().all(|zero| *zero == middle),
                };
                is_centred && scales.iter().all(|scale| from_f16(to_f16(*scale)) == *scale)
            }
            // ggml's scales have no sign. A global scale other than 1 would be a tensor of its own.
            DType::NVFP4 => {
                scales.iter().all(|scale| *scale >= 0.0)
                    && grid.global(held)?.iter().all(|global| *global == 1.0)
            }
            DType::BF16 => scales.iter().all(|scale| keeps_small_floats(*scale)),
            _ => false,
        })
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let grid = Grid::of(packed)?;
        let (row_len, bytes) = (index(grid.row_len), index(grid.code_bytes()));
        let (columns, width) = (index(grid.scale_columns()), index(grid.of_scale.1));
        let codes = grid.codes_of(held, &rows)?;
        let first = rows.start;
        let place = |row: u64| {
            let from = index(row - first) * bytes;
            let codes = codes.get(from..from + bytes).ok_or_else(too_short)?;
            Ok::<_, Error>((codes, index(grid.scale_row(row) - grid.scale_row(first)) * columns))
        };
        match dtype {
            DType::MXFP4 | DType::NVFP4 => {
                let scales = grid.scales_of(held, &rows)?;
                let bytes = if dtype == DType::MXFP4 {
                    row_len / 32 * blocks::MXFP4_BYTES
                } else {
                    row_len / 64 * blocks::NVFP4_BYTES
                };
                for (row, out) in rows.zip(out.chunks_exact_mut(bytes.max(1))) {
                    let (codes, at) = place(row)?;
                    let scales = scales.get(at..at + columns).ok_or_else(too_short)?;
                    match dtype {
                        DType::MXFP4 => blocks::mxfp4(codes, scales, out)?,
                        _ => blocks::nvfp4(codes, scales, out)?,
                    }
                }
            }
            DType::Q8_0 => {
                let (scales, _) = grid.scales(held, &rows, &grid.all_scales())?;
                // With a zero in the middle, the sign is the top bit the other way around.
                let flip = if grid.codes == DType::U8 { 0x80 } else { 0 };
                for (row, out) in rows.zip(out.chunks_exact_mut((row_len / 32 * blocks::Q8_0_BYTES).max(1))) {
                    let (codes, at) = place(row)?;
                    let scales = scales.get(at..at + columns).ok_or_else(too_short)?;
                    for (number, (block, codes)) in
                        out.chunks_exact_mut(blocks::Q8_0_BYTES).zip(codes.chunks_exact(32)).enumerate()
                    {
                        let scale = scales.get(number * 32 / width).copied().ok_or_else(too_short)?;
                        blocks::q8_0(scale, codes.iter().map(|code| (code ^ flip).cast_signed()), block);
                    }
                }
            }
            _ => {
                return Err(Error::unsupported(format!(
                    "these codes cannot be repacked as {dtype} without loss"
                )));
            }
        }
        Ok(())
    }
}

/// Whether BF16 holds the product of this scale with every float of at most four significant bits whose magnitude is 0, or from
/// 2^-17 to 57344 (those of E5M2, and hence of E4M3 and E2M1).
pub fn keeps_small_floats(scale: f32) -> bool {
    /// The smallest normal number over 2^-17, and the largest over 57344: in between, no product leaves BF16's range.
    const RANGE: Range<f32> = 1.6e-33..5.0e33;
    let magnitude = scale.abs();
    // Four significant bits times four give eight, which is what BF16 has.
    let is_short = magnitude.to_bits() & 0x000f_ffff == 0;
    debug_assert!(!is_short || from_bf16(to_bf16(scale)) == scale, "it is a BF16 itself");
    magnitude == 0.0 || is_short && RANGE.contains(&magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::PartBox;

    #[test]
    fn bf16_holds_every_product_with_a_scale_of_few_bits() {
        for codes in [DType::F8_E4M3, DType::F8_E5M2] {
            let table = of_bytes(codes).unwrap_or([0.0; 256]);
            for exponent in -120i32..120 {
                for mantissa in 0u32..16 {
                    let bits = (exponent + 127).cast_unsigned() << 23 | mantissa << 19;
                    let scale = f32::from_bits(bits);
                    if !keeps_small_floats(scale) {
                        continue;
                    }
                    for value in table.iter().filter(|value| value.is_finite()) {
                        let product = value * scale;
                        assert_eq!(from_bf16(to_bf16(product)), product, "{value} {scale}");
                    }
                }
            }
        }
        assert!(keeps_small_floats(1.0) && keeps_small_floats(0.0) && !keeps_small_floats(0.1));
    }

    #[test]
    fn edge_blocks_are_cut() {
        // Three rows of five, in boxes of two by four: scales of two rows and two columns.
        let grid = Grid::new(DType::I8, DType::F32, (2, 4), (3, 3, 5));
        let packed = grid.packed();
        let codes: Vec<u8> = (1..=15).collect();
        let scales: Vec<u8> = [1.0f32, 10.0, 100.0, 1000.0].iter().flat_map(|s| s.to_le_bytes()).collect();
        let parts: [&[u8]; 2] = [&codes, &scales];
        let held = HeldRows { rows: 0..3, parts: &parts };
        let mut out = [0.0; 15];
        assert!(Scaled.unpack(&packed, &held, 0..3, &mut out).is_ok());
        assert_eq!(out[..5], [1.0, 2.0, 3.0, 4.0, 50.0]);
        assert_eq!(out[10..], [1100.0, 1200.0, 1300.0, 1400.0, 15000.0]);
        let ranges = Scaled.ranges(&packed, 2..3).unwrap_or_default();
        assert_eq!(ranges[1], PartRange::Boxes(vec![PartBox::run(2, 2)]));
    }
}
