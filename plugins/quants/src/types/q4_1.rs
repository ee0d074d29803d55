//! Q4_1: 32 elements in 20 bytes.
//!
//! ```text
//! offset  0   half d          the scale: (largest - smallest) / 15
//!         2   half m          the smallest
//!         4   u4 q[32]        byte j: elements j and j + 16; element = d * q + m
//! ```
//!
//! Source: `block_q4_1` and `quantize_row_q4_1_ref` of ggml; `quantize_row_q4_1_impl` with importance.

use super::{BlockType, Rows};
use crate::decode::{Decode, decode};
use crate::extremes::range;
use crate::nibbles::{Blocks, ELEMENTS, lanes as in_vectors, pack, unpack};
use crate::number::{from_f16, half, low_byte};
use crate::search::{Steps, weighted};
use crate::simd::{Floats, Ints, Lanes, Task, run};
use crate::weights::{mean_square, weights};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 20;

/// The scales that are tried where importance is known.
const STEPS: Steps = Steps { most: 15, first: -0.9, step: 0.05, count: 36 };

/// The type.
pub static Q4_1: BlockType =
    BlockType { dtype: DType::Q4_1, needs_importance: false, decode: decode::<Q41, BYTES, ELEMENTS>, encode };

/// How it is decoded.
struct Q41;

impl Decode<BYTES, ELEMENTS> for Q41 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, m0, m1, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        let m = from_f16(u16::from_le_bytes([*m0, *m1]));
        for (value, code) in out.iter_mut().zip(unpack(rest)) {
            *value = f32::from(code) * d + m;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, m0, m1, rest @ ..] = block;
        let d = v.floats(from_f16(u16::from_le_bytes([*d0, *d1])));
        let m = v.floats(from_f16(u16::from_le_bytes([*m0, *m1])));
        for (code, out) in in_vectors::unpack(v, rest).into_iter().zip(out.chunks_exact_mut(V::COUNT)) {
            (code.to_floats() * d + m).store(out);
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
            let found = weighted(&STEPS, values, &weights, &mut codes);
            let [d0, d1, m0, m1, bytes @ ..] = block;
            [*d0, *d1] = half(found.scale).to_le_bytes();
            [*m0, *m1] = half(-found.offset).to_le_bytes();
            pack(&codes, bytes);
        }
    }
}

/// The scale takes the smallest to 0 and the largest to 15.
fn plain(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let [d0, d1, m0, m1, codes @ ..] = block;
    let (least, most) = range(values);
    let d = (most - least) / 15.0;
    // From the scale before it is rounded to a half.
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    [*d0, *d1] = half(d).to_le_bytes();
    [*m0, *m1] = half(least).to_le_bytes();
    let code = |value: f32| low_byte((value - least) * inverse + 0.5).cast_signed().min(15).cast_unsigned();
    pack(&values.map(code), codes);
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
            let (least, most) = in_vectors::range::<V>(values, &vectors);
            let [d0, d1, m0, m1, bytes @ ..] = block;
            let d = (most - least) / 15.0;
            let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
            [*d0, *d1] = half(d).to_le_bytes();
            [*m0, *m1] = half(least).to_le_bytes();
            let codes = in_vectors::codes(lanes, &vectors, (least, inverse, 0.5), 15);
            in_vectors::pack::<V>(&codes, bytes);
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
            let found = blocks.weighted(lanes, &STEPS, start);
            for (at, (values, block)) in values.iter().zip(out).enumerate() {
                let codes = found.weighted_codes(lanes, 15, at, values);
                let [d0, d1, m0, m1, bytes @ ..] = block;
                [*d0, *d1] = half(found.scales[at]).to_le_bytes();
                [*m0, *m1] = half(-found.offsets[at]).to_le_bytes();
                in_vectors::pack::<V>(&codes, bytes);
            }
        }
    }
}
