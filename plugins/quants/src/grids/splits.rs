//! Super-blocks of IQ1_S and IQ1_M, one in each lane.

use super::finder::{Finder, spread_out};
use super::ternary::{Block, Sorted, Splits, Ternary, settle};
use super::{ELEMENTS, IQ1, no_point};
use crate::simd::{Floats, Ints, Lanes, Mask, Task};
use crate::types::Rows;
use apr_sdk::Result;
use std::marker::PhantomData;

/// The most lanes of any level.
const MOST: usize = 16;

/// Rows to be encoded.
pub struct Encode<'a, T, const N: usize, const G: usize> {
    /// What.
    pub rows: &'a Rows<'a>,
    /// Where to.
    pub out: &'a mut [u8],
    /// How.
    pub of: PhantomData<T>,
}

impl<T: Ternary<N, G>, const N: usize, const G: usize> Task for Encode<'_, T, N, G> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) -> Result<()> {
        let of_row = self.rows.row_len / ELEMENTS;
        let (mut last, mut importance) = (vec![0.0; V::COUNT * ELEMENTS], vec![0.0; V::COUNT * ELEMENTS]);
        let finder = Finder::new::<8>(lanes, IQ1.near_codes());
        let nearest = |place: usize, values: &[f32; 8], weights: &[f32; 8], steps: &[f32; 3], scale: f32| {
            let terms =
                finder.terms(&finder.scaled_steps(scale, steps), &spread_out(values), &spread_out(weights));
            let code = finder.in_turn::<8>(IQ1.near_range(place), &terms);
            code.map(|code| IQ1.index(code)).ok_or_else(no_point)
        };
        let mut weights = [[0.0; ELEMENTS]; MOST];
        let inputs = self.rows.values.chunks(V::COUNT * ELEMENTS);
        for (n, (values, out)) in inputs.zip(self.out.chunks_mut(V::COUNT * T::BYTES)).enumerate() {
            let mut values = values;
            if values.len() < last.len() {
                last.fill(0.0);
                last[..values.len()].copy_from_slice(values);
                values = &last;
            }
            if let Some(all) = self.rows.importance {
                for (lane, to) in importance.as_chunks_mut::<ELEMENTS>().0.iter_mut().enumerate() {
                    let column = (n * V::COUNT + lane) % of_row * ELEMENTS;
                    to.copy_from_slice(&all[column..column + ELEMENTS]);
                }
            }
            let spread = spread(lanes, values);
            let mut blocks = [[Block::<G>::ZERO; 16]; MOST];
            let lanes_values = values.as_chunks::<ELEMENTS>().0;
            for (block, start) in (0..ELEMENTS).step_by(N).enumerate() {
                let importance = self.rows.importance.map(|_| &importance[start..]);
                let (sorted, live) = ascending::<V, N>(
                    lanes,
                    &values[start..],
                    importance,
                    spread,
                    T::LEAST,
                    &mut weights,
                    start,
                );
                if !live.any() {
                    continue;
                }
                let splits = T::splits(lanes, &sorted);
                let live = (live & splits.score.more(lanes.floats(-f32::MAX))).bits();
                let (mut scales, mut codes) = ([0.0; MOST], [0; MOST]);
                splits.scale.store(&mut scales);
                splits.code.store(&mut codes);
                let mut orders = [[0; MOST]; N];
                for (row, order) in orders.iter_mut().zip(sorted.order) {
                    order.store(row);
                }
                for lane in (0..V::COUNT).filter(|lane| live >> lane & 1 == 1) {
                    let order = std::array::from_fn(|n| usize::from(orders[n][lane].to_le_bytes()[0]));
                    let split = Splits::<V, G>::of(codes[lane], scales[lane]);
                    let values = &lanes_values[lane].as_chunks::<N>().0[block];
                    let weights = &weights[lane].as_chunks::<N>().0[block];
                    blocks[lane][block] = settle(values, weights, &order, &split, nearest)?;
                }
            }
            for (lane, out) in out.chunks_exact_mut(T::BYTES).enumerate() {
                T::pack(&blocks[lane][..ELEMENTS / N], &lanes_values[lane], &weights[lane], out);
            }
        }
        Ok(())
    }
}

