//! Integers of one to eight bits in words of 32, with a scale, and perhaps a zero point, for each group of columns.
//!
//! ```text
//! part 0  codes    by [`Codes`]
//! part 1  scales   [rows, groups]; where codes lie in columns, [groups, rows]
//! part 2  zeros    by [`Zeros`]; if there are any
//! part 3  g_idx    I32 [row_len]: the group of each column; if there is one
//!
//! value = (code - zero) * scale, rounded to F32
//! ```

mod rows;

use crate::blocks;
use crate::layout::{Layout, index, numbers, too_short};
use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, ExactType, HeldRows, PackedRows, PartBox, PartRange, Result};
use rows::{APART, Rows};
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "words";

/// The layout.
pub struct Words;

/// How codes lie in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Row after row, each one string of bits, the lowest first: [rows, words].
    Rows,
    /// Likewise, but no code spans two words: the last bits of a word may be idle.
    PaddedRows,
    /// Column after column, each one string of bits: [words, rows] (GPTQ).
    Columns,
    /// Words hold the codes of eight rows in the order 0, 2, 4, 6, 1, 3, 5, 7: [row_len, rows / 8] (AWQ).
    Eights,
}

/// Where zero points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// One for all.
    All(u64),
    /// As strings of bits down the rows, those of each matrix from a whole word on: [words, groups] (compressed-tensors).
    Down,
    /// As signed bytes beside the scales, around the middle of the codes (compressed-tensors).
    Bytes,
    /// As strings of bits along the rows: [groups, words], each so much too small, and the largest for 0 (GPTQ).
    Along(u64),
    /// In words of eight rows: [groups, rows / 8] (AWQ).
    Eights,
    /// As strings of bits along the groups: [rows, words] (AWQ, gemv).
    Groups,
}

/// How such a weight is stored.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Bits of a code.
    pub bits: u64,
    /// How codes lie.
    pub codes: Codes,
    /// Where zero points are.
    pub zeros: Zeros,
    /// The type of the scales.
    pub scales: DType,
    /// Columns that share a scale.
    pub group: u64,
    /// How many groups there are, as stored: rows of scales may be padded.
    pub groups: u64,
    /// Words of a row of zeros, for [`Zeros::Groups`].
    pub zero_words: u64,
    /// Whether an index tells each column's group.
    pub has_index: bool,
    /// Whether one scale is that of all rows.
    pub is_one: bool,
    /// Rows of a matrix: all of them, unless matrices are stacked.
    pub matrix_rows: u64,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

impl Grid {
    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let codes = match self.codes {
            Codes::Rows => 0,
            Codes::PaddedRows => 1,
            Codes::Columns => 2,
            Codes::Eights => 3,
        };
        let (zeros, of_zeros) = match self.zeros {
            Zeros::All(zero) => (0, zero),
            Zeros::Down => (1, 0),
            Zeros::Along(add) => (2, add),
            Zeros::Eights => (3, 0),
            Zeros::Groups => (4, 0),
            Zeros::Bytes => (5, 0),
        };
        let scales = u64::from(self.scales.0);
        let numbers = vec![
            self.bits,
            codes,
            zeros,
            of_zeros,
            scales,
            self.group,
            self.groups,
            self.zero_words,
            u64::from(self.has_index),
            u64::from(self.is_one),
            self.matrix_rows,
        ];
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Grid> {
        let [bits, codes, zeros, of_zeros, scales, group, groups, zero_words, has_index, one, matrix_rows] =
            numbers(packed)?;
        if !(1..=8).contains(&bits) {
            return Err(Error::plugin(format!("codes of {bits} bits")));
        }
        Ok(Grid {
            bits,
            codes: match codes {
                0 => Codes::Rows,
                1 => Codes::PaddedRows,
                2 => Codes::Columns,
                _ => Codes::Eights,
            },
            zeros: match zeros {
                0 => Zeros::All(of_zeros),
                1 => Zeros::Down,
                2 => Zeros::Along(of_zeros),
                3 => Zeros::Eights,
                4 => Zeros::Groups,
                _ => Zeros::Bytes,
            },
            scales: DType(u32::try_from(scales).map_err(|_| Error::plugin("a number is too large"))?),
            group: group.max(1),
            groups,
            zero_words,
            has_index: has_index != 0,
            is_one: one != 0,
            matrix_rows: matrix_rows.max(1),
            rows: packed.rows,
            row_len: packed.row_len,
        })
    }

    /// Words of a row of codes, or of a column of them.
    pub fn code_words(&self) -> u64 {
        match self.codes {
            Codes::PaddedRows => self.row_len.div_ceil(32 / self.bits),
            _ => (self.row_len * self.bits).div_ceil(32),
        }
    }

    /// Whether codes lie in columns.
    fn is_turned(&self) -> bool {
        matches!(self.codes, Codes::Columns | Codes::Eights)
    }

