//! Codes whose neighbours in a word come from far apart, or from rows below: HQQ, BitNet, and int4 of modelopt.
//!
//! ```text
//! part 0  codes    words of one or four bytes. Bit field n of word w is element n * words + w of the flattened weight: the
//!                  weight is cut into slices that lie over each other. Or, paired: field n of row r is row r * fields + n.
//! part 1  scales   one for each group of the flattened weight; or one for each column of the weight seen as
//!                  [group, columns] ("across"), whatever its rows are
//! part 2  zeros    likewise, if there are any
//! part 3  columns  a factor for each column, if there are any
//!
//! value = (code - zero) * scale * column, or (code - zero) / scale; every step is rounded to F32
//! ```

mod held;

use crate::blocks;
use crate::layout::{Layout, index, numbers, too_short};
use crate::numbers::values;
use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, ExactType, HeldRows, PackedRows, PartBox, PartRange, Result};
use held::Held;
use std::ops::Range;

/// The layout's name.
pub const NAME: &str = "slices";

/// The layout.
pub struct Sliced;

/// How such a weight is stored.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// Bits of a code: 1 to 8.
    pub bits: u32,
    /// Bytes of a word: 1 or 4.
    pub unit: u64,
    /// Bytes of a stored element: those of a word, unless words are seen as another type.
    pub element: u64,
    /// Codes in a word.
    pub fields: u64,
    /// Whether the first slice is in the upper bits of the fields.
    pub is_high_first: bool,
    /// Words that hold codes; 0 if rows are paired.
    pub words: u64,
    /// Elements that share a scale; or columns, if scales lie across.
    pub group: u64,
    /// Whether scales lie across.
    pub is_across: bool,
    /// The type of the scales.
    pub scales: DType,
    /// The type of the zero points, if there are any.
    pub zeros: Option<DType>,
    /// The zero point otherwise.
    pub zero: u8,
    /// Bits of codes that are the other way around: the sign of a two's complement.
    pub flip: u8,
    /// Whether the scale divides.
    pub is_divisor: bool,
    /// The type of the factors of columns, if there are any.
    pub columns: Option<DType>,
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

impl Slices {
    /// The same as numbers.
    pub fn packed(&self) -> PackedRows {
        let of = |dtype: Option<DType>| u64::from(dtype.map_or(u32::MAX, |dtype| dtype.0));
        let flags = [self.is_high_first, self.is_across, self.is_divisor].map(u64::from);
        let small = [self.bits, self.scales.0, self.zero.into(), self.flip.into()].map(u64::from);
        let sizes =
            [self.unit, self.element, self.fields, self.words, self.group, of(self.zeros), of(self.columns)];
        let numbers = flags.into_iter().chain(small).chain(sizes).collect();
        PackedRows { scheme: NAME.to_owned(), numbers, rows: self.rows, row_len: self.row_len }
    }

    fn of(packed: &PackedRows) -> Result<Slices> {
        let [
            high,
            across,
            divisor,
            bits,
            scales,
            zero,
            flip,
            unit,
            element,
            fields,
            words,
            group,
            zeros,
            columns,
        ] = numbers(packed)?;
        let wrong = || Error::plugin("slices out of range");
        let short = |number: u64| u32::try_from(number).map_err(|_| wrong());
        let byte = |number: u64| u8::try_from(number).map_err(|_| wrong());
        let dtype = |number: u64| short(number).map(|number| (number != u32::MAX).then_some(DType(number)));
        let is_right = (1..=8).contains(&bits) && (unit == 1 || unit == 4) && (1..=16).contains(&fields);
        let fits = element > 0 && (unit.is_multiple_of(element) || element.is_multiple_of(unit));
        if !is_right || !fits || bits * fields > unit * 8 || group == 0 {
            return Err(wrong());
        }
        Ok(Slices {
            bits: short(bits)?,
            unit,
            element,
            fields,
            is_high_first: high != 0,
            words,
            group,
            is_across: across != 0,
            scales: DType(short(scales)?),
            zeros: dtype(zeros)?,
            zero: byte(zero)?,
            flip: byte(flip)?,
            is_divisor: divisor != 0,
            columns: dtype(columns)?,
            rows: packed.rows,
            row_len: packed.row_len,
        })
    }

