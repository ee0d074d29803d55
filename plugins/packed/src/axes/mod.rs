//! Codes in their own order, with scales and zero points for the whole tensor, along one axis, or for blocks along one axis: what
//! formats say of derived weights.
//!
//! ```text
//! part 0  codes    [rows, stored], flat: those of less than a byte run on from row to row, the lowest bits first
//! part .  scales   one; one for each index of the axis; or the shape of the codes with the axis divided by the block
//! part .  zeros    likewise, if there are any; of packed codes each row filled up to a byte
//!
//! value = (code - zero) * scale, each step rounded to F32; with scales of F64, which torch has for channels, only the result
//! ```
//!
//! A stored row may be longer than a row: packed codes fill whole blocks. Scales and zero points that the format keeps as plain values are numbers of the layout, and no parts.

mod codes;

pub use codes::{bits, check_zero, is_known, is_number, reach};

use crate::blocks;
use crate::layout::{Layout, index, too_short};
use crate::scaled::keeps_small_floats;
use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, ExactType, HeldRows, PackedRows, PartBox, PartRange, Result};
use codes::{bits_of_number, codes, is_float, is_real, numbers_of, to_f32};
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "axes";

/// The layout.
pub struct Axes;

/// Where numbers are.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// In a part of this type.
    Part(DType),
    /// Here.
    Values(Vec<f64>),
}

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// All codes.
    All,
    /// Those of an index of the axis.
    Axis,
    /// So many along the axis, each element beside them having its own.
    Blocks(u64),
}

/// How such a weight is stored.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The type of the codes.
    pub codes: DType,
    /// The scales.
    pub scales: Side,
    /// The zero points, if there are any.
    pub zeros: Option<Side>,
    /// What shares a scale.
    pub along: Along,
    /// Indices of the axis.
    pub len: u64,
    /// Elements for each index of the axis: the product of the dimensions after it.
    pub inner: u64,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
    /// Codes per row as it is stored.
    pub stored: u64,
    /// Zero points per row as it is stored; 0 if they follow one another as scales do.
    pub stored_zeros: u64,
}

/// Where the scales for some columns of a row are.
struct Place {
    /// The first of them among all scales.
    first: u64,
    /// How many columns.
    n: u64,
    /// Whether the columns share this one, or have one each.
    is_shared: bool,
}

/// Stands for a side that is here, and for none.
const HERE: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX;

impl Spread {
    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let side = |side: &Side| match side {
            Side::Part(dtype) => (dtype.0, Vec::new()),
            Side::Values(values) => (HERE, values.clone()),
        };
        let (of_scales, scales) = side(&self.scales);
        let (of_zeros, zeros) = self.zeros.as_ref().map_or((NONE, Vec::new()), side);
        let (kind, block) = match self.along {
            Along::All => (0, 1),
            Along::Axis => (1, 1),
            Along::Blocks(block) => (2, block),
        };
        let head = [u64::from(self.codes.0), of_scales.into(), of_zeros.into(), kind, block];
        let counts = [self.len, self.inner, self.stored, self.stored_zeros, scales.len() as u64];
        let values = scales.into_iter().chain(zeros).map(f64::to_bits);
        let numbers = head.into_iter().chain(counts).chain(values).collect();
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Spread> {
        let wrong = || Error::plugin(format!("the numbers of `{NAME}` are invalid"));
        let (head, values) = packed.numbers.split_first_chunk::<10>().ok_or_else(wrong)?;
        let [codes, of_scales, of_zeros, kind, block, len, inner, stored, stored_zeros, n] = *head;
        let short = |number: u64| u32::try_from(number).map_err(|_| wrong());
        let (scales, zeros) = values.split_at_checked(index(n)).ok_or_else(wrong)?;
        let side = |dtype: u32, values: &[u64]| match dtype {
            HERE => Side::Values(values.iter().map(|bits| f64::from_bits(*bits)).collect()),
            dtype => Side::Part(DType(dtype)),
        };
        let of_zeros = short(of_zeros)?;
        Ok(Spread {
            codes: DType(short(codes)?),
            scales: side(short(of_scales)?, scales),
            zeros: (of_zeros != NONE).then(|| side(of_zeros, zeros)),
            along: match kind {
                0 => Along::All,
                1 => Along::Axis,
                _ => Along::Blocks(block.max(1)),
            },
            len: len.max(1),
            inner: inner.max(1),
            rows: packed.rows,
            row_len: packed.row_len,
            stored,
            stored_zeros,
        })
    }

