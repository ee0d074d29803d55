//! Rows out of words: the codes, the scales and the zero points of some rows, from the bytes that are held.

use super::{Codes, Grid, Zeros};
use crate::layout::{index, too_short};
use crate::numbers::values;
use apr_sdk::{Error, HeldRows, PackedRows, Result};
use std::ops::Range;

/// The bit where a row's code begins in a word of eight.
const ORDER: [u64; 8] = [0, 16, 4, 20, 8, 24, 12, 28];

/// Rows whose codes are taken out of columns together: a cache line of words.
const LANES: u64 = 16;

/// Bytes between rows of codes in memory: rows whose lengths are powers of two would push each other out of the cache.
pub(super) const APART: usize = 64;

/// Rows of a grid, with all that is needed to unpack them.
pub(super) struct Rows<'a> {
    pub(super) grid: Grid,
    /// The rows that words are held of.
    held: Range<u64>,
    /// The rows that are wanted.
    wanted: Range<u64>,
    codes: &'a [u8],
    /// For each row wanted and each group, row after row.
    pub(super) scales: Vec<f32>,
    /// Likewise.
    pub(super) zeros: Vec<f32>,
    /// The group of each column, where it is not that of its place.
    pub(super) index: Option<Vec<u32>>,
    pub(super) scratch: Vec<u8>,
    /// The rows whose codes are in `scratch`.
    pub(super) taken: Range<u64>,
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

impl<'a> Rows<'a> {
    pub(super) fn new(packed: &PackedRows, held: &HeldRows<'a>, wanted: &Range<u64>) -> Result<Rows<'a>> {
        let grid = Grid::of(packed)?;
        let part = |at: usize| held.parts.get(at).copied().unwrap_or_default();
        let whole = grid.whole(&held.rows);
        if wanted.start < held.rows.start || wanted.end > held.rows.end {
            return Err(Error::plugin("rows out of range"));
        }
        let groups = index(grid.groups);
        let first = index(wanted.start - held.rows.start);
        let (n, of_held) = (index(wanted.end - wanted.start), index(held.rows.end - held.rows.start));
        let of_rows = |bytes: &[u8]| grid.of_rows(bytes, (first, n), of_held);
        let scales = of_rows(part(1))?;
        if let Some(bad) = scales.iter().find(|scale| !scale.is_finite()) {
            return Err(Error::malformed(format!("a scale is {bad}, expected a finite number")));
        }
        let zeros = match grid.zeros {
            Zeros::All(zero) => vec![f32::from(u16::try_from(zero).unwrap_or(u16::MAX)); n * groups],
            Zeros::Bytes => {
                let each = if grid.is_one { 0..1 } else { first * groups..(first + n) * groups };
                let mut zeros = grid.bytes(part(2).get(each).ok_or_else(too_short)?)?;
                zeros.resize(n * groups, zeros.first().copied().unwrap_or(0.0));
                zeros
            }
            _ => {
                let rows = wanted.clone().flat_map(|row| (0..grid.groups).map(move |group| (row, group)));
                let zero = |(row, group)| grid.zero(part(2), &whole, row, group).ok_or_else(too_short);
                rows.map(zero).collect::<Result<_>>()?
            }
        };
        let at = 2 + usize::from(!matches!(grid.zeros, Zeros::All(_)));
        let index_of = || {
            let numbers = part(at).as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
            grid.index(numbers.collect())
        };
        let index = grid.has_index.then(index_of).transpose()?.flatten();
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
    pub(super) fn take_row(&mut self, row: u64) -> Result<()> {
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
    pub(super) fn of_groups(&self, row: u64) -> Result<(&[f32], &[f32])> {
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
    /// Zero points that are signed bytes.
    fn bytes(&self, bytes: &[u8]) -> Result<Vec<f32>> {
        let middle = 1i16 << (self.bits - 1);
        let zero = |byte: &u8| {
            let zero = i16::from(byte.cast_signed());
            if (-middle..middle).contains(&zero) {
                return Ok(f32::from(zero + middle));
            }
            let message = format!("a zero point is {zero}, which is out of range for {} bits", self.bits);
            Err(Error::malformed(message))
        };
        bytes.iter().map(zero).collect()
    }

    /// The groups of columns that an index tells; none if it only counts them, or was never filled: with -1 in
    /// compressed-tensors, with 0 in exports of GPTQ.
    fn index(&self, numbers: Vec<i32>) -> Result<Option<Vec<u32>>> {
        if numbers.len() as u64 != self.row_len {
            return Err(too_short());
        }
        let unfilled = if self.is_turned() { 0 } else { -1 };
        let is_filled = numbers.iter().any(|group| *group != unfilled);
        let counts = |numbers: &[i32]| {
            (0u64..).zip(numbers).all(|(column, group)| u64::try_from(*group) == Ok(column / self.group))
        };
        if !is_filled || counts(&numbers) {
            return Ok(None);
        }
        let mut filled = vec![0u64; index(self.groups)];
        let mut groups = Vec::with_capacity(numbers.len());
        for number in numbers {
            let group = u32::try_from(number).ok().filter(|group| u64::from(*group) < self.groups);
            let group = group.ok_or_else(|| {
                let message = format!("`g_idx` has group {number}, but there are only {}", self.groups);
                Error::malformed(message)
            })?;
            filled[index(group.into())] += 1;
            groups.push(group);
        }
        if let Some(group) = filled.iter().position(|count| *count > self.group) {
            let (n, of) = (filled[group], self.group);
            let message = format!("`g_idx` assigns {n} columns to group {group}, but groups have {of}");
            return Err(Error::malformed(message));
        }
        Ok(Some(groups))
    }

    /// The scales of `n` rows from `first` on, of those that are held.
    fn of_rows(&self, bytes: &[u8], (first, n): (usize, usize), held: usize) -> Result<Vec<f32>> {
        let width = self.scales.require()?.block_bytes as usize;
        let groups = index(self.groups);
        let mut out = Vec::with_capacity(n * groups);
        if self.is_one {
            values(self.scales, bytes.get(..width).ok_or_else(too_short)?, &mut out)?;
            out.resize(n, out[0]);
            return Ok(out);
        }
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
            Zeros::Bytes => return None,
            Zeros::Down => {
                // Without alignment, the rows held are those that are whole.
                let (groups, first) = (self.groups, self.zero_words_down(whole).start);
                let of = |at: u64| word(bytes, index((at - first) * groups + group));
                code(of, self.zero_bit(row), bits)?.into()
            }
            Zeros::Along(add) => {
                let width = self.zero_strings(whole);
                let of = |at: u64| word(bytes, index(group * width + at));
                match 32 % bits {
                    // As GPTQModel adds it, to whole words: a place that overflows carries into the next one, from which
                    // the writer borrowed.
                    0 => {
                        let ones = u32::MAX / ((1u32 << bits) - 1);
                        let add = u32::try_from(add).ok()?.wrapping_mul(ones);
                        code(|at| Some(of(at)?.wrapping_add(add)), from * bits, bits)?.into()
                    }
                    _ => (u64::from(code(of, from * bits, bits)?) + add) & ((1 << bits) - 1),
                }
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
