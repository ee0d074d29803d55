//! TQ2_0: 256 elements, each -1, 0 or 1 times a scale, in 66 bytes.
//!
//! ```text
//! offset  0   u2 q[256]       byte 32 * h + m: elements m, m + 32, m + 64, m + 96 of half h; element = d * (q - 1)
//!        64   half d          the largest magnitude
//! ```
//!
//! Source: `block_tq2_0` and `quantize_row_tq2_0_ref` of ggml. Importance is not looked at.

use super::BlockType;
use crate::encode::{Encode, encode_each_block};
use crate::extremes::largest_magnitude;
use crate::number::{from_f16, half, nearest_digit};
use crate::simd::Level;
use apr_sdk::DType;

/// Elements of a block.
const ELEMENTS: usize = 256;
/// Bytes of a block.
const BYTES: usize = 66;
/// Bytes that hold half of the elements.
const HALF: usize = 32;

/// The type.
pub static TQ2_0: BlockType = BlockType {
    dtype: DType::TQ2_0,
    needs_importance: false,
    decode,
    encode: encode_each_block::<TQ20, BYTES, ELEMENTS>,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[64], block[65]]));
        for (bytes, out) in block.as_chunks::<HALF>().0.iter().zip(out.as_chunks_mut::<128>().0) {
            for (quarter, values) in out.as_chunks_mut::<HALF>().0.iter_mut().enumerate() {
                for (value, byte) in values.iter_mut().zip(bytes) {
                    *value = (f32::from(byte >> (2 * quarter) & 3) - 1.0) * d;
                }
            }
        }
    }
}

/// How it is encoded.
struct TQ20;

impl Encode<BYTES, ELEMENTS> for TQ20 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let d = largest_magnitude(values);
        // An infinite one, of the smallest scales, leaves no number, which `lroundf` makes 0 on x86-64.
        let inverse = if d == 0.0 || (1.0 / d).is_infinite() { 0.0 } else { 1.0 / d };
        let (codes, scale) = block.split_at_mut(64);
        scale.copy_from_slice(&half(d).to_le_bytes());
        for (bytes, values) in codes.as_chunks_mut::<HALF>().0.iter_mut().zip(values.as_chunks::<128>().0) {
            *bytes = [0; HALF];
            for (quarter, values) in values.as_chunks::<HALF>().0.iter().enumerate() {
                for (byte, value) in bytes.iter_mut().zip(values) {
                    *byte |= (nearest_digit(value * inverse) & 3) << (2 * quarter);
                }
            }
        }
    }
}
