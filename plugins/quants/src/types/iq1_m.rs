//! IQ1_M: 256 elements in 56 bytes, 1.75 bits each.
//!
//! ```text
//! offset  0   u8 points[32]   of each eight elements the low byte of the point, which stands for eight levels −1, 0 or 1
//!        32   u8 rest[16]     of each eight elements, the low bits first: bits 8, 9 and 10 of the point, and whether its
//!                             levels are moved down
//!        48   u16 scales[4]   of each 16 elements a scale s of three bits, from bit 0 of the first word to bit 11 of the
//!                             last; bits 12.. of the words: a half d, the low bits first
//!             element = d * (2 * s + 1) * (level + or - 1/8)
//! ```
//!
//! Source: `block_iq1_m`, `dequantize_row_iq1_m` and `quantize_row_iq1_m_impl` of ggml.

use super::{BlockType, Rows};
use crate::grids::ternary::{self, Block, DELTA, Sorted, Split, Splits, Ternary, steps, sums};
use crate::grids::{ELEMENTS, IQ1};
use crate::number::{from_f16, half, nearest_int};
use crate::simd::{Ints, Lanes, Level, Mask};
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 56;
/// Elements of a block.
const BLOCK: usize = 16;

/// The type.
pub static IQ1_M: BlockType = BlockType { dtype: DType::IQ1_M, needs_importance: false, decode, encode };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = IQ1.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let words: [u16; 4] =
            std::array::from_fn(|i| u16::from_le_bytes([block[48 + 2 * i], block[49 + 2 * i]]));
        let d = from_f16(words.iter().rev().fold(0, |d, word| d << 4 | word >> 12));
        for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let rest = block[32 + k / 2] >> (k % 2 * 4) & 15;
            let scale = words[k / 8] >> (k / 2 % 4 * 3) & 7;
            let scale = d * f32::from(2 * scale + 1);
            let delta = if rest & 8 == 0 { DELTA } else { -DELTA };
            let point = usize::from(u16::from_le_bytes([block[k], rest & 7]));
            for (out, level) in out.iter_mut().zip(points[point]) {
                *out = scale * (f32::from(level) - 1.0 + delta);
            }
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    ternary::encode::<Iq1M, BLOCK, 2>(rows, out)
}

/// How its blocks are made: every split of the ascending elements is tried with the levels of each group moved up or down.
struct Iq1M;

/// The differences of the squares of neighbouring levels.
const fn between(down: bool) -> [f32; 2] {
    let [low, middle, high] = steps(down);
    [low * low - middle * middle, middle * middle - high * high]
}

impl Ternary<BLOCK, 2> for Iq1M {
    const BYTES: usize = BYTES;
    const LEAST: f32 = 1e-7;

    fn split(values: &[f32; BLOCK], weights: &[f32; BLOCK], order: &[usize; BLOCK]) -> Option<Split<2>> {
        // Sums over the elements of each group among the first so many.
        let (mut products, mut sums) = ([[0.0; BLOCK + 1]; 2], [[0.0; BLOCK + 1]; 2]);
        for (n, i) in order.iter().enumerate() {
            for group in 0..2 {
                let here = i / 8 == group;
                let (product, sum) = (products[group][n], sums[group][n]);
                products[group][n + 1] = if here { product + weights[*i] * values[*i] } else { product };
                sums[group][n + 1] = if here { sum + weights[*i] } else { sum };
            }
        }
        let mut best = -f32::MAX;
        let mut found = None;
        for first in 0..=BLOCK {
            for second in first..=BLOCK {
                let product = |group: usize, down: bool| {
                    let [.., high] = steps(down);
                    products[group][BLOCK] * high - (products[group][first] + products[group][second])
                };
                let square = |group: usize, down: bool| {
                    let ([.., high], [lower, upper]) = (steps(down), between(down));
                    sums[group][BLOCK] * high * high
                        + sums[group][first] * lower
                        + sums[group][second] * upper
                };
                for down in [[false, false], [false, true], [true, false], [true, true]] {
                    let product = product(0, down[0]) + product(1, down[1]);
                    let square = square(0, down[0]) + square(1, down[1]);
                    if square > 0.0 && product * product > best * square {
                        let scale = product / square;
                        best = scale * product;
                        found = Some(Split { first, second, scale, down });
                    }
                }
            }
        }
        found
    }

