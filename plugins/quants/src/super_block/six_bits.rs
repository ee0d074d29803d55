//! The head of Q4_K and Q5_K: eight scales and eight minima of six bits.

use super::affine::{MOST_SUBS, Scales};
use crate::number::{from_f16, half, nearest_int};

/// The scales and minima coded where no importance is known: each to a 63rd of the greatest.
///
/// Source: `quantize_row_q4_K_ref` and `quantize_row_q5_K_ref` of ggml.
#[inline(always)]
pub fn coded(scales: &[f32], offsets: &[f32]) -> Scales {
    let greatest =
        |of: &[f32]| of.iter().fold(0.0f32, |most, &value| if value > most { value } else { most });
    let mut out = Scales::default();
    let code = |of: &[f32], codes: &mut [u8; MOST_SUBS]| {
        let most = greatest(of);
        let inverse = if most > 0.0 { 63.0 / most } else { 0.0 };
        for (code, value) in codes.iter_mut().zip(of) {
            *code = nearest_int(inverse * value).to_le_bytes()[0].min(63);
        }
        most / 63.0
    };
    out.d = code(scales, &mut out.scales);
    out.dmin = code(offsets, &mut out.offsets);
    out
}

/// Writes them.
#[inline(always)]
pub fn write(of: &Scales, out: &mut [u8]) {
    out[..2].copy_from_slice(&half(of.d).to_le_bytes());
    out[2..4].copy_from_slice(&half(of.dmin).to_le_bytes());
    for j in 0..4 {
        let ([scale, high_scale], [offset, high_offset]) =
            ([of.scales[j], of.scales[j + 4]], [of.offsets[j], of.offsets[j + 4]]);
        out[4 + j] = scale | high_scale >> 4 << 6;
        out[8 + j] = offset | high_offset >> 4 << 6;
        out[12 + j] = high_scale & 15 | (high_offset & 15) << 4;
    }
}

/// Scale and minimum of each sub-block.
#[inline(always)]
pub fn factors(block: &[u8]) -> ([f32; MOST_SUBS], [f32; MOST_SUBS]) {
    let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
    let dmin = from_f16(u16::from_le_bytes([block[2], block[3]]));
    let (mut scales, mut offsets) = ([0.0; MOST_SUBS], [0.0; MOST_SUBS]);
    for j in 0..4 {
        let (scale, offset, high) = (block[4 + j], block[8 + j], block[12 + j]);
        scales[j] = d * f32::from(scale & 63);
        offsets[j] = dmin * f32::from(offset & 63);
        scales[j + 4] = d * f32::from(high & 15 | scale >> 6 << 4);
        offsets[j + 4] = dmin * f32::from(high >> 4 | offset >> 6 << 4);
    }
    (scales, offsets)
}