/// Twice the mean square of each super-block.
#[inline(always)]
fn spread<V: Lanes>(lanes: V, values: &[f32]) -> V::Floats {
    let mut squares = lanes.floats(0.0);
    for column in (0..ELEMENTS).step_by(8) {
        let mut eight = [squares; 8];
        lanes.columns(&values[column..], ELEMENTS, &mut eight);
        for value in eight {
            squares = squares + value * value;
        }
    }
    lanes.floats(2.0) * squares / lanes.floats(256.0)
}

/// Sorts the elements of a block in each lane; notes their weights lane after lane. Lanes with a magnitude of at least
/// `least` are live.
#[inline(always)]
fn ascending<V: Lanes, const N: usize>(
    lanes: V,
    values: &[f32],
    importance: Option<&[f32]>,
    spread: V::Floats,
    least: f32,
    of_lane: &mut [[f32; ELEMENTS]; MOST],
    start: usize,
) -> (Sorted<V, N>, V::Mask) {
    let zero = lanes.floats(0.0);
    let mut keys = [zero; N];
    let (mut weights, mut products) = ([[0.0; MOST]; N], [[0.0; MOST]; N]);
    lanes.columns(values, ELEMENTS, &mut keys);
    let mut given = [zero; N];
    if let Some(importance) = importance {
        lanes.columns(importance, ELEMENTS, &mut given);
    }
    let mut max = zero;
    for i in 0..N {
        let value = keys[i];
        max = max.max(value.abs());
        let square = value * value;
        let weight = if importance.is_some() { given[i] * (spread + square).sqrt() } else { square };
        // Rows of as many as there are lanes, so that rows can be gathered from.
        weight.store(&mut weights[i]);
        (weight * value).store(&mut products[i]);
        for (lane, weight) in of_lane.iter_mut().zip(weights[i]) {
            lane[start + i] = weight;
        }
    }
    let mut order = [lanes.ints(0); N];
    for (i, order) in (0..).zip(&mut order) {
        *order = lanes.ints(i);
    }
    sort(&mut keys, &mut order);
    let row = lanes.ints(i32::from(MOST.to_le_bytes()[0]));
    let mut sorted = Sorted { order, weights: [zero; N], products: [zero; N] };
    for (n, order) in order.iter().enumerate() {
        let at = *order * row + lanes.numbers();
        sorted.weights[n] = lanes.gather(weights.as_flattened(), at);
        sorted.products[n] = lanes.gather(products.as_flattened(), at);
    }
    (sorted, !max.less(lanes.floats(least)))
}

/// Sorts each lane by key, and by number where keys are equal: Batcher's odd-even merge sort.
#[inline(always)]
fn sort<F: Floats<Ints = I, Mask = M>, I: Ints<Mask = M>, M: Mask<Floats = F, Ints = I>, const N: usize>(
    keys: &mut [F; N],
    numbers: &mut [I; N],
) {
    let mut run = 1;
    while run < N {
        let mut step = run;
        while step > 0 {
            for start in (step % run..N - step).step_by(2 * step) {
                for low in start..(start + step).min(N - step) {
                    let high = low + step;
                    if low / (2 * run) == high / (2 * run) {
                        let (a, b) = (keys[low], keys[high]);
                        let (i, j) = (numbers[low], numbers[high]);
                        let swap = a.more(b) | (a.equals(b) & i.more(j));
                        (keys[low], keys[high]) = (swap.pick(b, a), swap.pick(a, b));
                        (numbers[low], numbers[high]) = (swap.pick_ints(j, i), swap.pick_ints(i, j));
                    }
                }
            }
            step /= 2;
        }
        run *= 2;
    }
}

impl<V: Lanes, const G: usize> Splits<V, G> {
    /// No split yet.
    #[inline(always)]
    pub fn none(lanes: V) -> Self {
        Splits { scale: lanes.floats(0.0), score: lanes.floats(-f32::MAX), code: lanes.ints(0) }
    }

    /// Takes a split in the lanes in which it is better than the one before.
    #[inline(always)]
    pub fn consider(&mut self, lanes: V, product: V::Floats, square: V::Floats, code: i32) {
        let better = square.more(lanes.floats(0.0)) & (product * product).more(self.score * square);
        if better.any() {
            let scale = product / square;
            self.scale = better.pick(scale, self.scale);
            self.score = better.pick(scale * product, self.score);
            self.code = better.pick_ints(lanes.ints(code), self.code);
        }
    }
}