    #[inline(always)]
    fn splits<V: Lanes>(lanes: V, sorted: &Sorted<V, BLOCK>) -> Splits<V, 2> {
        let zero = lanes.floats(0.0);
        let (mut products, mut sums) = ([[zero; BLOCK + 1]; 2], [[zero; BLOCK + 1]; 2]);
        for n in 0..BLOCK {
            let upper = sorted.order[n].more(lanes.ints(7));
            for group in 0..2 {
                let here = if group == 1 { upper } else { !upper };
                let (product, sum) = (products[group][n], sums[group][n]);
                products[group][n + 1] = here.pick(product + sorted.products[n], product);
                sums[group][n + 1] = here.pick(sum + sorted.weights[n], sum);
            }
        }
        // Loops, not `map`: its closures would not be compiled for the level's instructions. Of each group, up and down:
        // all products at the high level, all squares there, and what the elements before `first` and `second` add to these.
        let (mut highs, mut squares) = ([[zero; 2]; 2], [[zero; 2]; 2]);
        let mut befores = [[[(zero, zero); 2]; 2]; BLOCK + 1];
        for group in 0..2 {
            for down in 0..2 {
                let high = lanes.floats(steps(down == 1)[2]);
                let [lower, upper] = between(down == 1);
                highs[group][down] = products[group][BLOCK] * high;
                squares[group][down] = sums[group][BLOCK] * high * high;
                for (n, before) in befores.iter_mut().enumerate() {
                    let sum = sums[group][n];
                    before[group][down] = (sum * lanes.floats(lower), sum * lanes.floats(upper));
                }
            }
        }
        let mut best = Splits::none(lanes);
        for first in 0..=BLOCK {
            for second in first..=BLOCK {
                let (mut product, mut square) = ([[zero; 2]; 2], [[zero; 2]; 2]);
                for group in 0..2 {
                    let before = products[group][first] + products[group][second];
                    for down in 0..2 {
                        product[group][down] = highs[group][down] - before;
                        square[group][down] = squares[group][down]
                            + befores[first][group][down].0
                            + befores[second][group][down].1;
                    }
                }
                for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let bits = u8::from(a == 1) | u8::from(b == 1) << 1;
                    best.consider(
                        lanes,
                        product[0][a] + product[1][b],
                        square[0][a] + square[1][b],
                        Splits::<V, 2>::code(first, second, bits),
                    );
                }
            }
        }
        best
    }

    fn pack(blocks: &[Block<2>], values: &[f32; ELEMENTS], weights: &[f32; ELEMENTS], out: &mut [u8]) {
        out.fill(0);
        let most = blocks.iter().fold(0.0, |most, block| if block.scale > most { block.scale } else { most });
        for (k, block) in blocks.iter().enumerate() {
            for (group, point) in block.points.iter().enumerate() {
                let [low, high] = point.to_le_bytes();
                out[2 * k + group] = low;
                out[32 + k] |= high << (4 * group);
            }
        }
        if most == 0.0 {
            return;
        }
        let d = most / 15.0;
        let inverse = 1.0 / d;
        let mut words = [0u16; 4];
        // The scale that fits best once the blocks' scales are rounded.
        let mut fit = (0.0, 0.0);
        let pairs = values.as_chunks::<BLOCK>().0.iter().zip(weights.as_chunks::<BLOCK>().0);
        for (k, (block, (values, weights))) in blocks.iter().zip(pairs).enumerate() {
            let scale = nearest_int(0.5 * (inverse * block.scale - 1.0)).clamp(0, 7).to_le_bytes()[0];
            words[k / 4] |= u16::from(scale) << (k % 4 * 3);
            out[32 + k] |= u8::from(block.down[0]) << 3 | u8::from(block.down[1]) << 7;
            fit = sums(values, weights, block, f32::from(2 * scale + 1), fit);
        }
        let d = half(if fit.1 > 0.0 { fit.0 / fit.1 } else { d } * 1.1125);
        for (i, (out, word)) in out[48..].as_chunks_mut::<2>().0.iter_mut().zip(words).enumerate() {
            *out = (word | (d >> (4 * i) & 15) << 12).to_le_bytes();
        }
    }
}
