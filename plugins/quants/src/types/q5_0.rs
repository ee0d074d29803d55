//! Q5_0: 32 elements in 22 bytes.
//!
//! ```text
//! offset  0   half d          the scale: the element of the largest magnitude / -16
//!         2   u32             bit j: the fifth bit of element j
//!         6   u4 q[32]        byte j: elements j and j + 16; element = d * (q - 16)
//! ```
//!
//! Source: `block_q5_0` and `quantize_row_q5_0_ref` of ggml; `quantize_row_q5_0_impl` with importance.

use super::{BlockType, Rows};
use crate::extremes::widest;
use crate::nibbles::{Blocks, ELEMENTS, lanes as in_vectors, pack_five, unpack_five};
use crate::number::{from_f16, half, low_byte};
use crate::search::symmetric;
use crate::simd::{Lanes, Level, Task, run};
use crate::weights::{mean_square, weights};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 22;

/// The type.
pub static Q5_0: BlockType = BlockType { dtype: DType::Q5_0, needs_importance: false, decode, encode };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let [d0, d1, f0, f1, f2, f3, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack_five(rest, [*f0, *f1, *f2, *f3])) {
            *value = (f32::from(code) - 16.0) * d;
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let Some(importance) = rows.importance else {
        let (blocks, out) = (rows.values.as_chunks::<ELEMENTS>().0, out.as_chunks_mut::<BYTES>().0);
        if run(rows.level, Plain { blocks, out: &mut *out }).is_none() {
            blocks.iter().zip(out).for_each(|(values, block)| plain(values, block));
        }
        return Ok(());
    };
    if run(rows.level, Search { rows, importance, out: &mut *out }).is_none() {
        search(rows, importance, out);
    }
    Ok(())
}

/// Searches where importance is known.
fn search(rows: &Rows<'_>, importance: &[f32], out: &mut [u8]) {
    let importance = importance.as_chunks::<ELEMENTS>().0;
    let of_row = rows.row_len / ELEMENTS * BYTES;
    for (row, out) in rows.values.chunks_exact(rows.row_len).zip(out.chunks_exact_mut(of_row)) {
        let variance = mean_square(row);
        let blocks = row.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
        for ((values, block), importance) in blocks.zip(importance) {
            let weights = weights(values, importance, variance);
            let mut codes = [0; ELEMENTS];
            let found = symmetric(16, values, Some(&weights), &mut codes);
            let [d0, d1, f0, f1, f2, f3, bytes @ ..] = block;
            [*d0, *d1] = half(found).to_le_bytes();
            [*f0, *f1, *f2, *f3] = pack_five(&codes, bytes);
        }
    }
}

/// The scale takes the widest element to an end of the codes.
fn plain(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let [d0, d1, f0, f1, f2, f3, codes @ ..] = block;
    let d = widest(values) / -16.0;
    // From the scale before it is rounded to a half.
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    [*d0, *d1] = half(d).to_le_bytes();
    let code = |value: f32| low_byte(value * inverse + 16.5).cast_signed().min(31).cast_unsigned();
    [*f0, *f1, *f2, *f3] = pack_five(&values.map(code), codes);
}

/// The same in vectors.
struct Plain<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
}

impl Task for Plain<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        for (values, block) in self.blocks.iter().zip(self.out) {
            let vectors = in_vectors::load(lanes, values);
            let d = in_vectors::widest(lanes, values, &vectors) / -16.0;
            let [d0, d1, f0, f1, f2, f3, bytes @ ..] = block;
            let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
            [*d0, *d1] = half(d).to_le_bytes();
            let codes = in_vectors::codes(lanes, &vectors, (0.0, inverse, 16.5), 31);
            [*f0, *f1, *f2, *f3] = in_vectors::pack_five(lanes, &codes, bytes);
        }
    }
}

/// The searches in vectors.
struct Search<'a> {
    rows: &'a Rows<'a>,
    importance: &'a [f32],
    out: &'a mut [u8],
}

impl Task for Search<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        let blocks = Blocks::new(lanes, self.rows, self.importance);
        let size = Blocks::group::<V>();
        let values = self.rows.values.as_chunks::<ELEMENTS>().0.chunks(size);
        let groups = values.zip(self.out.as_chunks_mut::<BYTES>().0.chunks_mut(size));
        for (group, (values, out)) in groups.enumerate() {
            let start = group * size;
            let found = blocks.symmetric(lanes, 16, start);
            for (at, (values, block)) in values.iter().zip(out).enumerate() {
                let codes = found.symmetric_codes(lanes, 16, at, values);
                let [d0, d1, f0, f1, f2, f3, bytes @ ..] = block;
                [*d0, *d1] = half(found.scales[at]).to_le_bytes();
                [*f0, *f1, *f2, *f3] = in_vectors::pack_five(lanes, &codes, bytes);
            }
        }
    }
}
