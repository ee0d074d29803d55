//! Q1_0: 128 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d          the mean magnitude
//!         2   u1 q[128]       lowest bit first; element = q == 1 ? d : -d
//! ```
//!
//! Source: `block_q1_0` and `quantize_row_q1_0_ref` of ggml. Importance is not looked at.

use super::BlockType;
use crate::encode::{Encode, encode_each_block};
use crate::number::{from_f16, half};
use crate::simd::Level;
use apr_sdk::DType;

/// Elements of a block.
const ELEMENTS: usize = 128;
/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static Q1_0: BlockType = BlockType {
    dtype: DType::Q1_0,
    needs_importance: false,
    decode,
    encode: encode_each_block::<Q10, BYTES, ELEMENTS>,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (byte, values) in block[2..].iter().zip(out.as_chunks_mut::<8>().0) {
            for (at, value) in values.iter_mut().enumerate() {
                *value = if byte >> at & 1 == 1 { d } else { -d };
            }
        }
    }
}

/// How it is encoded.
struct Q10;

impl Encode<BYTES, ELEMENTS> for Q10 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let sum = values.iter().fold(0.0, |sum, value| sum + value.abs());
        block[..2].copy_from_slice(&half(sum / 128.0).to_le_bytes());
        for (byte, values) in block[2..].iter_mut().zip(values.as_chunks::<8>().0) {
            // Not the sign bit: -0.0 counts as positive.
            *byte = (0..8).fold(0, |byte, at| byte | u8::from(values[at] >= 0.0) << at);
        }
    }
}
