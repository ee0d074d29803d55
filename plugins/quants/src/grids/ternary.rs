//! What IQ1_S and IQ1_M share: three levels −1, 0 and 1, all moved by an eighth up or down. A block's elements are sorted
//! and split into three runs; every split is tried, and the levels are then put on points of the codebook.

use super::splits::Encode;
use super::{ELEMENTS, IQ1, no_point};
use crate::simd::{Lanes, run};
use crate::types::Rows;
use apr_sdk::Result;
use std::marker::PhantomData;

/// By how much the levels are moved.
pub const DELTA: f32 = 0.125;

/// The values of the three levels, moved up or down.
pub const fn steps(down: bool) -> [f32; 3] {
    if down { [-1.0 - DELTA, -DELTA, 1.0 - DELTA] } else { [-1.0 + DELTA, DELTA, 1.0 + DELTA] }
}

/// A type of blocks of `N` elements in `G` groups of eight.
pub trait Ternary<const N: usize, const G: usize> {
    /// Bytes of a super-block.
    const BYTES: usize;
    /// Blocks whose greatest magnitude is lower than this are zero.
    const LEAST: f32;

    /// The best split of elements, of their weights and their ascending order.
    fn split(values: &[f32; N], weights: &[f32; N], order: &[usize; N]) -> Option<Split<G>>;

    /// The same in lanes.
    fn splits<V: Lanes>(lanes: V, sorted: &Sorted<V, N>) -> Splits<V, G>;

    /// Writes a super-block.
    fn pack(blocks: &[Block<G>], values: &[f32; ELEMENTS], weights: &[f32; ELEMENTS], out: &mut [u8]);
}

/// A block's split of the ascending elements: those before `first` have level 0, those from `second` on level 2.
#[derive(Clone, Copy)]
pub struct Split<const G: usize> {
    /// See above.
    pub first: usize,
    /// See above.
    pub second: usize,
    /// The scale that fits best; may be negative.
    pub scale: f32,
    /// Whether the levels of each group are moved down.
    pub down: [bool; G],
}

/// Ascending elements in each lane.
pub struct Sorted<V: Lanes, const N: usize> {
    /// Which they are.
    pub order: [V::Ints; N],
    /// Their weights.
    pub weights: [V::Floats; N],
    /// Their values times their weights.
    pub products: [V::Floats; N],
}

/// A split in each lane.
pub struct Splits<V: Lanes, const G: usize> {
    /// The scale that fits best; may be negative.
    pub scale: V::Floats,
    /// The score to be exceeded: the lowest number where there is no split.
    pub score: V::Floats,
    /// As [`Splits::code`] makes it.
    pub code: V::Ints,
}

impl<V: Lanes, const G: usize> Splits<V, G> {
    /// A split as a number: `first` and `second` in a byte each, then a bit for each group.
    #[inline(always)]
    pub fn code(first: usize, second: usize, down: u8) -> i32 {
        i32::from_le_bytes([first.to_le_bytes()[0], second.to_le_bytes()[0], down, 0])
    }

    /// The split in one lane.
    #[inline(always)]
    pub fn of(code: i32, scale: f32) -> Split<G> {
        let [first, second, down, _] = code.to_le_bytes();
        let down = std::array::from_fn(|group| down >> group & 1 == 1);
        Split { first: usize::from(first), second: usize::from(second), scale, down }
    }
}

/// A block: its scale, its points, and whether the levels of each group are moved down.
#[derive(Clone, Copy)]
pub struct Block<const G: usize> {
    /// See above.
    pub scale: f32,
    /// See above.
    pub points: [u16; G],
    /// See above.
    pub down: [bool; G],
}

impl<const G: usize> Block<G> {
    /// A block of zeros.
    pub const ZERO: Block<G> = Block { scale: 0.0, points: [0; G], down: [false; G] };
}

