//! Blocks of ggml, written from codes and scales that are theirs already. Layouts: `ggml-common.h` of llama.cpp.

use apr_sdk::half::to_f16;
use apr_sdk::{DType, Error, Result};

/// Bytes of a block of MXFP4: the scale, and 32 codes.
pub const MXFP4_BYTES: usize = 17;

/// Bytes of a block of Q8_0: the scale, and 32 codes.
pub const Q8_0_BYTES: usize = 34;

/// Blocks of MXFP4 from codes in pairs, the lower bits first, and a scale in E8M0 for each 32.
///
/// # Errors
/// Malformed for scale 255, which is no number, but one in ggml.
pub fn mxfp4(codes: &[u8], scales: &[u8], out: &mut [u8]) -> Result<()> {
    let blocks = out.as_chunks_mut::<MXFP4_BYTES>().0.iter_mut();
    for ((out, codes), &scale) in blocks.zip(codes.as_chunks::<16>().0).zip(scales) {
        if scale == 255 {
            return Err(Error::malformed("a scale is 255, which is NaN"));
        }
        let [first, out @ ..] = out;
        *first = scale;
        // Byte j: element j in the lower bits, element j + 16 in the upper ones.
        for (j, out) in out.iter_mut().enumerate() {
            let code = |element: usize| codes[element / 2] >> (element % 2 * 4) & 15;
            *out = code(j) | code(j + 16) << 4;
        }
    }
    Ok(())
}

/// Bytes of a block of NVFP4: four scales, and 64 codes.
pub const NVFP4_BYTES: usize = 36;

/// Blocks of NVFP4 from codes in pairs, the lower bits first, and a scale in E4M3 for each 16.
///
/// # Errors
/// Malformed for a scale that is negative or no number, which ggml reads as another.
pub fn nvfp4(codes: &[u8], scales: &[u8], out: &mut [u8]) -> Result<()> {
    let blocks = out.as_chunks_mut::<NVFP4_BYTES>().0.iter_mut();
    for ((out, codes), scales) in blocks.zip(codes.as_chunks::<32>().0).zip(scales.as_chunks::<4>().0) {
        if let Some(bad) = scales.iter().find(|scale| **scale > 0x80 || **scale == 0x7f) {
            return Err(Error::malformed(format!("a scale has code {bad:#04x}, which is negative or NaN")));
        }
        let (first, out) = out.split_at_mut(4);
        first.iter_mut().zip(scales).for_each(|(out, scale)| *out = scale & 0x7f);
        // Byte j of a sub-block: element j in the lower bits, element j + 8 in the upper ones.
        for (out, codes) in out.as_chunks_mut::<8>().0.iter_mut().zip(codes.as_chunks::<8>().0) {
            for (j, out) in out.iter_mut().enumerate() {
                let code = |element: usize| codes[element / 2] >> (element % 2 * 4) & 15;
                *out = code(j) | code(j + 8) << 4;
            }
        }
    }
    Ok(())
}

/// A block of Q8_0.
pub fn q8_0(scale: f32, codes: impl Iterator<Item = i8>, out: &mut [u8]) {
    let (first, rest) = out.split_at_mut(2);
    first.copy_from_slice(&to_f16(scale).to_le_bytes());
    rest.iter_mut().zip(codes).for_each(|(out, code)| *out = code.cast_unsigned());
}

/// Bytes of a block of Q4_0, and of Q5_0: the scale, upper bits, and codes of 32 elements.
pub const Q4_0_BYTES: usize = 18;
/// Likewise.
pub const Q5_0_BYTES: usize = 22;
/// Bytes of a block of Q4_1, and of Q5_1: the scale and the smallest value, upper bits, and codes of 32 elements.
pub const Q4_1_BYTES: usize = 20;
/// Likewise.
pub const Q5_1_BYTES: usize = 24;
/// Bytes of a block of Q2_0: the scale, and 64 codes.
pub const Q2_0_BYTES: usize = 18;

/// Numbers in front of a block's codes.
fn head<const N: usize>(numbers: [f32; N], out: &mut [u8]) -> &mut [u8] {
    for (number, out) in numbers.into_iter().zip(out.chunks_exact_mut(2)) {
        out.copy_from_slice(&to_f16(number).to_le_bytes());
    }
    out.get_mut(2 * N..).unwrap_or_default()
}

