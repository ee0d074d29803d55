//! Payload bytes as numbers: every scalar type read exactly, block types as their quantizer decodes them.
//!
//! The loops are plain and run over whole slices, so that the compiler vectorizes them, once per kind of
//! processor; the right version is chosen at run time.

use crate::registry::Registry;
use apr_sdk::{DType, DTypeKind, Quantizer, Result, checked_elements, half};
use fearless_simd::{Level, dispatch};
use std::sync::{Arc, LazyLock};

/// Reads packed little-endian elements; `bytes` holds exactly as many as `out`.
pub type ReadNarrow = fn(bytes: &[u8], out: &mut [f32]);
/// Like [`ReadNarrow`], for types that need more than 24 bits of mantissa: each number is `high + low`, where
/// `low` is 0 except for integers above 2^53.
pub type ReadWide = fn(bytes: &[u8], high: &mut [f64], low: &mut [f64]);

/// The way a type's elements are read.
#[derive(Clone)]
enum Form {
    /// Every value fits an `f32`.
    Narrow(ReadNarrow),
    /// Every value is the sum of two `f64`.
    Wide(ReadWide),
    /// A quantizer decodes values of this type to `f32`.
    Blocks(Arc<dyn Quantizer>, DType),
}

/// A dtype, ready to be read.
#[derive(Clone)]
pub struct Numbers {
    form: Form,
    /// Bits per block, and numbers per block.
    block: (u64, u64),
    /// Numbers per element: 2 for complex types, read as real and imaginary parts.
    pub per_element: u64,
}

/// Numbers read at once.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'n> {
    /// Each is an `f32`.
    Narrow(&'n [f32]),
    /// Each is the sum of two `f64`.
    Wide(&'n [f64], &'n [f64]),
}

impl Chunk<'_> {
    /// Calls `each` with the float nearest to each number.
    #[inline]
    pub fn each(self, each: &mut impl FnMut(f64)) {
        match self {
            Chunk::Narrow(values) => values.iter().for_each(|value| each(f64::from(*value))),
            Chunk::Wide(high, low) => high.iter().zip(low).for_each(|(high, low)| each(high + low)),
        }
    }
}

/// Numbers read at once into a buffer on the stack. A multiple of 8, so that packed types start on whole
/// bytes, and of every block size.
pub const CHUNK: usize = 512;

impl Numbers {
    /// A reader for any type; `None` for block types that no plugin in `registry` decodes.
    pub fn with(dtype: DType, registry: &Registry) -> Option<Numbers> {
        let info = dtype.info().filter(|info| info.kind == DTypeKind::Block);
        let Some(info) = info else { return Numbers::new(dtype) };
        let quantizer = registry.find_quantizer(dtype)?;
        let elements = u64::from(info.block_elements);
        let fits = (CHUNK as u64).is_multiple_of(elements);
        fits.then(|| Numbers {
            form: Form::Blocks(quantizer, dtype),
            block: (u64::from(info.block_bytes) * 8, elements),
            per_element: 1,
        })
    }

    /// A reader for scalar types; `None` for block types, which need a quantizer.
    pub fn new(dtype: DType) -> Option<Numbers> {
        let info = dtype.info()?;
        if info.kind == DTypeKind::Block {
            return None;
        }
        let (form, per_element) =
            FORMS.iter().find(|row| row.0 == dtype).map(|row| (row.1.clone(), row.2))?;
        let block = (u64::from(info.block_bytes) * 8, u64::from(info.block_elements) * per_element);
        Some(Numbers { form, block, per_element })
    }

    /// The bytes that `count` numbers take up.
    pub fn bytes_of(&self, count: usize) -> usize {
        let (bits, numbers) = self.block;
        usize::try_from((count as u64 * bits).div_ceil(8 * numbers)).unwrap_or(usize::MAX)
    }

    /// Count of numbers that so many bytes hold.
    fn numbers_in(&self, bytes: usize) -> u64 {
        let (bits, numbers) = self.block;
        bytes as u64 * 8 / bits * numbers + bytes as u64 * 8 % bits * numbers / bits
    }

    /// Returns whether every value fits an `f32`.
    pub fn is_narrow(&self) -> bool {
        !matches!(self.form, Form::Wide(_))
    }

