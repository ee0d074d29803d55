//! Q1_0: 128 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d          the mean magnitude
//!         2   u1 q[128]       lowest bit first; element = q == 1 ? d : -d
//! ```
//!
//! Source: `block_q1_0` and `quantize_row_q1_0_ref` of ggml. Importance is not looked at.

use super::{BlockType, Rows};
use crate::number::{from_f16, half};
use crate::simd::{Body, Level, compiled};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 128;
/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static Q1_0: BlockType = BlockType { dtype: DType::Q1_0, needs_importance: false, decode, encode };

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

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    // What follows is element by element: the compiler makes vectors of it.
    compiled(rows.level, Encode { values: rows.values, out });
    Ok(())
}

/// The work on all blocks.
struct Encode<'a> {
    values: &'a [f32],
    out: &'a mut [u8],
}

impl Body for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        encode_blocks(self.values, self.out);
    }
}

#[inline(always)]
fn encode_blocks(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        let sum = values.iter().fold(0.0, |sum, value| sum + value.abs());
        block[..2].copy_from_slice(&half(sum / 128.0).to_le_bytes());
        for (byte, values) in block[2..].iter_mut().zip(values.as_chunks::<8>().0) {
            // Not the sign bit: -0.0 counts as positive.
            *byte = (0..8).fold(0, |byte, at| byte | u8::from(values[at] >= 0.0) << at);
        }
    }
}
