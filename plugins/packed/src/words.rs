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

use crate::blocks;
use crate::layout::{Layout, numbers};
use crate::numbers::values;
use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, ExactType, HeldRows, PackedRows, PartBox, PartRange, Result};
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
    /// As strings of bits down the rows: [words, groups] (compressed-tensors).
    Down,
    /// As strings of bits along the rows: [groups, words], each so much too small (GPTQ).
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
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

/// The bit where a row's code begins in a word of eight.
const ORDER: [u64; 8] = [0, 16, 4, 20, 8, 24, 12, 28];

/// Rows whose codes are taken out of columns together: a cache line of words.
const LANES: u64 = 16;

/// Bytes between rows of codes in memory: rows whose lengths are powers of two would push each other out of the cache.
const APART: usize = 64;

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
        ];
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Grid> {
        let [bits, codes, zeros, of_zeros, scales, group, groups, zero_words, has_index] = numbers(packed)?;
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
                _ => Zeros::Groups,
            },
            scales: DType(u32::try_from(scales).map_err(|_| Error::plugin("a number is too large"))?),
            group: group.max(1),
            groups,
            zero_words,
            has_index: has_index != 0,
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
            (_, Zeros::Along(_) | Zeros::Down) => 32,
            _ => return rows.clone(),
        };
        rows.start / step * step..(rows.end.div_ceil(step) * step).min(self.rows.div_ceil(8) * 8)
    }

    /// Words that hold the zeros of these rows, which begin at a whole word.
    fn zero_strings(&self, whole: &Range<u64>) -> u64 {
        let last = (whole.end.min(self.rows) * self.bits).div_ceil(32);
        last.saturating_sub(whole.start * self.bits / 32)
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
            _ => &[DType::Q8_0],
        };
        let parts = 2 + usize::from(!matches!(self.zeros, Zeros::All(_))) + usize::from(self.has_index);
        let fits = |dtype: &&DType| in_blocks(if **dtype == DType::Q2_0 { 64 } else { 32 });
        let exact = |dtype: &DType| ExactType { dtype: *dtype, evidence: (1..parts).collect() };
        types.iter().filter(fits).map(exact).collect()
    }
}

/// Rows of a grid, with all that is needed to unpack them.
struct Rows<'a> {
    grid: Grid,
    /// The rows that words are held of.
    held: Range<u64>,
    /// The rows that are wanted.
    wanted: Range<u64>,
    codes: &'a [u8],
    /// For each row wanted and each group, row after row.
    scales: Vec<f32>,
    /// Likewise.
    zeros: Vec<f32>,
    /// The group of each column, where it is not that of its place.
    index: Option<Vec<u32>>,
    scratch: Vec<u8>,
    /// The rows whose codes are in `scratch`.
    taken: Range<u64>,
}

/// The little-endian word at an index.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at * 4..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// The code of `bits` that begins at bit `at` of a string of words, of which `of` gives each.
fn code(of: impl Fn(u64) -> Option<u32>, at: u64, bits: u64) -> Option<u8> {
    let (number, shift) = (at / 32, at % 32);
    let mut wide = u64::from(of(number)?);
    if shift + bits > 32 {
        wide |= u64::from(of(number + 1)?) << 32;
    }
    u8::try_from(wide >> shift & ((1 << bits) - 1)).ok()
}