    /// How many rows are best read together: where codes lie in columns, runs of some KiB, and no more than 16 MiB of them.
    pub fn panel(&self) -> u64 {
        const MOST: u64 = 16 << 20;
        let row = (self.row_len * self.bits / 8).max(1);
        if self.is_turned() { (MOST / row).clamp(512, 4096) / 32 * 32 } else { 1 }
    }

    /// The rows of which some bytes are read, so that no word is cut.
    fn whole(&self, rows: &Range<u64>) -> Range<u64> {
        let step = match (self.codes, self.zeros) {
            (Codes::Eights, _) | (_, Zeros::Eights) => 8,
            (_, Zeros::Along(_)) => 32,
            _ => return rows.clone(),
        };
        rows.start / step * step..(rows.end.div_ceil(step) * step).min(self.rows.div_ceil(8) * 8)
    }

    /// Words that hold the zeros of these rows, which begin at a whole word.
    fn zero_strings(&self, whole: &Range<u64>) -> u64 {
        let last = (whole.end.min(self.rows) * self.bits).div_ceil(32);
        last.saturating_sub(whole.start * self.bits / 32)
    }

    /// The bit where a row's zero point begins in the strings down the rows.
    fn zero_bit(&self, row: u64) -> u64 {
        let of_matrix = (self.matrix_rows * self.bits).div_ceil(32) * 32;
        row / self.matrix_rows * of_matrix + row % self.matrix_rows * self.bits
    }

    /// The words down the rows that hold the zero points of these.
    fn zero_words_down(&self, rows: &Range<u64>) -> Range<u64> {
        let first = self.zero_bit(rows.start) / 32;
        let last = rows.end.checked_sub(1).filter(|last| *last >= rows.start);
        first..last.map_or(first, |last| (self.zero_bit(last) + self.bits).div_ceil(32))
    }

    /// Types that may hold the values, best first.
    pub fn exact(&self) -> Vec<ExactType> {
        let in_blocks = |n: u64| {
            let is_group = self.group.is_multiple_of(n) || self.group >= self.row_len;
            self.row_len.is_multiple_of(n) && is_group && (!self.has_index || n == 32)
        };
        let types: &[DType] = match self.bits {
            2 => &[DType::Q2_0, DType::Q4_0],
            1 | 3 => &[DType::Q4_0],
            4 => &[DType::Q4_0, DType::Q5_0],
            5 => &[DType::Q5_0, DType::Q8_0],
            _ => &[DType::Q8_0],
        };
        let parts = 2 + usize::from(!matches!(self.zeros, Zeros::All(_))) + usize::from(self.has_index);
        let fits = |dtype: &&DType| in_blocks(if **dtype == DType::Q2_0 { 64 } else { 32 });
        let exact = |dtype: &DType| ExactType { dtype: *dtype, evidence: (1..parts).collect() };
        types.iter().filter(fits).map(exact).collect()
    }
}