    /// Reads as many numbers as `out` holds, if every value fits an `f32`; otherwise leaves `out` alone.
    pub fn read_narrow(&self, bytes: &[u8], out: &mut [f32]) {
        match &self.form {
            Form::Narrow(read) => read(bytes, out),
            Form::Wide(_) => {}
            Form::Blocks(quantizer, dtype) => {
                // Only a plugin that breaks its contract fails here: what it does not deliver is treated as
                // NaN.
                if quantizer.decode(*dtype, bytes, out.len() as u64, out).is_err() {
                    out.fill(f32::NAN);
                }
            }
        }
    }

    /// Reads as many numbers as the slices hold, at most [`CHUNK`].
    pub fn read_wide(&self, bytes: &[u8], high: &mut [f64], low: &mut [f64]) {
        match &self.form {
            Form::Wide(read) => read(bytes, high, low),
            Form::Narrow(_) | Form::Blocks(..) => {
                let mut narrow = [0.0; CHUNK];
                let narrow = &mut narrow[..high.len()];
                self.read_narrow(bytes, narrow);
                high.iter_mut().zip(narrow).for_each(|(wide, n)| *wide = f64::from(*n));
                low.fill(0.0);
            }
        }
    }

    /// Calls `each` with all of `count` numbers, a chunk at a time.
    pub fn chunks(&self, bytes: &[u8], count: usize, each: &mut dyn FnMut(Chunk<'_>)) {
        let mut narrow = [0.0; CHUNK];
        let mut high = [0.0; CHUNK];
        let mut low = [0.0; CHUNK];
        for at in (0..count).step_by(CHUNK) {
            let n = CHUNK.min(count - at);
            let from = self.bytes_of(at);
            let bytes = bytes.get(from..(from + self.bytes_of(n)).min(bytes.len())).unwrap_or_default();
            if self.is_narrow() {
                self.read_narrow(bytes, &mut narrow[..n]);
                each(Chunk::Narrow(&narrow[..n]));
            } else {
                self.read_wide(bytes, &mut high[..n], &mut low[..n]);
                each(Chunk::Wide(&high[..n], &low[..n]));
            }
        }
    }
}

/// The values of a tensor whose bytes arrive in pieces, which may be cut anywhere, even inside a value.
pub struct Values {
    numbers: Numbers,
    /// Values still to come; what packed types leave over in their last byte is not a value.
    left: u64,
    /// Bytes of an incomplete chunk.
    rest: Vec<u8>,
}

impl Values {
    /// The values of a tensor of this shape; a complex number is two.
    ///
    /// # Errors
    /// LimitExceeded for a shape with more elements than can be counted.
    pub fn new(numbers: Numbers, shape: &[u64]) -> Result<Values> {
        let left = checked_elements(shape)?.saturating_mul(numbers.per_element);
        Ok(Values { numbers, left, rest: Vec::new() })
    }