/// Codes of four bits: byte j has element j in the lower bits, element j + 16 in the upper ones.
fn nibbles(codes: &[u8; 32], out: &mut [u8]) {
    let (low, high) = codes.split_at(16);
    out.iter_mut()
        .zip(low.iter().zip(high))
        .for_each(|(out, (low, high))| *out = low & 15 | (high & 15) << 4);
}

/// The fifth bits of 32 codes.
fn fifths(codes: &[u8; 32], out: &mut [u8]) {
    for (out, codes) in out.iter_mut().zip(codes.as_chunks::<8>().0) {
        *out = (0..8).fold(0, |bits, at| bits | (codes[at] >> 4 & 1) << at);
    }
}

/// A block of Q4_0, of codes from 0 to 15: element = scale * (code - 8).
pub fn q4_0(scale: f32, codes: &[u8; 32], out: &mut [u8]) {
    nibbles(codes, head([scale], out));
}

/// A block of Q5_0, of codes from 0 to 31: element = scale * (code - 16).
pub fn q5_0(scale: f32, codes: &[u8; 32], out: &mut [u8]) {
    let (upper, lower) = head([scale], out).split_at_mut(4);
    fifths(codes, upper);
    nibbles(codes, lower);
}

/// A block of Q4_1, of codes from 0 to 15: element = scale * code + least.
pub fn q4_1((scale, least): (f32, f32), codes: &[u8; 32], out: &mut [u8]) {
    nibbles(codes, head([scale, least], out));
}

/// A block of Q5_1, of codes from 0 to 31: element = scale * code + least.
pub fn q5_1((scale, least): (f32, f32), codes: &[u8; 32], out: &mut [u8]) {
    let (upper, lower) = head([scale, least], out).split_at_mut(4);
    fifths(codes, upper);
    nibbles(codes, lower);
}

/// A block of Q2_0, of 64 codes from 0 to 3: element = scale * (code - 1).
pub fn q2_0(scale: f32, codes: &[u8], out: &mut [u8]) {
    let out = head([scale], out);
    for (out, codes) in out.iter_mut().zip(codes.chunks_exact(4)) {
        *out = codes.iter().rev().fold(0, |byte, code| byte << 2 | code & 3);
    }
}

/// Bytes of a block of TQ1_0: 256 digits to the base 3, and the scale.
pub const TQ1_0_BYTES: usize = 54;

/// Bytes of a block of TQ2_0: 256 codes of two bits, and the scale.
pub const TQ2_0_BYTES: usize = 66;

/// A block of TQ1_0 or TQ2_0 from digits.
///
/// # Errors
/// Malformed for a digit above 2, which is none of three.
pub fn ternary(dtype: DType, scale: f32, digits: &[u8; 256], out: &mut [u8]) -> Result<()> {
    if digits.iter().any(|digit| *digit > 2) {
        return Err(Error::malformed("a code is 3, but ternary weights only have 0, 1 and 2"));
    }
    let (rest, last) = out.split_at_mut(out.len() - 2);
    last.copy_from_slice(&to_f16(scale).to_le_bytes());
    if dtype == DType::TQ2_0 {
        // Byte m of a half: elements m, m + 32, m + 64 and m + 96.
        for (out, digits) in rest.as_chunks_mut::<32>().0.iter_mut().zip(digits.as_chunks::<128>().0) {
            for (m, out) in out.iter_mut().enumerate() {
                *out = digits[m] | digits[m + 32] << 2 | digits[m + 64] << 4 | digits[m + 96] << 6;
            }
        }
        return Ok(());
    }
    // Bytes of five digits, the last four of which have but four; as the whole part of number * 256 / 243, rounded up.
    let mut from = 0;
    let mut rest = rest;
    for (width, count) in [(32, 5), (16, 5), (4, 4)] {
        let (now, others) = rest.split_at_mut(width);
        for (m, out) in now.iter_mut().enumerate() {
            let digit = |n: usize| if n < count { u16::from(digits[from + n * width + m]) } else { 0 };
            let number = (0..5).fold(0, |number, n| number * 3 + digit(n));
            [*out, _] = (number * 256).div_ceil(243).to_le_bytes();
        }
        from += width * count;
        rest = others;
    }
    Ok(())
}

/// A whole number from -128 to 127.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the layouts that call it have compared it with the limits"
)]
pub fn signed(value: f32) -> i8 {
    value as i8
}