/// Encodes rows.
///
/// # Errors
/// Where ggml ends the process.
pub fn encode<T: Ternary<N, G>, const N: usize, const G: usize>(
    rows: &Rows<'_>,
    out: &mut [u8],
) -> Result<()> {
    if let Some(result) = run(rows.level, Encode::<T, N, G> { rows, out: &mut *out, of: PhantomData }) {
        return result;
    }
    let super_blocks = rows.values.as_chunks::<ELEMENTS>().0;
    for (n, (values, out)) in super_blocks.iter().zip(out.chunks_exact_mut(T::BYTES)).enumerate() {
        let column = n % (rows.row_len / ELEMENTS) * ELEMENTS;
        let importance = rows.importance.map(|all| &all[column..column + ELEMENTS]);
        let spread = 2.0 * values.iter().fold(0.0, |sum, value| sum + value * value) / 256.0;
        let weights = std::array::from_fn(|i| match importance {
            Some(importance) => importance[i] * (spread + values[i] * values[i]).sqrt(),
            None => values[i] * values[i],
        });
        let mut blocks = [Block::ZERO; 16];
        let pairs = values.as_chunks::<N>().0.iter().zip(weights.as_chunks::<N>().0);
        for (block, (values, weights)) in blocks.iter_mut().zip(pairs) {
            let max =
                values.iter().fold(0.0f32, |max, value| if max > value.abs() { max } else { value.abs() });
            let order = ascending(values);
            let split = if max < T::LEAST { None } else { T::split(values, weights, &order) };
            if let Some(split) = split {
                *block = settle(values, weights, &order, &split, nearest)?;
            }
        }
        T::pack(&blocks[..ELEMENTS / N], values, &weights, out);
    }
    Ok(())
}

/// The places of elements in ascending order, equal ones in the order in which they lie.
fn ascending<const N: usize>(values: &[f32; N]) -> [usize; N] {
    let mut order = std::array::from_fn(|i| i);
    for i in 1..N {
        let mut at = i;
        while at > 0 && values[i] < values[order[at - 1]] {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = i;
    }
    order
}

/// Puts a split's levels on points of the codebook; `nearest` finds the one for a place that is none.
///
/// # Errors
/// Where ggml ends the process.
#[inline(always)]
pub fn settle<const N: usize, const G: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    order: &[usize; N],
    split: &Split<G>,
    nearest: impl Fn(usize, &[f32; 8], &[f32; 8], &[f32; 3], f32) -> Result<u16>,
) -> Result<Block<G>> {
    let negative = split.scale < 0.0;
    let mut levels = [0; N];
    for (n, i) in order.iter().enumerate() {
        let level = u8::from(n >= split.first) + u8::from(n >= split.second);
        levels[*i] = if negative { 2 - level } else { level };
    }
    let mut block =
        Block { scale: split.scale.abs(), points: [0; G], down: split.down.map(|down| down != negative) };
    let eights = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
    let mut all_on = true;
    for (group, (levels, (values, weights))) in levels.as_chunks::<8>().0.iter().zip(eights).enumerate() {
        let place = IQ1.place(levels);
        let near = IQ1.near(place)[0];
        let on = IQ1.point(near) == levels;
        all_on &= on;
        block.points[group] =
            if on { near } else { nearest(place, values, weights, &steps(block.down[group]), block.scale)? };
    }
    if !all_on {
        let (products, squares) = sums(values, weights, &block, 1.0, (0.0, 0.0));
        if products > 0.0 && squares > 0.0 {
            block.scale = products / squares;
        }
    }
    if block.scale >= 0.0 { Ok(block) } else { Err(no_point()) }
}

/// Adds to the weighted sums of values times what levels stand for, and of the squares of these.
#[inline(always)]
pub fn sums<const N: usize, const G: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    block: &Block<G>,
    factor: f32,
    (mut products, mut squares): (f32, f32),
) -> (f32, f32) {
    let eights = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
    for ((point, down), (values, weights)) in block.points.iter().zip(block.down).zip(eights) {
        let steps = steps(down);
        for ((level, value), weight) in IQ1.point(*point).iter().zip(values).zip(weights) {
            let q = steps[usize::from(*level)] * factor;
            products += weight * q * value;
            squares += weight * q * q;
        }
    }
    (products, squares)
}

/// The nearest of the points near a place to eight values.
fn nearest(place: usize, values: &[f32; 8], weights: &[f32; 8], steps: &[f32; 3], scale: f32) -> Result<u16> {
    let mut best = (f32::MAX, None);
    for index in IQ1.near(place) {
        let mut distance = 0.0;
        for ((level, value), weight) in IQ1.point(*index).iter().zip(values).zip(weights) {
            let difference = scale * steps[usize::from(*level)] - value;
            distance += weight * difference * difference;
        }
        if distance < best.0 {
            best = (distance, Some(*index));
        }
    }
    best.1.ok_or_else(no_point)
}
