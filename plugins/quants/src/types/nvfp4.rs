//! NVFP4: 64 elements in 36 bytes: four-bit floats in sub-blocks of 16, each with a float of eight bits.
//!
//! ```text
//! offset  0   u8 d[4]         the scales: amax / 6, UE4M3 (no sign, 4 bits exponent with bias 7, 3 bits mantissa)
//!         4   u4 q[64]        byte 8 * s + j: elements j and j + 8 of sub-block s; element = d / 2 * VALUES[q]
//! ```
//!
//! Source: `block_nvfp4` and `quantize_row_nvfp4_ref` of ggml. Importance is not looked at.

use super::BlockType;
use crate::encode::{Encode, encode_each_block};
use crate::extremes::largest_magnitude;
use crate::fp4::{VALUES, nearest};
use crate::simd::Level;
use apr_sdk::DType;

/// Elements of a block.
const ELEMENTS: usize = 64;
/// Bytes of a block.
const BYTES: usize = 36;
/// Elements of a sub-block.
const SUB_BLOCK: usize = 16;
/// The largest scale: 448.
const LARGEST: u8 = 0x7e;
/// The first code of the binade below it, 256: ggml makes 448 of all that would be there.
const LAST_BINADE: u32 = 0x78;

/// The type.
pub static NVFP4: BlockType = BlockType {
    dtype: DType::NVFP4,
    needs_importance: false,
    decode,
    encode: encode_each_block::<Nvfp4, BYTES, ELEMENTS>,
};

/// Half of a scale: the values of the codes are doubled.
fn half_scale(scale: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(scale >> 3 & 15), u32::from(scale & 7));
    match (scale, exponent) {
        // What is no number counts as 0.
        (0x7f, _) => 0.0,
        // 2^-10: half of the smallest subnormal.
        (_, 0) => f32::from(scale & 7) * f32::from_bits(0x3a80_0000),
        _ => f32::from_bits((exponent + 119) << 23 | mantissa << 20),
    }
}

/// The scale next to a value; halves go up, what is too large becomes the largest.
fn scale(value: f32) -> u8 {
    if value.is_nan() || value <= 0.0 {
        return 0;
    }
    let bits = value.min(448.0).to_bits();
    // Below 2^-6 it is a multiple of 2^-9, but no further than 7 of them.
    if bits < 0x3c80_0000 {
        return crate::number::low_byte(value * 512.0 + 0.5).min(7);
    }
    // The bias goes from 127 to 7; bit 19, the first that is cut off, rounds up.
    let number = (bits >> 20) - (120 << 3) + (bits >> 19 & 1);
    if number < LAST_BINADE { number.to_le_bytes()[0] } else { LARGEST }
}

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let (scales, codes) = block.split_at(4);
        let sub_blocks = out.as_chunks_mut::<SUB_BLOCK>().0.iter_mut();
        for ((values, codes), scale) in sub_blocks.zip(codes.as_chunks::<8>().0).zip(scales) {
            let d = half_scale(*scale);
            let (low, high) = values.split_at_mut(8);
            for ((low, high), code) in low.iter_mut().zip(high).zip(codes) {
                *low = VALUES[usize::from(code & 15)] * d;
                *high = VALUES[usize::from(code >> 4)] * d;
            }
        }
    }
}

/// How it is encoded.
struct Nvfp4;

impl Encode<BYTES, ELEMENTS> for Nvfp4 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let (scales, codes) = block.split_at_mut(4);
        let sub_blocks = values.as_chunks::<SUB_BLOCK>().0.iter();
        for ((values, bytes), d) in sub_blocks.zip(codes.as_chunks_mut::<8>().0).zip(scales) {
            *d = scale(largest_magnitude(values) / 6.0);
            let codes = nearest(values, half_scale(*d));
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = codes[at] | codes[at + 8] << 4;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_those_of_ggml() {
        // What `ggml_fp32_to_ue4m3` of ggml 0.26.0 gives.
        let cases = [
            (0.0, 0),
            (0.5 / 512.0, 1),
            (1.0, 0x38),
            (239.0, 0x77),
            (247.9, 0x77),
            (248.0, LARGEST),
            (256.0, LARGEST),
            (300.0, LARGEST),
            (448.0, LARGEST),
            (1e30, LARGEST),
        ];
        for (value, code) in cases {
            assert_eq!(scale(value), code, "{value}");
        }
    }
}