    /// The sides in the order of the parts.
    fn sides(&self) -> impl Iterator<Item = &Side> {
        std::iter::once(&self.scales).chain(&self.zeros)
    }

    /// Blocks along the axis.
    fn blocks(&self) -> u64 {
        match self.along {
            Along::Blocks(block) => self.len.div_ceil(block),
            _ => 1,
        }
    }

    /// The row of scales, of `inner` each, that an element needs.
    fn group(&self, element: u64) -> u64 {
        let Along::Blocks(block) = self.along else { return 0 };
        let (outer, index) = (element / self.inner / self.len, element / self.inner % self.len);
        outer * self.blocks() + index / block
    }

    /// The scales that rows need: the first, and how many.
    fn needed(&self, rows: &Range<u64>) -> (u64, u64) {
        match self.along {
            Along::All => (0, 1),
            Along::Axis => (0, self.len),
            Along::Blocks(_) => {
                let (first, end) = (rows.start * self.row_len, rows.end * self.row_len);
                if end <= first {
                    return (0, 0);
                }
                let from = self.group(first);
                (from * self.inner, (self.group(end - 1) + 1 - from) * self.inner)
            }
        }
    }

    /// Whether 32 elements of a row always share a scale.
    fn shares_by_32(&self) -> bool {
        let is_last = self.inner == 1;
        self.row_len.is_multiple_of(32)
            && match self.along {
                Along::All => true,
                Along::Axis => !is_last || self.len == 1,
                Along::Blocks(block) => is_last && block.is_multiple_of(32),
            }
    }

    /// The types that may hold its values, best first.
    pub fn exact(&self) -> Vec<ExactType> {
        let dtype = match self.codes {
            DType::I8 | DType::U8 if self.shares_by_32() => DType::Q8_0,
            DType::I4 | DType::U4 if self.shares_by_32() => DType::Q4_0,
            codes if is_float(codes) || codes == DType::F4_E2M1 => DType::BF16,
            _ => return Vec::new(),
        };
        let parts = self.sides().filter(|side| matches!(side, Side::Part(_))).count();
        let holds = |side: &Side, is_zero: bool| match side {
            Side::Part(_) => true,
            Side::Values(values) => values.iter().all(|value| self.fits(dtype, *value, is_zero)),
        };
        let is_centred = self.zeros.is_some() || self.fits(dtype, 0.0, true);
        let is_held = holds(&self.scales, false)
            && self.zeros.as_ref().is_none_or(|side| holds(side, true))
            && is_centred;
        let exact = ExactType { dtype, evidence: (1..=parts).collect() };
        if is_held { vec![exact] } else { Vec::new() }
    }

    /// Whether a type holds what has this scale, or this zero point.
    fn fits(&self, dtype: DType, value: f64, is_zero: bool) -> bool {
        let middle = match self.codes {
            DType::U8 => 128.0,
            DType::U4 => 8.0,
            _ => 0.0,
        };
        let scale = to_f32(value);
        if !is_zero && f64::from(scale) != value {
            return false;
        }
        match (is_zero, dtype) {
            (true, _) => value == middle,
            (false, DType::BF16) => keeps_small_floats(scale),
            (false, _) => from_f16(to_f16(scale)) == scale,
        }
    }

