//! Codes, scales and zero points as they are stored: which types they may have, and their values.

use crate::layout::{index, too_short};
use crate::numbers::{E2M1, of_bytes};
use apr_sdk::half::{from_bf16, from_f16};
use apr_sdk::{DType, Error, Result};

/// The types of integers that codes may have, and the bits of each.
const INTEGERS: [(DType, u32, bool); 10] = [
    (DType::I2, 2, true),
    (DType::U2, 2, false),
    (DType::I4, 4, true),
    (DType::U4, 4, false),
    (DType::I8, 8, true),
    (DType::U8, 8, false),
    (DType::I16, 16, true),
    (DType::U16, 16, false),
    (DType::I32, 32, true),
    (DType::U32, 32, false),
];

/// The least and the greatest code of a type of integers.
pub fn reach(codes: DType) -> Option<(f64, f64)> {
    let (_, bits, is_signed) = INTEGERS.into_iter().find(|(dtype, ..)| *dtype == codes)?;
    let all = f64::from(bits).exp2();
    Some(if is_signed { (-all / 2.0, all / 2.0 - 1.0) } else { (0.0, all - 1.0) })
}

/// Whether codes may have a type.
pub fn is_known(codes: DType) -> bool {
    reach(codes).is_some() || codes == DType::F4_E2M1 || is_float(codes)
}

pub(super) fn is_float(codes: DType) -> bool {
    ![DType::I8, DType::U8, DType::F8_E8M0].contains(&codes) && of_bytes(codes).is_some()
}

/// Bits of a code.
pub fn bits(codes: DType) -> u64 {
    let found = INTEGERS.into_iter().find(|(dtype, ..)| *dtype == codes);
    found.map_or(if codes == DType::F4_E2M1 { 4 } else { 8 }, |(_, bits, _)| u64::from(bits))
}

/// The types that scales and zero points may have.
pub fn is_number(dtype: DType) -> bool {
    is_real(dtype) || is_known(dtype) || [DType::I64, DType::F8_E8M0].contains(&dtype)
}

/// Whether a type is a float of 16 bits or more.
pub(super) fn is_real(dtype: DType) -> bool {
    [DType::F64, DType::F32, DType::F16, DType::BF16].contains(&dtype)
}

/// Checks a zero point against the codes.
///
/// # Errors
/// Malformed for one that is no code.
pub fn check_zero(codes: DType, zero: f64) -> Result<()> {
    let is_inside = match reach(codes) {
        // A zero point may be a float, as those of embeddings in torch are.
        Some((least, greatest)) => (least..=greatest).contains(&zero),
        None => zero == 0.0,
    };
    if is_inside {
        return Ok(());
    }
    Err(Error::malformed(format!("a zero point is {zero}, which is out of range for {codes}")))
}

#[allow(clippy::cast_possible_truncation, reason = "values are computed in F32, and scales rounded to it")]
pub(super) fn to_f32(value: f64) -> f32 {
    value as f32
}

pub(super) fn bits_of_number(dtype: DType) -> u64 {
    dtype
        .info()
        .map_or(8, |info| u64::from(info.block_bytes) * 8 / u64::from(info.block_elements.max(1)))
        .max(1)
}

/// The values of little-endian numbers.
pub(super) fn numbers_of(dtype: DType, bytes: &[u8]) -> Result<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)).collect()
    }
    Ok(match dtype {
        DType::F64 => each(bytes, f64::from_le_bytes),
        DType::F32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        DType::F16 => each(bytes, |b| f64::from(from_f16(u16::from_le_bytes(b)))),
        DType::BF16 => each(bytes, |b| f64::from(from_bf16(u16::from_le_bytes(b)))),
        #[allow(
            clippy::cast_precision_loss,
            reason = "what F64 does not hold is no code of 32 bits, and refused"
        )]
        DType::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        DType::I32 => each(bytes, |b| f64::from(i32::from_le_bytes(b))),
        DType::U32 => each(bytes, |b| f64::from(u32::from_le_bytes(b))),
        _ => {
            let mut values = vec![0.0; bytes.len() * 8 / index(bits_of_number(dtype))];
            codes(dtype, bytes, 0, &mut values)?;
            values.into_iter().map(f64::from).collect()
        }
    })
}

/// Codes of at most 16 bits from number `first` of `bytes` on, as values.
pub(super) fn codes(dtype: DType, bytes: &[u8], first: usize, out: &mut [f32]) -> Result<()> {
    let narrow = |bits: usize, table: [f32; 16], out: &mut [f32]| {
        let (each, mask) = (8 / bits, (1u8 << bits) - 1);
        for (at, out) in (first..).zip(out) {
            let byte = bytes.get(at / each).copied().ok_or_else(too_short)?;
            *out = table[usize::from(byte >> (at % each * bits) & mask)];
        }
        Ok(())
    };
    /// A table of integers of so many bits.
    fn table(bits: u32, is_signed: bool) -> [f32; 16] {
        let (all, half) = (1i16 << bits, 1i16 << (bits - 1));
        let mut table = [0.0; 16];
        for (code, out) in (0..all).zip(&mut table) {
            *out = f32::from(if is_signed && code >= half { code - all } else { code });
        }
        table
    }
    match dtype {
        DType::I2 => narrow(2, table(2, true), out),
        DType::U2 => narrow(2, table(2, false), out),
        DType::I4 => narrow(4, table(4, true), out),
        DType::U4 => narrow(4, table(4, false), out),
        DType::F4_E2M1 => narrow(4, E2M1, out),
        DType::I16 | DType::U16 => {
            let bytes = bytes.get(first * 2..(first + out.len()) * 2).ok_or_else(too_short)?;
            for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                let code = u16::from_le_bytes(*pair);
                *out = if dtype == DType::U16 { f32::from(code) } else { f32::from(code.cast_signed()) };
            }
            Ok(())
        }
        _ => {
            let table = of_bytes(dtype).ok_or_else(|| Error::plugin(format!("{dtype} cannot hold codes")))?;
            let bytes = bytes.get(first..first + out.len()).ok_or_else(too_short)?;
            out.iter_mut().zip(bytes).for_each(|(out, code)| *out = table[usize::from(*code)]);
            Ok(())
        }
    }
}