    /// The elements of rows in the flattened weight.
    fn flat(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start * self.row_len..rows.end.max(rows.start) * self.row_len
    }

    /// Runs of elements that lie in one slice: the field, the first word, and how many there are.
    fn runs(&self, flat: Range<u64>) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let (words, mut at) = (self.words.max(1), flat.start);
        std::iter::from_fn(move || {
            let (field, first) = (at / words, at % words);
            let len = (words - first).min(flat.end - at);
            at += len;
            (len > 0).then_some((field, first, len))
        })
    }

    /// How far field number `field` is shifted.
    fn shift(&self, field: u64) -> u64 {
        let field = field.min(self.fields - 1);
        u64::from(self.bits) * if self.is_high_first { self.fields - 1 - field } else { field }
    }

    /// The types that may hold its values.
    pub fn exact(&self) -> Vec<ExactType> {
        let one_scale = self.group >= self.rows * self.row_len && !self.is_across;
        let evidence = if self.zeros.is_some() { vec![1, 2] } else { vec![1] };
        let all = |types: &[DType]| {
            types.iter().map(|dtype| ExactType { dtype: *dtype, evidence: evidence.clone() }).collect()
        };
        let is_ternary = self.bits == 2 && self.zero == 1 && self.zeros.is_none() && one_scale;
        if self.columns.is_some() || self.is_across {
            return Vec::new();
        }
        if is_ternary && self.row_len.is_multiple_of(256) {
            return all(&[DType::TQ2_0, DType::TQ1_0]);
        }
        if self.is_divisor || !self.group.is_multiple_of(32) || !self.row_len.is_multiple_of(32) {
            return Vec::new();
        }
        match (self.zeros, self.bits) {
            (None, 4) if self.zero == 8 => all(&[DType::Q4_0]),
            (Some(_), 0..=4) => all(&[DType::Q4_1, DType::Q8_0]),
            (Some(_), _) => all(&[DType::Q8_0]),
            _ => Vec::new(),
        }
    }

    /// Whether a type holds every value that codes can mean with this scale and zero point.
    fn holds(&self, dtype: DType, scale: f32, zero: f32) -> bool {
        let is_half = |value: f32| from_f16(to_f16(value)) == value;
        let mut codes = (0u16..1 << self.bits).map(f32::from);
        match dtype {
            DType::TQ1_0 | DType::TQ2_0 => is_half(if self.is_divisor { 1.0 / scale } else { scale }),
            DType::Q4_0 => is_half(scale),
            DType::Q4_1 => {
                let least = -zero * scale;
                is_half(scale)
                    && is_half(least)
                    && codes.all(|code| (code - zero) * scale == code * scale + least)
            }
            DType::Q8_0 => {
                is_half(scale)
                    && zero.fract() == 0.0
                    && codes.all(|code| (-128.0..=127.0).contains(&(code - zero)))
            }
            _ => false,
        }
    }
}

