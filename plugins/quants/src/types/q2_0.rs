//! Q2_0: 64 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d          the largest magnitude
//!         2   u2 q[64]        lowest bits first; element = d * (q - 1)
//! ```
//!
//! Source: `block_q2_0` and `quantize_row_q2_0_ref` of ggml. Importance is not looked at.

use super::BlockType;
use crate::encode::{Encode, encode_each_block};
use crate::extremes::largest_magnitude;
use crate::number::{from_f16, half, nearest_digit};
use crate::simd::Level;
use apr_sdk::DType;

/// Elements of a block.
const ELEMENTS: usize = 64;
/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static Q2_0: BlockType = BlockType {
    dtype: DType::Q2_0,
    needs_importance: false,
    decode,
    encode: encode_each_block::<Q20, BYTES, ELEMENTS>,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (byte, values) in block[2..].iter().zip(out.as_chunks_mut::<4>().0) {
            for (at, value) in values.iter_mut().enumerate() {
                *value = (f32::from(byte >> (2 * at) & 3) - 1.0) * d;
            }
        }
    }
}

/// How it is encoded.
struct Q20;

impl Encode<BYTES, ELEMENTS> for Q20 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let d = largest_magnitude(values);
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        block[..2].copy_from_slice(&half(d).to_le_bytes());
        // An infinite one, of the smallest scales, leaves no number: the least integer on x86-64, which becomes code 0.
        if inverse.is_infinite() {
            block[2..].fill(0);
            return;
        }
        for (byte, values) in block[2..].iter_mut().zip(values.as_chunks::<4>().0) {
            let [a, b, c, d] = values.map(|value| nearest_digit(value * inverse));
            *byte = a | b << 2 | c << 4 | d << 6;
        }
    }
}