/// The eight codes of four bits in a word, the lowest first.
fn nibbles(word: u32) -> [u8; 8] {
    let [a, c, e, g] = (word & 0x0f0f_0f0f).to_le_bytes();
    let [b, d, f, h] = (word >> 4 & 0x0f0f_0f0f).to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

fn too_short() -> Error {
    Error::plugin("a part has too few bytes for its rows")
}

/// A number of elements in memory.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl<'a> Rows<'a> {
    fn new(packed: &PackedRows, held: &HeldRows<'a>, wanted: &Range<u64>) -> Result<Rows<'a>> {
        let grid = Grid::of(packed)?;
        let part = |at: usize| held.parts.get(at).copied().unwrap_or_default();
        let whole = grid.whole(&held.rows);
        if wanted.start < held.rows.start || wanted.end > held.rows.end {
            return Err(Error::plugin("rows are wanted that are not held"));
        }
        let groups = index(grid.groups);
        let first = index(wanted.start - held.rows.start);
        let (n, of_held) = (index(wanted.end - wanted.start), index(held.rows.end - held.rows.start));
        let of_rows = |bytes: &[u8]| grid.of_rows(bytes, (first, n), of_held);
        let scales = of_rows(part(1))?;
        if let Some(bad) = scales.iter().find(|scale| !scale.is_finite()) {
            return Err(Error::malformed(format!("a scale is {bad}, not a finite number")));
        }
        let zeros = match grid.zeros {
            Zeros::All(zero) => vec![f32::from(u16::try_from(zero).unwrap_or(u16::MAX)); n * groups],
            _ => {
                let rows = wanted.clone().flat_map(|row| (0..grid.groups).map(move |group| (row, group)));
                let zero = |(row, group)| grid.zero(part(2), &whole, row, group).ok_or_else(too_short);
                rows.map(zero).collect::<Result<_>>()?
            }
        };
        let at = 2 + usize::from(!matches!(grid.zeros, Zeros::All(_)));
        let index_of = || {
            let numbers = part(at).as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            let numbers: Vec<u32> = numbers.collect();
            if numbers.len() as u64 != grid.row_len {
                return Err(too_short());
            }
            match numbers.iter().find(|group| index(u64::from(**group)) >= groups) {
                Some(bad) => {
                    let message = format!("`g_idx` names group {bad}, and there are {groups}");
                    Err(Error::malformed(message))
                }
                None => Ok(numbers),
            }
        };
        let index = grid.has_index.then(index_of).transpose()?;
        // An index that only counts groups is none.
        let counts = |numbers: &Vec<u32>| {
            (0u64..).zip(numbers).all(|(column, group)| column / grid.group == u64::from(*group))
        };
        let index = index.filter(|numbers| !counts(numbers));
        Ok(Rows {
            grid,
            held: held.rows.clone(),
            wanted: wanted.clone(),
            codes: part(0),
            scales,
            zeros,
            index,
            scratch: Vec::new(),
            taken: 0..0,
        })
    }

    /// Makes `scratch` have the codes of a row, among those of `taken`.
    fn take_row(&mut self, row: u64) -> Result<()> {
        let len = index(self.grid.row_len);
        if !self.taken.contains(&row) {
            let step = match self.grid.codes {
                Codes::Rows | Codes::PaddedRows => 1,
                Codes::Columns => LANES,
                Codes::Eights => 8,
            };
            let first = match self.grid.codes {
                Codes::Eights => row / 8 * 8,
                _ => row,
            };
            self.taken = first..(first + step).min(self.held.end.max(row + 1));
            let lanes = index(step);
            self.scratch.resize((len + APART) * lanes, 0);
            self.take(first).ok_or_else(too_short)?;
        }
        Ok(())
    }

    /// Fills `scratch` with the codes of the rows from `first` on.
    fn take(&mut self, first: u64) -> Option<()> {
        let Grid { bits, row_len, .. } = self.grid;
        let len = index(row_len);
        match self.grid.codes {
            Codes::Rows | Codes::PaddedRows => {
                let words = index(self.grid.code_words());
                let from = index(first - self.held.start) * words;
                let bytes = self.codes.get(from * 4..(from + words) * 4)?;
                let codes = self.scratch.get_mut(..len)?;
                match (self.grid.codes, bits) {
                    (Codes::Rows, 4) => {
                        for (out, byte) in codes.chunks_mut(2).zip(bytes) {
                            let pair = [byte & 15, byte >> 4];
                            out.iter_mut().zip(pair).for_each(|(out, code)| *out = code);
                        }
                    }
                    (Codes::Rows, 8) => codes.copy_from_slice(bytes.get(..len)?),
                    (Codes::Rows, _) => {
                        for (at, out) in (0u64..).zip(codes.iter_mut()) {
                            *out = code(|at| word(bytes, index(at)), at * bits, bits)?;
                        }
                    }
                    _ => {
                        let each = 32 / bits;
                        for (at, out) in (0u64..).zip(codes.iter_mut()) {
                            let word = word(bytes, index(at / each))?;
                            *out = u8::try_from(u64::from(word) >> (at % each * bits) & ((1 << bits) - 1))
                                .ok()?;
                        }
                    }
                }
            }
            Codes::Columns => {
                let width = self.held.end - self.held.start;
                let lanes = index(self.taken.end - self.taken.start);
                let first = index(first - self.held.start);
                let (words, each) = (self.grid.code_words(), 32 / bits);
                if 32 % bits == 0 {
                    let mask = (1u32 << bits) - 1;
                    for number in 0..words {
                        let from = index(number * width) + first;
                        let row = self.codes.get(from * 4..(from + lanes) * 4)?;
                        let (at, n) = (index(number * each), index(each.min(row_len - number * each)));
                        for (lane, bytes) in row.as_chunks::<4>().0.iter().enumerate() {
                            let mut word = u32::from_le_bytes(*bytes);
                            if bits == 4 && n == 8 {
                                let out = self.scratch[lane * (len + APART) + at..].first_chunk_mut::<8>()?;
                                *out = nibbles(word);
                                continue;
                            }
                            for out in &mut self.scratch[lane * (len + APART) + at..][..n] {
                                [*out, ..] = (word & mask).to_le_bytes();
                                word = word.checked_shr(u32::try_from(bits).ok()?).unwrap_or(0);
                            }
                        }
                    }
                } else {
                    for lane in 0..lanes {
                        for (at, out) in (0u64..).zip(&mut self.scratch[lane * (len + APART)..][..len]) {
                            let of = |at: u64| word(self.codes, index(at * width) + first + lane);
                            *out = code(of, at * bits, bits)?;
                        }
                    }
                }
            }
            Codes::Eights => {
                let whole = self.grid.whole(&self.held);
                let width = index((whole.end - whole.start) / 8);
                let from = index((first - whole.start) / 8);
                let words: Option<Vec<u32>> =
                    (0..len).map(|at| word(self.codes, at * width + from)).collect();
                let words = words?;
                for (out, shift) in self.scratch.chunks_exact_mut(len + APART).zip(ORDER) {
                    for (out, word) in out.iter_mut().zip(&words) {
                        [*out, ..] = (word >> shift & 15).to_le_bytes();
                    }
                }
            }
        }
        Some(())
    }

    /// The scales and zero points of a row's groups.
    fn of_groups(&self, row: u64) -> Result<(&[f32], &[f32])> {
        let groups = index(self.grid.groups);
        let at = index(row - self.wanted.start) * groups;
        let of = |of: &'_ [f32]| at + groups <= of.len();
        if !of(&self.scales) || !of(&self.zeros) {
            return Err(too_short());
        }
        Ok((&self.scales[at..at + groups], &self.zeros[at..at + groups]))
    }
}

impl Grid {
    /// The scales of `n` rows from `first` on, of those that are held.
    fn of_rows(&self, bytes: &[u8], (first, n): (usize, usize), held: usize) -> Result<Vec<f32>> {
        let width = self.scales.require()?.block_bytes as usize;
        let groups = index(self.groups);
        let mut out = Vec::with_capacity(n * groups);
        if !self.is_turned() {
            let bytes = bytes.get(first * groups * width..(first + n) * groups * width);
            values(self.scales, bytes.ok_or_else(too_short)?, &mut out)?;
            return Ok(out);
        }
        // Row after row of groups becomes group after group of rows.
        let mut columns = Vec::with_capacity(n * groups);
        for group in 0..groups {
            let from = group * held + first;
            let bytes = bytes.get(from * width..(from + n) * width).ok_or_else(too_short)?;
            values(self.scales, bytes, &mut columns)?;
        }
        for row in 0..n {
            out.extend((0..groups).map(|group| columns[group * n + row]));
        }
        Ok(out)
    }

    /// The zero point of a group in a row; `whole` are the rows that words are held of.
    fn zero(&self, bytes: &[u8], whole: &Range<u64>, row: u64, group: u64) -> Option<f32> {
        let (bits, from) = (self.bits, row - whole.start);
        let found = match self.zeros {
            Zeros::All(zero) => zero,
            Zeros::Down => {
                let groups = self.groups;
                code(|at| word(bytes, index(at * groups + group)), from * bits, bits)?.into()
            }
            Zeros::Along(add) => {
                let width = self.zero_strings(whole);
                let of = |at: u64| word(bytes, index(group * width + at));
                u64::from(code(of, from * bits, bits)?) + add
            }
            Zeros::Eights => {
                let width = (whole.end - whole.start) / 8;
                let word = word(bytes, index(group * width + from / 8))?;
                u64::from(word >> ORDER[index(from % 8)] & 15)
            }
            Zeros::Groups => {
                let words = self.zero_words;
                code(|at| word(bytes, index(from * words + at)), group * bits, bits)?.into()
            }
        };
        u16::try_from(found).ok().map(f32::from)
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
        found.push(match grid.is_turned() {
            true => columns(grid.groups, grid.rows, rows.start, n),
            false => run(rows.start * grid.groups, n * grid.groups),
        });
        let strings = |rows: u64| (rows * grid.bits).div_ceil(32);
        match grid.zeros {
            Zeros::All(_) => {}
            Zeros::Down => {
                let first = whole.start * grid.bits / 32;
                found.push(run(first * grid.groups, grid.zero_strings(&whole) * grid.groups));
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
            _ => return Err(Error::unsupported(format!("such codes do not become {dtype} without loss"))),
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
