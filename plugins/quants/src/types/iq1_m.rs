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
use crate::grids::ternary::{DELTA, Split, ascending, spread, steps, sums, to_points, weights};
use crate::grids::{ELEMENTS, IQ1};
use crate::number::{from_half, half, nearest_int};
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 56;
/// Elements of a block.
const BLOCK: usize = 16;

/// The type.
pub static IQ1_M: BlockType = BlockType { dtype: DType::IQ1_M, needs_importance: false, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    let points = IQ1.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let words: [u16; 4] =
            std::array::from_fn(|i| u16::from_le_bytes([block[48 + 2 * i], block[49 + 2 * i]]));
        let d = from_half(words.iter().rev().fold(0, |d, word| d << 4 | word >> 12));
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

/// A block: its scale, points, and whether the levels of each group are moved down.
#[derive(Clone, Copy, Default)]
struct Block {
    scale: f32,
    points: [u16; 2],
    down: [bool; 2],
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let super_blocks = rows.values.as_chunks::<ELEMENTS>().0;
    for (n, (values, out)) in super_blocks.iter().zip(out.as_chunks_mut::<BYTES>().0).enumerate() {
        let column = n % (rows.row_len / ELEMENTS) * ELEMENTS;
        let importance = rows.importance.map(|all| &all[column..column + ELEMENTS]);
        let spread = spread(values);
        let mut blocks = [Block::default(); ELEMENTS / BLOCK];
        let mut all_weights = [[0.0; BLOCK]; ELEMENTS / BLOCK];
        for (k, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
            let importance = importance.map(|all| &all[k * BLOCK..(k + 1) * BLOCK]);
            all_weights[k] = weights(values, importance, spread);
            blocks[k] = search(values, &all_weights[k])?;
        }
        pack(&blocks, values, &all_weights, out);
    }
    Ok(())
}

/// Tries every split of the ascending elements into three runs, with the levels of each group moved up and down.
fn search(values: &[f32; BLOCK], weights: &[f32; BLOCK]) -> Result<Block> {
    let max = values.iter().fold(0.0f32, |max, value| if max > value.abs() { max } else { value.abs() });
    if max < 1e-7 {
        return Ok(Block::default());
    }
    let order = ascending(values);
    // Sums over the elements of each group among the first so many.
    let (mut products, mut sums) = ([[0.0; BLOCK + 1]; 2], [[0.0; BLOCK + 1]; 2]);
    for (n, i) in order.into_iter().enumerate() {
        for group in 0..2 {
            let here = i / 8 == group;
            products[group][n + 1] =
                if here { products[group][n] + weights[i] * values[i] } else { products[group][n] };
            sums[group][n + 1] = if here { sums[group][n] + weights[i] } else { sums[group][n] };
        }
    }
    let mut best = -f32::MAX;
    let mut found: Option<(Split, [bool; 2])> = None;
    for first in 0..=BLOCK {
        for second in first..=BLOCK {
            let product = |group: usize, down: bool| {
                let [.., high] = steps(down);
                products[group][BLOCK] * high - (products[group][first] + products[group][second])
            };
            let square = |group: usize, down: bool| {
                let [low, middle, high] = steps(down);
                sums[group][BLOCK] * high * high
                    + sums[group][first] * (low * low - middle * middle)
                    + sums[group][second] * (middle * middle - high * high)
            };
            for down in [[false, false], [false, true], [true, false], [true, true]] {
                let product = product(0, down[0]) + product(1, down[1]);
                let square = square(0, down[0]) + square(1, down[1]);
                if square > 0.0 && product * product > best * square {
                    let scale = product / square;
                    best = scale * product;
                    found = Some((Split { first, second, scale }, down));
                }
            }
        }
    }
    let Some((split, down)) = found else { return Ok(Block::default()) };
    let down = down.map(|down| down != (split.scale < 0.0));
    let levels = split.levels(&order);
    let (points, scale) = to_points::<2>(
        &groups(values),
        &groups(weights),
        &groups(&levels),
        &down.map(steps),
        split.scale.abs(),
    )?;
    Ok(Block { scale, points, down })
}

/// The groups of eight.
fn groups<T: Copy>(all: &[T; BLOCK]) -> [[T; 8]; 2] {
    std::array::from_fn(|group| std::array::from_fn(|i| all[group * 8 + i]))
}

fn pack(
    blocks: &[Block; ELEMENTS / BLOCK],
    values: &[f32; ELEMENTS],
    weights: &[[f32; BLOCK]; ELEMENTS / BLOCK],
    out: &mut [u8; BYTES],
) {
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
    for (k, block) in blocks.iter().enumerate() {
        let scale = nearest_int(0.5 * (inverse * block.scale - 1.0)).clamp(0, 7).to_le_bytes()[0];
        words[k / 4] |= u16::from(scale) << (k % 4 * 3);
        out[32 + k] |= u8::from(block.down[0]) << 3 | u8::from(block.down[1]) << 7;
        let steps = block.down.map(steps);
        let value_of = |group: usize, level: u8| steps[group][usize::from(level)] * f32::from(2 * scale + 1);
        let values = &values.as_chunks::<BLOCK>().0[k];
        fit = sums::<2>(&groups(values), &groups(&weights[k]), &block.points, value_of, fit);
    }
    let d = if fit.1 > 0.0 { fit.0 / fit.1 } else { d };
    let d = half(d * 1.1125);
    for (i, (out, word)) in out[48..].as_chunks_mut::<2>().0.iter_mut().zip(words).enumerate() {
        *out = (word | (d >> (4 * i) & 15) << 12).to_le_bytes();
    }
}
