//! Q8_0: 32 elements in 34 bytes.
//!
//! ```text
//! offset  0   half d          the scale: amax / 127
//!         2   i8 q[32]        element = d * q
//! ```
//!
//! Source: `block_q8_0` and `quantize_row_q8_0_ref` of ggml. Importance is not looked at.

use super::{BlockType, Rows};
use crate::decode::{Decode, decode};
use crate::extremes::largest_magnitude;
use crate::nibbles::{ELEMENTS, lanes as in_vectors};
use crate::number::{from_f16, half, low_byte};
use crate::simd::{Floats, Ints, Lanes, Task, run};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 34;

/// The type.
pub static Q8_0: BlockType =
    BlockType { dtype: DType::Q8_0, needs_importance: false, decode: decode::<Q80, BYTES, ELEMENTS>, encode };

/// How it is decoded.
struct Q80;

impl Decode<BYTES, ELEMENTS> for Q80 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (value, q) in out.iter_mut().zip(&block[2..]) {
            *value = f32::from(q.cast_signed()) * d;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let d = v.floats(from_f16(u16::from_le_bytes([block[0], block[1]])));
        for (q, out) in block[2..].chunks_exact(V::COUNT).zip(out.chunks_exact_mut(V::COUNT)) {
            let q = v.load_bytes(q).shift_left(24).shift_right_signed(24);
            (q.to_floats() * d).store(out);
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let (blocks, out) = (rows.values.as_chunks::<ELEMENTS>().0, out.as_chunks_mut::<BYTES>().0);
    if run(rows.level, InVectors { blocks, out: &mut *out }).is_none() {
        blocks.iter().zip(out).for_each(|(values, block)| encode_block(values, block));
    }
    Ok(())
}

fn encode_block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let d = largest_magnitude(values) / 127.0;
    // From the scale before it is rounded to a half.
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    block[..2].copy_from_slice(&half(d).to_le_bytes());
    for (q, value) in block[2..].iter_mut().zip(values) {
        *q = low_byte((value * inverse).round());
    }
}

/// The same in vectors.
struct InVectors<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
}

impl Task for InVectors<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        for (values, block) in self.blocks.iter().zip(self.out) {
            let vectors = in_vectors::load(lanes, values);
            let d = in_vectors::largest_magnitude(lanes, &vectors) / 127.0;
            let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
            block[..2].copy_from_slice(&half(d).to_le_bytes());
            let rounded = in_vectors::rounded(lanes, &vectors, inverse);
            for (q, codes) in block[2..].chunks_exact_mut(V::COUNT).zip(rounded) {
                codes.store_bytes(q);
            }
        }
    }
}
