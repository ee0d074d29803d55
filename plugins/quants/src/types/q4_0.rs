//! Q4_0: 32 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d          the scale: the element of the largest magnitude / -8
//!         2   u4 q[32]        byte j: elements j and j + 16; element = d * (q - 8)
//! ```
//!
//! Source: `block_q4_0` and `quantize_row_q4_0_ref` of ggml; `quantize_row_q4_0_impl` with importance.

use super::{BlockType, Rows};
use crate::decode::{Decode, decode};
use crate::extremes::widest;
use crate::nibbles::{Blocks, ELEMENTS, lanes as in_vectors, pack, unpack};
use crate::number::{from_f16, half, low_byte};
use crate::search::symmetric;
use crate::simd::{Floats, Ints, Lanes, Task, run};
use crate::weights::{mean_square, weights};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static Q4_0: BlockType =
    BlockType { dtype: DType::Q4_0, needs_importance: false, decode: decode::<Q40, BYTES, ELEMENTS>, encode };

/// How it is decoded.
struct Q40;

impl Decode<BYTES, ELEMENTS> for Q40 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack(rest)) {
            *value = (f32::from(code) - 8.0) * d;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, rest @ ..] = block;
        let d = v.floats(from_f16(u16::from_le_bytes([*d0, *d1])));
        for (code, out) in in_vectors::unpack(v, rest).into_iter().zip(out.chunks_exact_mut(V::COUNT)) {
            ((code.to_floats() - v.floats(8.0)) * d).store(out);
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
            let found = symmetric(8, values, Some(&weights), &mut codes);
            let [d0, d1, bytes @ ..] = block;
            [*d0, *d1] = half(found).to_le_bytes();
            pack(&codes, bytes);
        }
    }
}

/// The scale takes the widest element to an end of the codes.
fn plain(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
    let [d0, d1, codes @ ..] = block;
    let d = widest(values) / -8.0;
    // From the scale before it is rounded to a half.
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    [*d0, *d1] = half(d).to_le_bytes();
    let code = |value: f32| low_byte(value * inverse + 8.5).cast_signed().min(15).cast_unsigned();
    pack(&values.map(code), codes);
}

/// Blocks whose scales are made at once.
const GROUP: usize = 16;

/// The same in vectors.
struct Plain<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    out: &'a mut [[u8; BYTES]],
}

impl Task for Plain<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        // The scales of several blocks come together, so that the compiler makes vectors of them too.
        for (blocks, out) in self.blocks.chunks(GROUP).zip(self.out.chunks_mut(GROUP)) {
            let (mut scales, mut inverses, mut halves) = ([0.0; GROUP], [0.0; GROUP], [0; GROUP]);
            for (scale, values) in scales.iter_mut().zip(blocks) {
                *scale = in_vectors::widest(lanes, values, &in_vectors::load(lanes, values)) / -8.0;
            }
            for ((inverse, half_scale), d) in inverses.iter_mut().zip(&mut halves).zip(scales) {
                *inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
                *half_scale = half(d);
            }
            for ((values, block), (inverse, d)) in
                blocks.iter().zip(out).zip(inverses.into_iter().zip(halves))
            {
                let [d0, d1, bytes @ ..] = block;
                [*d0, *d1] = d.to_le_bytes();
                let vectors = in_vectors::load(lanes, values);
                let codes = in_vectors::codes(lanes, &vectors, (0.0, inverse, 8.5), 15);
                in_vectors::pack::<V>(&codes, bytes);
            }
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
            let found = blocks.symmetric(lanes, 8, start);
            for (at, (values, block)) in values.iter().zip(out).enumerate() {
                let codes = found.symmetric_codes(lanes, 8, at, values);
                let [d0, d1, bytes @ ..] = block;
                [*d0, *d1] = half(found.scales[at]).to_le_bytes();
                in_vectors::pack::<V>(&codes, bytes);
            }
        }
    }
}