impl Layout for Words {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let grid = Grid::of(packed)?;
        let n = rows.end.saturating_sub(rows.start);
        let whole = grid.whole(&rows);
        let span = whole.end.saturating_sub(whole.start);
        let run = |start: u64, len: u64| PartRange::Boxes(vec![PartBox::run(start, len)]);
        // Columns of a matrix with so many rows and columns.
        let columns = |down: u64, across: u64, first: u64, n: u64| {
            PartRange::Boxes(vec![PartBox { start: first, dims: vec![(down, across), (n, 1)] }])
        };
        let words = grid.code_words();
        let mut found = vec![match grid.codes {
            Codes::Rows | Codes::PaddedRows => run(rows.start * words, n * words),
            Codes::Columns => columns(words, grid.rows, rows.start, n),
            Codes::Eights => columns(grid.row_len, grid.rows.div_ceil(8), whole.start / 8, span / 8),
        }];
        let of_scales = match grid.is_turned() {
            _ if grid.is_one => PartRange::Whole,
            true => columns(grid.groups, grid.rows, rows.start, n),
            false => run(rows.start * grid.groups, n * grid.groups),
        };
        found.push(of_scales.clone());
        let strings = |rows: u64| (rows * grid.bits).div_ceil(32);
        match grid.zeros {
            Zeros::All(_) => {}
            Zeros::Bytes => found.push(of_scales),
            Zeros::Down => {
                let words = grid.zero_words_down(&rows);
                found.push(run(words.start * grid.groups, (words.end - words.start) * grid.groups));
            }
            Zeros::Along(_) => {
                let first = whole.start * grid.bits / 32;
                found.push(columns(grid.groups, strings(grid.rows), first, grid.zero_strings(&whole)));
            }
            Zeros::Eights => {
                found.push(columns(grid.groups, grid.rows.div_ceil(8), whole.start / 8, span / 8));
            }
            Zeros::Groups => found.push(run(rows.start * grid.zero_words, n * grid.zero_words)),
        }
        if grid.has_index {
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
        let mut of = Rows::new(packed, held, &rows)?;
        let (row_len, group) = (index(of.grid.row_len).max(1), index(of.grid.group));
        for (row, out) in rows.zip(out.chunks_exact_mut(row_len)) {
            of.take_row(row)?;
            let at = index(row - of.taken.start) * (row_len + APART);
            let codes = of.scratch.get(at..at + row_len).ok_or_else(too_short)?;
            let (scales, zeros) = of.of_groups(row)?;
            if let Some(index_of) = &of.index {
                for ((out, code), group) in out.iter_mut().zip(codes).zip(index_of) {
                    let group = index(u64::from(*group));
                    *out = (f32::from(*code) - zeros[group]) * scales[group];
                }
                continue;
            }
            let groups = out.chunks_mut(group).zip(codes.chunks(group)).zip(scales.iter().zip(zeros));
            for ((out, codes), (scale, zero)) in groups {
                let values = out.iter_mut().zip(codes);
                values.for_each(|(out, code)| *out = (f32::from(*code) - zero) * scale);
            }
        }
        Ok(())
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let of = Rows::new(packed, held, &held.rows)?;
        let is_half = |value: &f32| from_f16(to_f16(*value)) == *value;
        let zeros = |is_one: &dyn Fn(f32) -> bool| of.zeros.iter().all(|zero| is_one(*zero));
        // In an order of its own, a block of 32 columns must still be of one group.
        let in_blocks = of.index.as_ref().is_none_or(|index| {
            index.chunks(32).all(|groups| groups.iter().all(|group| *group == groups[0]))
        });
        Ok(in_blocks
            && of.scales.iter().all(is_half)
            && match dtype {
                DType::Q2_0 => {
                    of.index.is_none() && (zeros(&|zero| zero == 1.0) || zeros(&|zero| zero == 2.0))
                }
                DType::Q4_0 if of.grid.bits == 4 => zeros(&|zero| zero == 8.0),
                DType::Q4_0 => zeros(&|zero| zero <= 8.0),
                DType::Q5_0 if of.grid.bits == 5 => zeros(&|zero| zero == 16.0),
                DType::Q5_0 => zeros(&|zero| zero <= 16.0),
                DType::Q8_0 if of.grid.bits == 8 => zeros(&|zero| zero == 128.0),
                DType::Q8_0 => zeros(&|zero| zero <= 128.0),
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
        let mut of = Rows::new(packed, held, &rows)?;
        let (size, bytes): (usize, usize) = match dtype {
            DType::Q2_0 => (64, blocks::Q2_0_BYTES),
            DType::Q4_0 => (32, blocks::Q4_0_BYTES),
            DType::Q5_0 => (32, blocks::Q5_0_BYTES),
            DType::Q8_0 => (32, blocks::Q8_0_BYTES),
            _ => {
                return Err(Error::unsupported(format!(
                    "these codes cannot be repacked as {dtype} without loss"
                )));
            }
        };
        let row_len = index(of.grid.row_len);
        let group = index(of.grid.group);
        for (row, out) in rows.zip(out.chunks_exact_mut((row_len / size * bytes).max(1))) {
            of.take_row(row)?;
            let at = index(row - of.taken.start) * (row_len + APART);
            let codes = of.scratch.get(at..at + row_len).ok_or_else(too_short)?;
            let (scales, zeros) = of.of_groups(row)?;
            for (number, (out, codes)) in
                out.chunks_exact_mut(bytes).zip(codes.chunks_exact(size)).enumerate()
            {
                let column = number * size;
                let group = match &of.index {
                    Some(index_of) => index(u64::from(index_of[column])),
                    None => column / group,
                };
                let (scale, zero) = (scales[group], zeros[group]);
                block(dtype, codes, (scale, zero), out)?;
            }
        }
        Ok(())
    }
}

/// A block of codes with one scale and zero.
fn block(dtype: DType, codes: &[u8], (scale, zero): (f32, f32), out: &mut [u8]) -> Result<()> {
    if dtype == DType::Q2_0 {
        // Codes around 2 are those around 1 with the sign turned.
        match zero == 2.0 {
            true => {
                let turned: Vec<u8> = codes.iter().map(|code| 3 - (code & 3)).collect();
                blocks::q2_0(-scale, &turned, out);
            }
            false => blocks::q2_0(scale, codes, out),
        }
        return Ok(());
    }
    let codes: &[u8; 32] = codes.try_into().map_err(|_| Error::plugin("a block has 32 codes"))?;
    #[allow(clippy::cast_possible_truncation, reason = "zero points are whole numbers up to 256")]
    let zero_point = zero as i16;
    // Codes around the middle of the type; what does not fit is seen when the block is decoded.
    let around = |middle: i16| codes.map(|code| (i16::from(code) - zero_point + middle).to_le_bytes()[0]);
    match dtype {
        DType::Q4_0 => blocks::q4_0(scale, &around(8), out),
        DType::Q5_0 => blocks::q5_0(scale, &around(16), out),
        _ => blocks::q8_0(scale, around(0).into_iter().map(u8::cast_signed), out),
    }
    Ok(())
}
