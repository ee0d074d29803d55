//! Q8_K: 256 elements in 292 bytes. No type of files: what the activations of a product with K types are held in.
//!
//! ```text
//! offset  0   f32 d           the scale: the element of the greatest magnitude / -127
//!         4   i8 q[256]       element = d * q
//!       260   i16 sums[16]    the sum of each 16 codes
//! ```
//!
//! Source: `block_q8_K` and `quantize_row_q8_K_ref` of ggml. Importance is not looked at. Plain code, compiled for each
//! level: an element's code depends on no other's.

use super::{BlockType, Rows};
use crate::number::nearest_int;
use crate::simd::{Body, Level, compiled};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 256;
/// Bytes of a block.
const BYTES: usize = 292;

/// The type.
pub static Q8_K: BlockType = BlockType { dtype: DType::Q8_K, needs_importance: false, decode, encode };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (value, q) in out.iter_mut().zip(&block[4..]) {
            *value = d * f32::from(q.cast_signed());
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    compiled(rows.level, Blocks { values: rows.values, out });
    Ok(())
}

/// Blocks to be encoded.
struct Blocks<'a> {
    values: &'a [f32],
    out: &'a mut [u8],
}

impl Body for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let blocks = self.out.as_chunks_mut::<BYTES>().0.iter_mut();
        for (values, block) in self.values.as_chunks::<ELEMENTS>().0.iter().zip(blocks) {
            let step = |(max, amax): (f32, f32), &value: &f32| {
                if value.abs() > amax { (value, value.abs()) } else { (max, amax) }
            };
            let (max, amax) = values.iter().fold((0.0, 0.0), step);
            if amax == 0.0 {
                // ggml leaves the sums as they were; zeros are what they are.
                block.fill(0);
                continue;
            }
            let inverse = -127.0 / max;
            for (q, value) in block[4..260].iter_mut().zip(values) {
                *q = nearest_int(inverse * value).min(127).to_le_bytes()[0];
            }
            for sub in 0..16 {
                let codes = &block[4 + sub * 16..][..16];
                let sum = codes.iter().fold(0i16, |sum, q| sum.wrapping_add(q.cast_signed().into()));
                block[260 + sub * 2..][..2].copy_from_slice(&sum.to_le_bytes());
            }
            block[..4].copy_from_slice(&(1.0 / inverse).to_le_bytes());
        }
    }
}
