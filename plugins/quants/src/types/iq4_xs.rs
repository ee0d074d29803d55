//! IQ4_XS: 256 elements in 136 bytes: eight sub-blocks of 32, with codes as in IQ4_NL and scales of six bits.
//!
//! ```text
//! offset  0   half d          the scale of the scales
//!         2   u2 high[8]      the upper bits of sub-block scales
//!         4   u4 low[8]       the lower bits
//!         8   u4 q[8][32]     byte j of 16: elements j and j + 16; element = d * (high:low - 32) * VALUES[q]
//! ```
//!
//! Source: `block_iq4_xs` and `quantize_iq4_xs` of ggml.

use super::{BlockType, Rows};
use crate::decode::{Decode, decode};
use crate::nibbles::{ELEMENTS as SUB_BLOCK, lanes as in_vectors, pack, unpack};
use crate::nonlinear::{MOST_LANES, Search, VALUES, codes, scale, variance, weights_of};
use crate::number::{from_f16, half, nearest_int};
use crate::simd::{Floats, Lanes, Task, run};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 256;
/// Sub-blocks of a block.
const SUB_BLOCKS: usize = 8;
/// Bytes of a block.
const BYTES: usize = 136;

/// The type.
pub static IQ4_XS: BlockType = BlockType {
    dtype: DType::IQ4_XS,
    needs_importance: false,
    decode: decode::<IQ4XS, BYTES, ELEMENTS>,
    encode,
};

/// How it is decoded.
struct IQ4XS;

impl Decode<BYTES, ELEMENTS> for IQ4XS {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let sub_blocks = out.as_chunks_mut::<SUB_BLOCK>().0.iter_mut().zip(block[8..].as_chunks::<16>().0);
        for ((values, codes), d) in sub_blocks.zip(factors(block)) {
            for (value, code) in values.iter_mut().zip(unpack(codes)) {
                *value = d * VALUES[usize::from(code)];
            }
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let sub_blocks = out.as_chunks_mut::<SUB_BLOCK>().0.iter_mut().zip(block[8..].as_chunks::<16>().0);
        for ((values, codes), d) in sub_blocks.zip(factors(block)) {
            in_vectors::looked_up(v, &VALUES, d, codes, values);
        }
    }
}

/// The scale of each sub-block.
#[inline(always)]
fn factors(block: &[u8; BYTES]) -> [f32; SUB_BLOCKS] {
    let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
    let high = u16::from_le_bytes([block[2], block[3]]);
    let mut out = [0.0; SUB_BLOCKS];
    for (at, out) in out.iter_mut().enumerate() {
        let low = block[4 + at / 2] >> (4 * (at % 2)) & 15;
        let [high, _] = (high >> (2 * at) & 3).to_le_bytes();
        *out = d * (f32::from(low | high << 4) - 32.0);
    }
    out
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let (blocks, out) = (rows.values.as_chunks::<ELEMENTS>().0, out.as_chunks_mut::<BYTES>().0);
    let of_row = rows.row_len / SUB_BLOCK;
    let importance = rows.importance.map(|all| &all.as_chunks::<SUB_BLOCK>().0[..of_row]);
    if run(rows.level, InLanes { blocks, importance, out: &mut *out }).is_none() {
        for (number, (values, block)) in blocks.iter().zip(out).enumerate() {
            let variance = variance(values);
            let sub_blocks = values.as_chunks::<SUB_BLOCK>().0;
            let scales: [f32; SUB_BLOCKS] = std::array::from_fn(|at| {
                let importance = importance.map(|all| &all[(number * SUB_BLOCKS + at) % of_row]);
                scale(&sub_blocks[at], &weights_of(&sub_blocks[at], importance, variance))
            });
            let inverses = write_scales(&scales, block);
            let bytes = block[8..].as_chunks_mut::<16>().0;
            for ((values, bytes), inverse) in sub_blocks.iter().zip(bytes).zip(inverses) {
                pack(&codes(values, inverse), bytes);
            }
        }
    }
    Ok(())
}

