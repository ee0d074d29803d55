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
use crate::nibbles::{ELEMENTS as SUB_BLOCK, pack, unpack};
use crate::nonlinear::{VALUES, nearest, scale, variance, weights_of};
use crate::number::{from_half, half, nearest_int};
use apr_sdk::{DType, Result};

/// Elements of a block.
const ELEMENTS: usize = 256;
/// Sub-blocks of a block.
const SUB_BLOCKS: usize = 8;
/// Bytes of a block.
const BYTES: usize = 136;

/// The type.
pub static IQ4_XS: BlockType = BlockType { dtype: DType::IQ4_XS, needs_importance: false, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let (head, codes) = block.split_at(8);
        let d = from_half(u16::from_le_bytes([head[0], head[1]]));
        let high = u16::from_le_bytes([head[2], head[3]]);
        let sub_blocks = out.as_chunks_mut::<SUB_BLOCK>().0.iter_mut().zip(codes.as_chunks::<16>().0);
        for (at, (values, codes)) in sub_blocks.enumerate() {
            let low = head[4 + at / 2] >> (4 * (at % 2)) & 15;
            let [high, _] = (high >> (2 * at) & 3).to_le_bytes();
            let d = d * (f32::from(low | high << 4) - 32.0);
            for (value, code) in values.iter_mut().zip(unpack(codes)) {
                *value = d * VALUES[usize::from(code)];
            }
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let of_row = rows.row_len / ELEMENTS;
    let blocks = rows.values.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
    for (at, (values, block)) in blocks.enumerate() {
        let importance = rows.importance.map(|all| &all.as_chunks::<ELEMENTS>().0[at % of_row]);
        let variance = variance(values);
        let sub_blocks = values.as_chunks::<SUB_BLOCK>().0;
        let scales: [f32; SUB_BLOCKS] = std::array::from_fn(|at| {
            let importance = importance.map(|of_block| &of_block.as_chunks::<SUB_BLOCK>().0[at]);
            scale(&sub_blocks[at], &weights_of(&sub_blocks[at], importance, variance))
        });
        pack_block(sub_blocks, &scales, block);
    }
    Ok(())
}

/// A block of sub-blocks whose scales were found.
fn pack_block(sub_blocks: &[[f32; SUB_BLOCK]], scales: &[f32; SUB_BLOCKS], block: &mut [u8; BYTES]) {
    let (head, codes) = block.split_at_mut(8);
    let d = -crate::extremes::widest(scales) / 32.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut high = 0;
    head[4..].fill(0);
    for (at, (values, codes)) in sub_blocks.iter().zip(codes.as_chunks_mut::<16>().0).enumerate() {
        let steps = nearest_int(inverse * scales[at]).clamp(-32, 31);
        // The scale of the scales is not yet rounded to a half.
        #[allow(clippy::cast_precision_loss, reason = "a small integer")]
        let of_sub_block = d * steps as f32;
        let inverse = if of_sub_block == 0.0 { 0.0 } else { 1.0 / of_sub_block };
        pack(&values.map(|value| nearest(inverse * value).to_le_bytes()[0]), codes);
        let stored = (steps + 32).cast_unsigned();
        head[4 + at / 2] |= (stored & 15).to_le_bytes()[0] << (4 * (at % 2));
        high |= stored >> 4 << (2 * at);
    }
    head[..2].copy_from_slice(&half(d).to_le_bytes());
    head[2..4].copy_from_slice(&high.to_le_bytes()[..2]);
}
