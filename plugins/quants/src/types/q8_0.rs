//! Q8_0: 32 elements in 34 bytes.
//!
//! ```text
//! offset  0   half d          the scale: amax / 127
//!         2   i8 q[32]        element = d * q
//! ```
//!
//! Source: `block_q8_0` and `quantize_row_q8_0_ref` of ggml. Importance is not looked at.

use super::{BlockType, Rows};
use crate::extremes::largest_magnitude;
use crate::number::{from_half, half, low_byte};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 32;
/// Bytes of a block.
const BYTES: usize = 34;

/// The type.
pub static Q8_0: BlockType = BlockType { dtype: DType::Q8_0, needs_importance: false, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_half(u16::from_le_bytes([block[0], block[1]]));
        for (value, q) in out.iter_mut().zip(&block[2..]) {
            *value = f32::from(q.cast_signed()) * d;
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    for (values, block) in rows.values.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        let d = largest_magnitude(values) / 127.0;
        // From the scale before it is rounded to a half.
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        block[..2].copy_from_slice(&half(d).to_le_bytes());
        for (q, value) in block[2..].iter_mut().zip(values) {
            *q = low_byte((value * inverse).round());
        }
    }
    Ok(())
}