/// Writes a block's scales; gives what the elements of each sub-block are to be multiplied with.
fn write_scales(scales: &[f32], block: &mut [u8; BYTES]) -> [f32; SUB_BLOCKS] {
    let d = -crate::extremes::widest(scales) / 32.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let (mut high, mut inverses) = (0, [0.0; SUB_BLOCKS]);
    block[4..8].fill(0);
    for (at, (scale, of_sub_block)) in scales.iter().zip(&mut inverses).enumerate() {
        let steps = nearest_int(inverse * scale).clamp(-32, 31);
        // The scale of the scales is not yet rounded to a half.
        #[allow(clippy::cast_precision_loss, reason = "a small integer")]
        let d = d * steps as f32;
        *of_sub_block = if d == 0.0 { 0.0 } else { 1.0 / d };
        let stored = (steps + 32).cast_unsigned();
        block[4 + at / 2] |= (stored & 15).to_le_bytes()[0] << (4 * (at % 2));
        high |= stored >> 4 << (2 * at);
    }
    block[..2].copy_from_slice(&half(d).to_le_bytes());
    block[2..4].copy_from_slice(&high.to_le_bytes()[..2]);
    inverses
}

/// The vector form: as many blocks at once as there are lanes, so that the sums of their squares run side by side; and of
/// their sub-blocks as many at once.
struct InLanes<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    importance: Option<&'a [[f32; SUB_BLOCK]]>,
    out: &'a mut [[u8; BYTES]],
}

impl Task for InLanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        let search = Search::new(lanes);
        let groups = self.blocks.chunks(V::COUNT).zip(self.out.chunks_mut(V::COUNT));
        for (group, (blocks, out)) in groups.enumerate() {
            let mut variances = [0.0; MOST_LANES];
            if self.importance.is_some() {
                variances_of(lanes, blocks, &mut variances);
            }
            let mut scales = [0.0; SUB_BLOCKS * MOST_LANES];
            let sub_blocks = blocks.as_flattened().as_chunks::<SUB_BLOCK>().0;
            let chunks = sub_blocks.chunks(V::COUNT).zip(scales.chunks_mut(V::COUNT));
            for (chunk, (sub_blocks, scales)) in chunks.enumerate() {
                let first = chunk * V::COUNT;
                let of_rows = group * V::COUNT * SUB_BLOCKS + first;
                let importance = self.importance.map(|all| move |at| &all[(of_rows + at) % all.len()]);
                let variance = |at| Some(variances[(first + at) / SUB_BLOCKS]);
                scales.copy_from_slice(&search.scales(sub_blocks, importance, variance)[..V::COUNT]);
            }
            for ((values, block), scales) in blocks.iter().zip(out).zip(scales.chunks(SUB_BLOCKS)) {
                let inverses = write_scales(scales, block);
                let sub_blocks =
                    values.as_chunks::<SUB_BLOCK>().0.iter().zip(block[8..].as_chunks_mut::<16>().0);
                for ((values, bytes), inverse) in sub_blocks.zip(inverses) {
                    pack(&search.codes(values, inverse), bytes);
                }
            }
        }
    }
}

/// `variance` of each block.
#[inline(always)]
fn variances_of<V: Lanes>(lanes: V, blocks: &[[f32; ELEMENTS]], variances: &mut [f32; MOST_LANES]) {
    if blocks.len() < V::COUNT {
        variances.iter_mut().zip(blocks).for_each(|(of_block, values)| *of_block = variance(values));
        return;
    }
    let mut sum = lanes.floats(0.0);
    for at in 0..SUB_BLOCKS {
        let mut columns = [sum; SUB_BLOCK];
        lanes.columns(&blocks.as_flattened()[at * SUB_BLOCK..], ELEMENTS, &mut columns);
        for value in columns {
            sum = sum + value * value;
        }
    }
    (sum * lanes.floats(2.0 / 256.0)).store(variances);
}