    /// Scales and zero points of the rows held, and the number of the first.
    fn numbers(&self, held: &HeldRows<'_>) -> Result<Numbers> {
        let (first, n) = self.needed(&held.rows);
        let mut parts = held.parts.iter().skip(1);
        let mut take = |side: &Side, stored: u64| {
            let values = match side {
                Side::Values(values) if values.len() == 1 => vec![values[0]; index(n)],
                Side::Values(values) => {
                    let from = index(first);
                    values.get(from..from.saturating_add(index(n))).unwrap_or_default().to_vec()
                }
                Side::Part(dtype) if stored > 0 => {
                    let values = numbers_of(*dtype, parts.next().copied().unwrap_or_default())?;
                    let rows = values.chunks_exact(index(stored));
                    rows.flat_map(|row| row.iter().take(index(self.blocks()))).copied().collect()
                }
                Side::Part(dtype) => {
                    let bytes = parts.next().copied().unwrap_or_default();
                    // What has less than a byte begins within one.
                    let skip = first * bits_of_number(*dtype) % 8 / bits_of_number(*dtype);
                    let mut values = numbers_of(*dtype, bytes)?;
                    values.drain(..index(skip).min(values.len()));
                    values.truncate(index(n));
                    values
                }
            };
            if values.len() == index(n) { Ok(values) } else { Err(too_short()) }
        };
        let scales = take(&self.scales, 0)?;
        if let Some(bad) = scales.iter().find(|scale| !to_f32(**scale).is_finite()) {
            return Err(Error::malformed(format!("a scale is {bad}, expected a finite number")));
        }
        let Some(side) = &self.zeros else {
            return Ok(Numbers { first, zeros: vec![0.0; scales.len()], scales });
        };
        let zeros = take(side, self.stored_zeros)?;
        for zero in &zeros {
            match side {
                // Zero points that are floats lie wherever the writer found the least error.
                Side::Part(dtype) if is_real(*dtype) && zero.is_finite() => {}
                _ => check_zero(self.codes, *zero)?,
            }
        }
        Ok(Numbers { first, scales, zeros })
    }

    /// Where the scales for columns from `at` on are.
    fn place(&self, row: u64, at: u64) -> Place {
        let element = row * self.row_len + at;
        let (left, is_last) = (self.row_len - at, self.inner == 1);
        let to_next = self.inner - element % self.inner;
        match self.along {
            Along::All => Place { first: 0, n: left, is_shared: true },
            Along::Axis if is_last => {
                let first = element % self.len;
                Place { first, n: left.min(self.len - first), is_shared: false }
            }
            Along::Axis => {
                Place { first: element / self.inner % self.len, n: left.min(to_next), is_shared: true }
            }
            Along::Blocks(block) if is_last => {
                let to_end = (block - element % self.len % block).min(self.len - element % self.len);
                Place { first: self.group(element), n: left.min(to_end), is_shared: true }
            }
            Along::Blocks(_) => {
                let first = self.group(element) * self.inner + element % self.inner;
                Place { first, n: left.min(to_next), is_shared: false }
            }
        }
    }
}

/// Scales and zero points in memory.
struct Numbers {
    first: u64,
    scales: Vec<f64>,
    zeros: Vec<f64>,
}

impl Numbers {
    fn at(&self, place: u64) -> Result<(f64, f64)> {
        let (scales, zeros) = self.run(place, 1)?;
        Ok((scales[0], zeros[0]))
    }

    /// So many from number `place` on.
    fn run(&self, place: u64, n: usize) -> Result<(&[f64], &[f64])> {
        let at = index(place.wrapping_sub(self.first));
        let range = at..at.saturating_add(n);
        self.scales.get(range.clone()).zip(self.zeros.get(range)).ok_or_else(too_short)
    }
}

/// A value whose scale is F64, as torch's channels have it: only the result is rounded.
fn wide(code: f32, scale: f64, zero: f64) -> f32 {
    to_f32((f64::from(code) - zero) * scale)
}

