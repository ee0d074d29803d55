//! Blocks of ggml, written from codes and scales that are theirs already. Layouts: `ggml-common.h` of llama.cpp.

use apr_sdk::half::to_f16;
use apr_sdk::{Error, Result};

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
            return Err(Error::malformed("a scale is 255, which means no number"));
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
pub fn q4_1(scale: f32, least: f32, codes: &[u8; 32], out: &mut [u8]) {
    nibbles(codes, head([scale, least], out));
}

/// A block of Q5_1, of codes from 0 to 31: element = scale * code + least.
pub fn q5_1(scale: f32, least: f32, codes: &[u8; 32], out: &mut [u8]) {
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
