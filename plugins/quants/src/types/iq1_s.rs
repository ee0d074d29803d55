//! IQ1_S: 256 elements in 50 bytes, 1.5625 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   u8 points[32]   of each eight elements the low byte of the point, which stands for eight levels −1, 0 or 1
//!        34   u16[8]          of each 32 elements: bits 0..12 bits 8, 9 and 10 of the four points, bits 12..15 the scale s,
//!                             bit 15 whether the levels are moved down
//!             element = d * (2 * s + 1) * (level + or - 1/8)
//! ```
//!
//! Source: `block_iq1_s`, `dequantize_row_iq1_s` and `quantize_row_iq1_s_impl` of ggml. It is not made without importance.

use super::{BlockType, Rows};
use crate::grids::ternary::{DELTA, Split, ascending, spread, steps, to_points, weights};
use crate::grids::{ELEMENTS, IQ1};
use crate::number::{from_half, half, nearest_int};
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 50;
/// Elements of a block.
const BLOCK: usize = 32;

/// The type.
pub static IQ1_S: BlockType = BlockType { dtype: DType::IQ1_S, needs_importance: true, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    let points = IQ1.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_half(u16::from_le_bytes([block[0], block[1]]));
        let (low, rest) = block[2..].split_at(32);
        let blocks = low.as_chunks::<4>().0.iter().zip(rest.as_chunks::<2>().0);
        for ((low, rest), out) in blocks.zip(out.as_chunks_mut::<BLOCK>().0) {
            let rest = u16::from_le_bytes(*rest);
            let scale = d * f32::from(2 * (rest >> 12 & 7) + 1);
            let delta = if rest & 0x8000 == 0 { DELTA } else { -DELTA };
            for (k, (low, out)) in low.iter().zip(out.as_chunks_mut::<8>().0).enumerate() {
                let point = usize::from(u16::from(*low) | (rest >> (3 * k) & 7) << 8);
                for (out, level) in out.iter_mut().zip(points[point]) {
                    *out = scale * (f32::from(level) - 1.0 + delta);
                }
            }
        }
    }
}

/// A block: its scale, points, and whether its levels are moved down.
#[derive(Clone, Copy, Default)]
struct Block {
    scale: f32,
    points: [u16; 4],
    down: bool,
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let super_blocks = rows.values.as_chunks::<ELEMENTS>().0;
    for (n, (values, out)) in super_blocks.iter().zip(out.as_chunks_mut::<BYTES>().0).enumerate() {
        let column = n % (rows.row_len / ELEMENTS) * ELEMENTS;
        let importance = rows.importance.map(|all| &all[column..column + ELEMENTS]);
        let spread = spread(values);
        let mut blocks = [Block::default(); ELEMENTS / BLOCK];
        for (k, (block, values)) in blocks.iter_mut().zip(values.as_chunks::<BLOCK>().0).enumerate() {
            let importance = importance.map(|all| &all[k * BLOCK..(k + 1) * BLOCK]);
            *block = search(values, &weights(values, importance, spread))?;
        }
        pack(&blocks, out);
    }
    Ok(())
}

/// Tries every split of the ascending elements into three runs, with the levels moved up and down.
fn search(values: &[f32; BLOCK], weights: &[f32; BLOCK]) -> Result<Block> {
    let max = values.iter().fold(0.0f32, |max, value| if max > value.abs() { max } else { value.abs() });
    if max < 1e-12 {
        return Ok(Block::default());
    }
    let order = ascending(values);
    let (mut products, mut sums) = ([0.0; BLOCK + 1], [0.0; BLOCK + 1]);
    for (n, i) in order.into_iter().enumerate() {
        products[n + 1] = products[n] + weights[i] * values[i];
        sums[n + 1] = sums[n] + weights[i];
    }
    let mut best = -f32::MAX;
    let mut found: Option<(Split, bool)> = None;
    for first in 0..=BLOCK {
        for second in first..=BLOCK {
            for down in [false, true] {
                let [low, middle, high] = steps(down);
                let product = products[first] * low
                    + (products[second] - products[first]) * middle
                    + (products[BLOCK] - products[second]) * high;
                let square = sums[first] * low * low
                    + (sums[second] - sums[first]) * middle * middle
                    + (sums[BLOCK] - sums[second]) * high * high;
                if square > 0.0 && product * product > best * square {
                    let scale = product / square;
                    best = scale * product;
                    found = Some((Split { first, second, scale }, down));
                }
            }
        }
    }
    let Some((split, down)) = found else { return Ok(Block::default()) };
    let down = down != (split.scale < 0.0);
    let levels = split.levels(&order);
    let (points, scale) = to_points::<4>(
        &groups(values),
        &groups(weights),
        &groups(&levels),
        &[steps(down); 4],
        split.scale.abs(),
    )?;
    Ok(Block { scale, points, down })
}

/// The groups of eight.
fn groups<T: Copy>(all: &[T; BLOCK]) -> [[T; 8]; 4] {
    std::array::from_fn(|group| std::array::from_fn(|i| all[group * 8 + i]))
}

fn pack(blocks: &[Block; ELEMENTS / BLOCK], out: &mut [u8; BYTES]) {
    out.fill(0);
    let most = blocks.iter().fold(0.0, |most, block| if block.scale > most { block.scale } else { most });
    let d = most / 15.0;
    out[..2].copy_from_slice(&half(d * 1.125).to_le_bytes());
    let (low, rest) = out[2..].split_at_mut(32);
    let outs = low.as_chunks_mut::<4>().0.iter_mut().zip(rest.as_chunks_mut::<2>().0);
    for (block, (low, rest)) in blocks.iter().zip(outs) {
        *low = block.points.map(|point| point.to_le_bytes()[0]);
        let mut word = block.points.iter().rev().fold(0, |word, point| word << 3 | point >> 8);
        if most != 0.0 {
            let scale = nearest_int(0.5 * (1.0 / d * block.scale - 1.0)).clamp(0, 7).to_le_bytes()[0];
            word |= u16::from(scale) << 12 | u16::from(block.down) << 15;
        }
        *rest = word.to_le_bytes();
    }
}