impl Layout for Axes {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let spread = Spread::of(packed)?;
        // Elements; bytes, where they have less than one.
        let run = |bits: u64, first: u64, n: u64| {
            let (start, end) = match 8 / bits.min(8) {
                1 => (first, first + n),
                each => (first / each, (first + n).div_ceil(each)),
            };
            PartRange::Boxes(vec![PartBox::run(start, end - start)])
        };
        let n_rows = rows.end.saturating_sub(rows.start);
        let of_rows = |bits: u64, stored: u64| run(bits, rows.start * stored, n_rows * stored);
        let mut found = vec![of_rows(bits(spread.codes), spread.stored)];
        let (first, n) = spread.needed(&rows);
        for (side, stored) in spread.sides().zip([0, spread.stored_zeros]) {
            match (side, spread.along) {
                (Side::Values(_), _) => {}
                (Side::Part(dtype), Along::Blocks(_)) if stored > 0 => {
                    found.push(of_rows(bits_of_number(*dtype), stored));
                }
                (Side::Part(dtype), Along::Blocks(_)) => found.push(run(bits_of_number(*dtype), first, n)),
                (Side::Part(_), _) => found.push(PartRange::Whole),
            }
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
        let spread = Spread::of(packed)?;
        let numbers = spread.numbers(held)?;
        let bytes = held.parts.first().copied().unwrap_or_default();
        let before = held.rows.start * spread.stored * bits(spread.codes) / 8 * 8 / bits(spread.codes);
        let is_long = bits(spread.codes) > 16;
        let is_wide = spread.scales == Side::Part(DType::F64);
        for (row, out) in rows.zip(out.chunks_exact_mut(index(spread.row_len.max(1)))) {
            let first = index(row * spread.stored - before);
            if is_long {
                let bytes = bytes.get(first * 4..(first + out.len()) * 4).ok_or_else(too_short)?;
                let codes = numbers_of(spread.codes, bytes)?;
                for ((at, out), code) in (0..).zip(out).zip(codes) {
                    let (scale, zero) = numbers.at(spread.place(row, at).first)?;
                    *out = match is_wide {
                        true => to_f32((code - zero) * scale),
                        false => to_f32(code - zero) * to_f32(scale),
                    };
                }
                continue;
            }
            codes(spread.codes, bytes, first, out)?;
            let mut at = 0;
            while at < out.len() {
                let place = spread.place(row, at as u64);
                let run = &mut out[at..at + index(place.n)];
                if place.is_shared {
                    let (scale, zero) = numbers.at(place.first)?;
                    if is_wide {
                        run.iter_mut().for_each(|code| *code = wide(*code, scale, zero));
                    } else {
                        let (scale, zero) = (to_f32(scale), to_f32(zero));
                        run.iter_mut().for_each(|code| *code = (*code - zero) * scale);
                    }
                } else {
                    let (scales, zeros) = numbers.run(place.first, run.len())?;
                    let each = run.iter_mut().zip(scales).zip(zeros);
                    if is_wide {
                        each.for_each(|((code, scale), zero)| *code = wide(*code, *scale, *zero));
                    } else {
                        each.for_each(|((code, scale), zero)| {
                            *code = (*code - to_f32(*zero)) * to_f32(*scale)
                        });
                    }
                }
                at += run.len();
            }
        }
        Ok(())
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let spread = Spread::of(packed)?;
        let numbers = spread.numbers(held)?;
        let scales = numbers.scales.iter().all(|scale| spread.fits(dtype, *scale, false));
        // Without zero points all are 0.
        Ok(scales && numbers.zeros.iter().all(|zero| spread.fits(dtype, *zero, true)))
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let spread = Spread::of(packed)?;
        let numbers = spread.numbers(held)?;
        let block_bytes = dtype.info().map_or(1, |info| info.block_bytes as usize);
        let row_bytes = index(spread.row_len / 32) * block_bytes;
        // The codes without their zero point: blocks of ggml have it in the middle.
        let plain = Spread { scales: Side::Values(vec![1.0]), along: Along::All, ..spread.clone() };
        let zero = numbers.zeros.first().copied().unwrap_or_default();
        let plain = Spread { zeros: Some(Side::Values(vec![zero])), ..plain }.packed();
        let mut values = vec![0.0; index(spread.row_len)];
        for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes.max(1))) {
            self.unpack(&plain, held, row..row + 1, &mut values)?;
            for ((at, codes), out) in
                (0u64..).zip(values.as_chunks::<32>().0).zip(out.chunks_exact_mut(block_bytes))
            {
                let (scale, _) = numbers.at(spread.place(row, at * 32).first)?;
                match dtype {
                    DType::Q8_0 => {
                        blocks::q8_0(to_f32(scale), codes.iter().map(|code| blocks::signed(*code)), out)
                    }
                    DType::Q4_0 => {
                        let codes = codes.map(|code| (blocks::signed(code) + 8).cast_unsigned());
                        blocks::q4_0(to_f32(scale), &codes, out);
                    }
                    _ => {
                        return Err(Error::unsupported(format!(
                            "these codes cannot be repacked as {dtype} without loss"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}