impl Layout for Sliced {
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>> {
        let slices = Slices::of(packed)?;
        let flat = slices.flat(&rows);
        // Words in stored elements, which hold whole runs of words.
        let run = |first: u64, len: u64| {
            let elements = |words: u64| words * slices.unit / slices.element;
            PartBox::run(elements(first), elements(len))
        };
        let codes = if slices.words == 0 {
            let words =
                rows.start / slices.fields..rows.end.div_ceil(slices.fields).max(rows.start / slices.fields);
            vec![run(words.start * slices.row_len, (words.end - words.start) * slices.row_len)]
        } else {
            slices.runs(flat.clone()).map(|(_, first, len)| run(first, len)).collect()
        };
        let scales = if slices.is_across {
            PartRange::Whole
        } else {
            let first = flat.start / slices.group;
            PartRange::Boxes(vec![PartBox::run(first, flat.end.div_ceil(slices.group).saturating_sub(first))])
        };
        let mut found = vec![PartRange::Boxes(codes), scales.clone()];
        if slices.zeros.is_some() {
            found.push(scales);
        }
        if slices.columns.is_some() {
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
        let held = Held::new(packed, held)?;
        let slices = &held.slices;
        let row_len = index(slices.row_len);
        let mut columns = Vec::new();
        if let Some(dtype) = slices.columns {
            values(dtype, held.part(2 + usize::from(slices.zeros.is_some())), &mut columns)?;
            if let Some(bad) = columns.iter().find(|column| !column.is_finite()) {
                return Err(Error::malformed(format!("a column factor is {bad}, expected a finite number")));
            }
        }
        let (mut codes, mut scales, mut zeros) = (vec![0u8; row_len], Vec::new(), Vec::new());
        let zero = f32::from(slices.zero);
        for (row, out) in rows.zip(out.chunks_exact_mut(row_len.max(1))) {
            held.codes(row, &mut codes)?;
            held.scales_and_zeros(row, &mut scales, &mut zeros)?;
            if slices.is_across {
                zeros.resize(row_len, zero);
                for ((out, code), (scale, zero)) in out.iter_mut().zip(&codes).zip(scales.iter().zip(&zeros))
                {
                    *out = (f32::from(*code) - zero) * scale;
                }
            } else {
                for ((from, len), (number, &scale)) in held.pieces(row).zip(scales.iter().enumerate()) {
                    let zero = zeros.get(number).copied().unwrap_or(zero);
                    let values = out[from..from + len].iter_mut().zip(&codes[from..from + len]);
                    if slices.is_divisor {
                        values.for_each(|(out, code)| *out = (f32::from(*code) - zero) / scale);
                    } else {
                        values.for_each(|(out, code)| *out = (f32::from(*code) - zero) * scale);
                    }
                }
            }
            out.iter_mut().zip(&columns).for_each(|(value, column)| *value *= column);
        }
        Ok(())
    }

    fn holds(&self, packed: &PackedRows, held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let held = Held::new(packed, held)?;
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for row in held.rows.clone() {
            held.scales_and_zeros(row, &mut scales, &mut zeros)?;
            let zero = |number: usize| zeros.get(number).copied().unwrap_or(f32::from(held.slices.zero));
            if !scales
                .iter()
                .enumerate()
                .all(|(number, scale)| held.slices.holds(dtype, *scale, zero(number)))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn repack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let held = Held::new(packed, held)?;
        let (elements, bytes) = match dtype {
            DType::TQ1_0 => (256, blocks::TQ1_0_BYTES),
            DType::TQ2_0 => (256, blocks::TQ2_0_BYTES),
            DType::Q4_0 => (32, blocks::Q4_0_BYTES),
            DType::Q4_1 => (32, blocks::Q4_1_BYTES),
            DType::Q8_0 => (32, blocks::Q8_0_BYTES),
            _ => {
                return Err(Error::unsupported(format!(
                    "these codes cannot be repacked as {dtype} without loss"
                )));
            }
        };
        let (row_len, group) = (held.slices.row_len, held.slices.group);
        let (mut codes, mut scales, mut zeros) = (vec![0u8; index(row_len)], Vec::new(), Vec::new());
        for (row, out) in rows.zip(out.chunks_exact_mut((index(row_len) / elements * bytes).max(1))) {
            held.codes(row, &mut codes)?;
            held.scales_and_zeros(row, &mut scales, &mut zeros)?;
            let first = row * row_len / group;
            let parts = codes.chunks_exact(elements).zip(out.chunks_exact_mut(bytes));
            for ((codes, out), element) in parts.zip((row * row_len..).step_by(elements)) {
                let number = index(element / group - first);
                let scale = scales.get(number).copied().ok_or_else(too_short)?;
                let zero = zeros.get(number).copied().unwrap_or(f32::from(held.slices.zero));
                let signed = |code: u8| blocks::signed(f32::from(code) - zero);
                match (dtype, <&[u8; 32]>::try_from(codes).ok(), <&[u8; 256]>::try_from(codes).ok()) {
                    (DType::Q4_0, Some(codes), _) => blocks::q4_0(scale, codes, out),
                    (DType::Q4_1, Some(codes), _) => blocks::q4_1((scale, -zero * scale), codes, out),
                    (DType::Q8_0, Some(codes), _) => {
                        blocks::q8_0(scale, codes.iter().copied().map(signed), out)
                    }
                    (_, _, Some(digits)) => {
                        let scale = if held.slices.is_divisor { 1.0 / scale } else { scale };
                        blocks::ternary(dtype, scale, digits, out)?;
                    }
                    _ => return Err(too_short()),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn slices(bits: u32, fields: u64, rows: u64, row_len: u64) -> Slices {
        Slices {
            bits,
            unit: 1,
            element: 1,
            fields,
            is_high_first: false,
            words: (rows * row_len).div_ceil(fields),
            group: rows * row_len,
            is_across: false,
            scales: DType::F32,
            zeros: None,
            zero: 0,
            flip: 0,
            is_divisor: false,
            columns: None,
            rows,
            row_len,
        }
    }

    #[test]
    fn rows_cross_slices() {
        // Three rows of two in two slices of three words: the second row begins in one, and ends in the other.
        let of = Slices { is_high_first: true, group: 3, zeros: Some(DType::F32), ..slices(4, 2, 3, 2) };
        let ranges = Sliced.ranges(&of.packed(), 1..2).unwrap_or_default();
        let boxes = vec![PartBox::run(2, 1), PartBox::run(0, 1)];
        assert_eq!(ranges[0], PartRange::Boxes(boxes));
        // Elements 1 2 3 | 4 5 6, of which the second row has 3 and 4.
        let (scales, zeros) = (bytes(&[1.0, 10.0]), bytes(&[0.5, 1.0]));
        let parts: [&[u8]; 4] = [&[0x36, 0x14], &scales, &zeros, &[]];
        let mut out = [0.0; 2];
        let held = HeldRows { rows: 1..2, parts: &parts };
        assert!(Sliced.unpack(&of.packed(), &held, 1..2, &mut out).is_ok());
        assert_eq!(out, [2.5, 30.0]);
    }

    #[test]
    fn paired_rows_with_signs_and_factors_of_columns() {
        let of =
            Slices { words: 0, zero: 8, flip: 8, group: 2, columns: Some(DType::F32), ..slices(4, 2, 4, 2) };
        let (scales, columns) = (bytes(&[2.0]), bytes(&[1.0, 100.0]));
        // Row 3 is in the upper bits of the second row of bytes.
        let parts: [&[u8]; 3] = [&[0xf0, 0x70], &scales, &columns];
        let mut out = [0.0; 2];
        let held = HeldRows { rows: 3..4, parts: &parts };
        assert!(Sliced.unpack(&of.packed(), &held, 3..4, &mut out).is_ok());
        assert_eq!(out, [-2.0, 1400.0]);
    }

    #[test]
    fn a_zero_scale_does_not_divide_and_digit_3_is_no_ternary_one() {
        let of = Slices { zero: 1, is_divisor: true, ..slices(2, 4, 4, 256) };
        assert_eq!(of.exact().len(), 2);
        let run = |scale: f32, code: u8| {
            let (codes, scale) = (vec![code; 256], scale.to_le_bytes());
            let parts: [&[u8]; 2] = [&codes, &scale];
            let held = HeldRows { rows: 0..1, parts: &parts };
            let (mut values, mut block) = ([0.0; 256], [0; 66]);
            let unpacked = Sliced.unpack(&of.packed(), &held, 0..1, &mut values);
            let repacked = Sliced.repack(&of.packed(), &held, 0..1, DType::TQ2_0, &mut block);
            (unpacked.is_ok(), repacked.is_ok(), values[0])
        };
        assert_eq!(run(4.0, 0), (true, true, -0.25));
        assert_eq!(run(0.0, 0), (false, false, 0.0));
        assert!(!run(4.0, 3).1);
    }

    #[test]
    fn a_reciprocal_is_rarely_a_half() {
        let of = Slices { zero: 1, is_divisor: true, ..slices(2, 4, 4, 256) };
        assert!(of.holds(DType::TQ2_0, 0.5, 1.0) && !of.holds(DType::TQ2_0, 1.21875, 1.0));
        let of = Slices { is_divisor: false, ..of };
        assert!(of.holds(DType::TQ2_0, 1.21875, 1.0) && !of.holds(DType::TQ2_0, 0.1, 1.0));
    }
}
