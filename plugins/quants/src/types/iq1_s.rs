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
use crate::grids::ternary::{self, Block, DELTA, Sorted, Split, Splits, Ternary, steps};
use crate::grids::{ELEMENTS, IQ1};
use crate::number::{from_f16, half, nearest_int};
use crate::simd::{Lanes, Level};
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 50;
/// Elements of a block.
const BLOCK: usize = 32;

/// The type.
pub static IQ1_S: BlockType = BlockType { dtype: DType::IQ1_S, needs_importance: true, decode, encode };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = IQ1.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
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

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    ternary::encode::<Iq1S, BLOCK, 4>(rows, out)
}

/// How its blocks are made: every split of the ascending elements is tried with all levels moved up, then down.
struct Iq1S;

impl Ternary<BLOCK, 4> for Iq1S {
    const BYTES: usize = BYTES;
    const LEAST: f32 = 1e-12;

    fn split(values: &[f32; BLOCK], weights: &[f32; BLOCK], order: &[usize; BLOCK]) -> Option<Split<4>> {
        let (mut products, mut sums) = ([0.0; BLOCK + 1], [0.0; BLOCK + 1]);
        for (n, i) in order.iter().enumerate() {
            products[n + 1] = products[n] + weights[*i] * values[*i];
            sums[n + 1] = sums[n] + weights[*i];
        }
        let mut best = -f32::MAX;
        let mut found = None;
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
                        found = Some(Split { first, second, scale, down: [down; 4] });
                    }
                }
            }
        }
        found
    }

    #[inline(always)]
    fn splits<V: Lanes>(lanes: V, sorted: &Sorted<V, BLOCK>) -> Splits<V, 4> {
        let zero = lanes.floats(0.0);
        let (mut products, mut sums) = ([zero; BLOCK + 1], [zero; BLOCK + 1]);
        for n in 0..BLOCK {
            products[n + 1] = products[n] + sorted.products[n];
            sums[n + 1] = sums[n] + sorted.weights[n];
        }
        // Loops, not `map`: its closures would not be compiled for the level's instructions.
        let mut levels = [[zero; 3]; 2];
        // What the elements from `second` on add, with the levels up and down.
        let mut highs = [[(zero, zero); BLOCK + 1]; 2];
        for (down, (levels, highs)) in levels.iter_mut().zip(&mut highs).enumerate() {
            for (level, step) in levels.iter_mut().zip(steps(down == 1)) {
                *level = lanes.floats(step);
            }
            let high = levels[2];
            for n in 0..=BLOCK {
                highs[n] = ((products[BLOCK] - products[n]) * high, (sums[BLOCK] - sums[n]) * high * high);
            }
        }
        let [up, down] = levels;
        let mut best = Splits::none(lanes);
        for first in 0..=BLOCK {
            let low_up = (products[first] * up[0], sums[first] * up[0] * up[0]);
            let low_down = (products[first] * down[0], sums[first] * down[0] * down[0]);
            for second in first..=BLOCK {
                let (product, sum) = (products[second] - products[first], sums[second] - sums[first]);
                // The middle level has the same magnitude up and down.
                let (product, square) = (product * up[1], sum * up[1] * up[1]);
                best.consider(
                    lanes,
                    low_up.0 + product + highs[0][second].0,
                    low_up.1 + square + highs[0][second].1,
                    Splits::<V, 4>::code(first, second, 0),
                );
                best.consider(
                    lanes,
                    low_down.0 - product + highs[1][second].0,
                    low_down.1 + square + highs[1][second].1,
                    Splits::<V, 4>::code(first, second, 15),
                );
            }
        }
        best
    }

    fn pack(blocks: &[Block<4>], _: &[f32; ELEMENTS], _: &[f32; ELEMENTS], out: &mut [u8]) {
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
                word |= u16::from(scale) << 12 | u16::from(block.down[0]) << 15;
            }
            *rest = word.to_le_bytes();
        }
    }
}