    /// Calls `each` with the values that are complete, except some that are left for [`Values::end`].
    pub fn add(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Chunk<'_>)) {
        let chunk = self.numbers.bytes_of(CHUNK);
        while !bytes.is_empty() {
            if self.rest.is_empty() && bytes.len() >= chunk {
                self.read(&bytes[..chunk], each);
                bytes = &bytes[chunk..];
                continue;
            }
            let now = (chunk - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if self.rest.len() == chunk {
                self.read_rest(each);
            }
        }
    }

    /// Calls `each` with the remaining values.
    pub fn end(&mut self, each: &mut dyn FnMut(Chunk<'_>)) {
        self.read_rest(each);
    }

    fn read_rest(&mut self, each: &mut dyn FnMut(Chunk<'_>)) {
        let mut rest = std::mem::take(&mut self.rest);
        self.read(&rest, each);
        rest.clear();
        self.rest = rest;
    }

    fn read(&mut self, bytes: &[u8], each: &mut dyn FnMut(Chunk<'_>)) {
        let whole = self.numbers.numbers_in(bytes.len());
        let n = usize::try_from(self.left.min(whole)).unwrap_or(usize::MAX).min(CHUNK);
        self.numbers.chunks(bytes, n, each);
        self.left -= n as u64;
    }
}

/// Reads whole elements of a fixed width.
macro_rules! narrow {
    ($type:ty, $n:ident => $value:expr) => {
        Form::Narrow(|bytes, out| {
            dispatch!(Level::new(), _ => {
                for (out, element) in out.iter_mut().zip(bytes.as_chunks().0) {
                    let $n = <$type>::from_le_bytes(*element);
                    *out = $value;
                }
            })
        })
    };
}

macro_rules! wide {
    ($type:ty, $n:ident => $value:expr) => {
        Form::Wide(|bytes, high, low| {
            for ((high, low), element) in high.iter_mut().zip(low).zip(bytes.as_chunks().0) {
                let $n = <$type>::from_le_bytes(*element);
                (*high, *low) = $value;
            }
        })
    };
}

/// Looks up codes of less than a byte in a table, lowest bits first.
macro_rules! table {
    ($bits:literal, $table:expr) => {
        Form::Narrow(|bytes, out| {
            static TABLE: LazyLock<Vec<f32>> = LazyLock::new(|| (0..1u32 << $bits).map($table).collect());
            let table = &*TABLE;
            for (n, out) in out.iter_mut().enumerate() {
                let at = n * $bits / 8;
                let shift = n * $bits % 8;
                let low = bytes.get(at).copied().unwrap_or(0);
                let high = bytes.get(at + 1).copied().unwrap_or(0);
                let code = u16::from_le_bytes([low, high]) >> shift & ((1 << $bits) - 1);
                *out = table[usize::from(code)];
            }
        })
    };
}

/// Every scalar type: how it is read, and numbers per element.
static FORMS: &[(DType, Form, u64)] = &[
    (DType::F64, wide!(f64, n => (n, 0.0)), 1),
    (DType::F32, narrow!(f32, n => n), 1),
    (DType::F16, narrow!(u16, n => half::from_f16(n)), 1),
    (DType::BF16, narrow!(u16, n => half::from_bf16(n)), 1),
    (DType::F8_E4M3, narrow!(u8, n => small_float(n.into(), 4, 3, 7, Odd::OneNan)), 1),
    (DType::F8_E5M2, narrow!(u8, n => small_float(n.into(), 5, 2, 15, Odd::Ieee)), 1),
    (DType::F8_E4M3FNUZ, narrow!(u8, n => small_float(n.into(), 4, 3, 8, Odd::NanIsMinusZero)), 1),
    (DType::F8_E5M2FNUZ, narrow!(u8, n => small_float(n.into(), 5, 2, 16, Odd::NanIsMinusZero)), 1),
    (DType::F8_E8M0, narrow!(u8, n => power_of_two(n.into())), 1),
    (DType::F6_E2M3, table!(6, |code| small_float(code, 2, 3, 1, Odd::None)), 1),
    (DType::F6_E3M2, table!(6, |code| small_float(code, 3, 2, 3, Odd::None)), 1),
    (DType::F4_E2M1, table!(4, |code| small_float(code, 2, 1, 1, Odd::None)), 1),
    (DType::I2, table!(2, |code| signed(code, 2)), 1),
    (DType::I4, table!(4, |code| signed(code, 4)), 1),
    (DType::I8, narrow!(i8, n => f32::from(n)), 1),
    (DType::I16, narrow!(i16, n => f32::from(n)), 1),
    (DType::I32, wide!(i32, n => (f64::from(n), 0.0)), 1),
    (DType::I64, wide!(i64, n => split(i128::from(n))), 1),
    (DType::U2, table!(2, |code| f32::from(u8::try_from(code).unwrap_or(0))), 1),
    (DType::U4, table!(4, |code| f32::from(u8::try_from(code).unwrap_or(0))), 1),
    (DType::U8, narrow!(u8, n => f32::from(n)), 1),
    (DType::U16, narrow!(u16, n => f32::from(n)), 1),
    (DType::U32, wide!(u32, n => (f64::from(n), 0.0)), 1),
    (DType::U64, wide!(u64, n => split(i128::from(n))), 1),
    (DType::BOOL, narrow!(u8, n => f32::from(n)), 1),
    (DType::C64, narrow!(f32, n => n), 2),
    (DType::C128, wide!(f64, n => (n, 0.0)), 2),
];

/// An integer as the nearest `f64` and the exact remainder, for every 64-bit number.
fn split(n: i128) -> (f64, f64) {
    #[allow(clippy::cast_precision_loss, reason = "rounded on purpose")]
    let high = n as f64;
    #[allow(clippy::cast_possible_truncation, reason = "whole: the rest is what the rounding lost")]
    let rest = n - high as i128;
    #[allow(clippy::cast_precision_loss, reason = "at most 2^11, which an f64 holds")]
    (high, rest as f64)
}

/// The meaning of the codes with the greatest exponent, and of the code of minus zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// No infinity; all ones is NaN (OFP8 E4M3).
    OneNan,
    /// No infinity and no minus zero, whose code is NaN (the FNUZ types).
    NanIsMinusZero,
    /// Ordinary numbers (OCP MX elements).
    None,
}

/// Decodes a float of sign, `exponent_bits` and `mantissa_bits`, branch-free: the exponent is shifted into
/// place, and subnormals, read as if they had the leading bit, lose it in one exact subtraction (multiplying
/// by a subnormal would be slow). An IEEE 754 NaN keeps its payload.
#[inline(always)]
pub fn small_float(code: u32, exponent_bits: u32, mantissa_bits: u32, bias: u32, odd: Odd) -> f32 {
    const LEADING: u32 = 1 << 23;
    let sign = code >> (exponent_bits + mantissa_bits);
    let magnitude = code & ((1 << (exponent_bits + mantissa_bits)) - 1);
    let all_exponent = (1 << exponent_bits) - 1;
    let rebias = (127 - bias) << 23;
    let is_subnormal = all_if(magnitude >> mantissa_bits == 0);
    let is_nan = match odd {
        Odd::OneNan => all_if(magnitude == (1 << (exponent_bits + mantissa_bits)) - 1),
        Odd::NanIsMinusZero => all_if(sign == 1 && magnitude == 0),
        Odd::Ieee | Odd::None => 0,
    };
    let is_odd = if odd == Odd::Ieee { all_if(magnitude >> mantissa_bits == all_exponent) } else { 0 };
    let moved = (magnitude << (23 - mantissa_bits)) + rebias;
    let moved = moved + (is_subnormal & LEADING) + (is_odd & ((255 - 127 + bias - all_exponent) << 23));
    let lowered = (f32::from_bits(moved) - f32::from_bits(rebias + LEADING)).to_bits();
    let value = lowered & is_subnormal | moved & !is_subnormal;
    f32::from_bits(value | sign << 31 | is_nan & f32::NAN.to_bits())
}

/// A mask of all bits, or of none.
#[inline(always)]
fn all_if(is: bool) -> u32 {
    if is { u32::MAX } else { 0 }
}

/// Decodes an OCP MX scale: eight exponent bits, the last code is NaN. The smallest, 2^-127, is a subnormal
/// `f32`.
#[inline(always)]
pub fn power_of_two(code: u32) -> f32 {
    match code {
        255 => f32::NAN,
        0 => f32::from_bits(1 << 22),
        _ => f32::from_bits(code << 23),
    }
}

/// Decodes a two's complement number of `bits` bits.
fn signed(code: u32, bits: u32) -> f32 {
    let unsigned = f32::from(u8::try_from(code).unwrap_or(0));
    let range = f32::from(u8::try_from(1u32 << bits).unwrap_or(0));
    if code >> (bits - 1) == 1 { unsigned - range } else { unsigned }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(dtype: DType, bytes: &[u8]) -> Vec<f32> {
        let numbers = Numbers::new(dtype).unwrap();
        let mut out = vec![0.0; usize::try_from(numbers.numbers_in(bytes.len())).unwrap()];
        numbers.read_narrow(bytes, &mut out);
        out
    }

    #[test]
    fn every_scalar_type_is_read_and_no_block_type() {
        for info in DType::ALL {
            let read = Numbers::new(info.dtype);
            assert_eq!(read.is_some(), info.kind != DTypeKind::Block, "{}", info.name);
            if let Some(read) = read {
                let elements = 8;
                let bytes = elements * u64::from(info.block_bytes) / u64::from(info.block_elements);
                let count = usize::try_from(elements * read.per_element).unwrap();
                assert_eq!(read.bytes_of(count) as u64, bytes, "{}", info.name);
            }
        }
    }

    #[test]
    fn every_half_is_read_as_its_definition_says() {
        for bits in 0..=u16::MAX {
            let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
            let exponent = i32::from(bits >> 10 & 0x1f);
            let fraction = f64::from(bits & 0x3ff);
            let wanted: f64 = match exponent {
                0 => sign * fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
            };
            let read = f64::from(narrow(DType::F16, &bits.to_le_bytes())[0]);
            let same = read == wanted && read.is_sign_negative() == wanted.is_sign_negative();
            assert!(same || read.is_nan() && wanted.is_nan(), "{bits:04x}: {read} {wanted}");
        }
    }

    #[test]
    fn small_floats_have_the_values_of_their_specifications() {
        assert_eq!(narrow(DType::F8_E4M3, &[0x7e, 0x01, 0xfe]), [448.0, 2f32.powi(-9), -448.0]);
        assert!(narrow(DType::F8_E4M3, &[0x7f, 0xff]).iter().all(|value| value.is_nan()));
        assert_eq!(narrow(DType::F8_E5M2, &[0x7b, 0x7c, 0x01]), [57344.0, f32::INFINITY, 2f32.powi(-16)]);
        assert!(narrow(DType::F8_E5M2, &[0x7d])[0].is_nan());
        assert_eq!(narrow(DType::F8_E4M3FNUZ, &[0x7f, 0xff, 0x01]), [240.0, -240.0, 2f32.powi(-10)]);
        assert_eq!(narrow(DType::F8_E5M2FNUZ, &[0x7f, 0x01]), [57344.0, 2f32.powi(-17)]);
        assert!(narrow(DType::F8_E4M3FNUZ, &[0x80])[0].is_nan());
        assert!(narrow(DType::F8_E5M2FNUZ, &[0x80])[0].is_nan());
        let scales: Vec<f64> = narrow(DType::F8_E8M0, &[0, 127, 254]).into_iter().map(f64::from).collect();
        assert_eq!(scales, [-127, 0, 127].map(|e| 2f64.powi(e)));
        assert!(narrow(DType::F8_E8M0, &[255])[0].is_nan());
    }

    #[test]
    fn packed_types_begin_at_the_lowest_bit() {
        assert_eq!(narrow(DType::F4_E2M1, &[0x17, 0xf8]), [6.0, 0.5, -0.0, -6.0]);
        assert_eq!(narrow(DType::I4, &[0x8f]), [-1.0, -8.0]);
        assert_eq!(narrow(DType::U4, &[0x8f]), [15.0, 8.0]);
        assert_eq!(narrow(DType::I2, &[0b11_10_01_00]), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(narrow(DType::U2, &[0b11_10_01_00]), [0.0, 1.0, 2.0, 3.0]);
        // Codes 63, 1, 32, 31 in 24 bits.
        let bits: u32 = 63 | 1 << 6 | 32 << 12 | 31 << 18;
        assert_eq!(narrow(DType::F6_E2M3, &bits.to_le_bytes()[..3]), [-7.5, 0.125, -0.0, 7.5]);
        assert_eq!(narrow(DType::F6_E3M2, &bits.to_le_bytes()[..3]), [-28.0, 0.0625, -0.0, 28.0]);
    }

    #[test]
    fn whole_numbers_are_exact_to_their_last_bit() {
        for (dtype, bytes, want) in [
            (DType::I64, ((1i64 << 53) + 1).to_le_bytes(), (2f64.powi(53), 1.0)),
            (DType::I64, i64::MAX.to_le_bytes(), (2f64.powi(63), -1.0)),
            (DType::U64, u64::MAX.to_le_bytes(), (2f64.powi(64), -1.0)),
            (DType::I64, i64::MIN.to_le_bytes(), (-(2f64.powi(63)), 0.0)),
        ] {
            let mut high = [0.0];
            let mut low = [0.0];
            Numbers::new(dtype).unwrap().read_wide(&bytes, &mut high, &mut low);
            assert_eq!((high[0], low[0]), want);
        }
    }
}
