//! Q8_1: 32 elements in 36 bytes. Files do not hold it: it is what activations become.
//!
//! ```text
//! offset  0   half d          the scale: amax / 127
//!         2   half s          d * the sum of q
//!         4   i8 q[32]        element = d * q
//! ```
//!
//! Source: `block_q8_1` and `quantize_row_q8_1_ref` of ggml.

use super::{BlockType, Rows};
use crate::extremes::largest_magnitude;
use crate::number::{from_half, half, low_byte};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 32;
/// Bytes of a block.
const BYTES: usize = 36;

/// The type.
pub static Q8_1: BlockType = BlockType { dtype: DType::Q8_1, needs_importance: false, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_half(u16::from_le_bytes([block[0], block[1]]));
        for (value, q) in out.iter_mut().zip(&block[4..]) {
            *value = f32::from(q.cast_signed()) * d;
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    for (values, block) in rows.values.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        let d = largest_magnitude(values) / 127.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let codes = values.map(|value| low_byte((value * inverse).round()));
        let sum: i16 = codes.iter().map(|q| i16::from(q.cast_signed())).sum();
        block[..2].copy_from_slice(&half(d).to_le_bytes());
        block[2..4].copy_from_slice(&half(f32::from(sum) * d).to_le_bytes());
        block[4..].copy_from_slice(&codes);
    }
    Ok(())
}
