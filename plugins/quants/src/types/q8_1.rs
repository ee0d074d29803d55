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
use crate::nibbles::{ELEMENTS, lanes as in_vectors};
use crate::number::{from_f16, half, low_byte};
use crate::simd::{Ints, Lanes, Level, Task, run};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 36;

/// The type.
pub static Q8_1: BlockType = BlockType { dtype: DType::Q8_1, needs_importance: false, decode, encode };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (value, q) in out.iter_mut().zip(&block[4..]) {
            *value = f32::from(q.cast_signed()) * d;
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
    let codes = values.map(|value| low_byte((value * inverse).round()));
    write(d, &codes, block);
}

/// A block whose codes were found.
#[inline(always)]
fn write(d: f32, codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]) {
    let mut sum = 0;
    for q in codes {
        sum += i16::from(q.cast_signed());
    }
    block[..2].copy_from_slice(&half(d).to_le_bytes());
    block[2..4].copy_from_slice(&half(f32::from(sum) * d).to_le_bytes());
    block[4..].copy_from_slice(codes);
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
            let mut codes = [0; ELEMENTS];
            let rounded = in_vectors::rounded(lanes, &vectors, inverse);
            for (q, codes) in codes.chunks_exact_mut(V::COUNT).zip(rounded) {
                codes.store_bytes(q);
            }
            write(d, &codes, block);
        }
    }
}
