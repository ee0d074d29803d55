//! The same in vectors: one block a lane while scales are searched, then the elements of a block side by side. No closures
//! here: they would not be compiled for the level's instructions.

use super::{NOTHING, TRIES, VALUES};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// The most lanes that a level has.
pub const MOST_LANES: usize = 16;

/// Where the nearest value changes. A code is how many of these are not above an element: the distances to two neighbours are
/// exact wherever they are nearly equal, so that comparing them is comparing with the middle.
const MIDDLES: [f32; 15] = {
    let mut middles = [0.0; 15];
    let mut at = 0;
    while at < 15 {
        middles[at] = f32::midpoint(VALUES[at], VALUES[at + 1]);
        at += 1;
    }
    middles
};

/// Thresholds of the last steps of the search for a code, by the code found so far.
const fn thresholds(beyond: usize) -> [f32; 16] {
    let mut table = [0.0; 16];
    let mut code = 0;
    while code + beyond < 15 {
        table[code] = MIDDLES[code + beyond];
        code += 1;
    }
    table
}

/// Searches codes and scales.
#[derive(Clone, Copy)]
pub struct Search<V: Lanes> {
    lanes: V,
    values: V::Table,
    of_two: V::Table,
    of_one: V::Table,
}

impl<V: Lanes> Search<V> {
    /// One for a level.
    #[inline(always)]
    pub fn new(lanes: V) -> Search<V> {
        let [values, of_two, of_one] =
            [VALUES, thresholds(1), thresholds(0)].map(|table| lanes.table(&table));
        Search { lanes, values, of_two, of_one }
    }

    /// The codes of the nearest values.
    #[inline(always)]
    fn nearest(&self, element: V::Floats) -> V::Ints {
        let lanes = self.lanes;
        let below = element.less(lanes.floats(MIDDLES[7]));
        let code = below.pick_ints(lanes.ints(0), lanes.ints(8));
        let below = element.less(below.pick(lanes.floats(MIDDLES[3]), lanes.floats(MIDDLES[11])));
        let code = below.pick_ints(code, code | lanes.ints(4));
        let below = element.less(lanes.look_up(self.of_two, code));
        let code = below.pick_ints(code, code | lanes.ints(2));
        let below = element.less(lanes.look_up(self.of_one, code));
        below.pick_ints(code, code | lanes.ints(1))
    }

    /// `super::sums` of each lane.
    #[inline(always)]
    fn sums(
        &self,
        values: &[V::Floats; 32],
        weights: &[V::Floats; 32],
        inverse: V::Floats,
    ) -> (V::Floats, V::Floats) {
        let (mut of_both, mut of_codes) = (self.lanes.floats(0.0), self.lanes.floats(0.0));
        for (value, weight) in values.iter().zip(weights) {
            let code = self.lanes.look_up(self.values, self.nearest(inverse * *value));
            let weighted = *weight * code;
            (of_both, of_codes) = (of_both + weighted * *value, of_codes + weighted * code);
        }
        (of_both, of_codes)
    }

    /// `super::scale` of each lane.
    #[inline(always)]
    fn scale(&self, values: &[V::Floats; 32], weights: &[V::Floats; 32]) -> V::Floats {
        let (zero, first) = (self.lanes.floats(0.0), self.lanes.floats(VALUES[0]));
        let (mut widest, mut most) = (zero, zero);
        for value in values {
            let wider = value.abs().more(most);
            (widest, most) = (wider.pick(*value, widest), wider.pick(value.abs(), most));
        }
        let inverse = self.lanes.floats(1.0) / ((zero - widest) / first);
        let (of_both, of_codes) = self.sums(values, weights, inverse);
        let mut found = of_codes.more(zero).pick(of_both / of_codes, zero);
        let mut best = found * of_both;
        for shift in -TRIES..=TRIES {
            let inverse = self.lanes.floats(f32::from(shift) + VALUES[0]) / widest;
            let (of_both, of_codes) = self.sums(values, weights, inverse);
            let better = of_codes.more(zero) & (of_both * of_both).more(best * of_codes);
            found = better.pick(of_both / of_codes, found);
            best = better.pick(found * of_both, best);
        }
        most.less(self.lanes.floats(NOTHING)).pick(zero, found)
    }

    /// The scales of up to as many blocks as there are lanes. `importance` and `variance` give those of a block by its number.
    #[inline(always)]
    pub fn scales<'a>(
        &self,
        blocks: &[[f32; 32]],
        importance: Option<impl Fn(usize) -> &'a [f32; 32]>,
        variance: impl Fn(usize) -> Option<f32>,
    ) -> [f32; MOST_LANES] {
        let mut padded = [[0.0; 32]; MOST_LANES];
        let whole = blocks.len() == V::COUNT;
        if !whole {
            padded[..blocks.len()].copy_from_slice(blocks);
        }
        let values = self.columns(if whole { blocks } else { &padded });
        let mut weights = values;
        for weight in &mut weights {
            *weight = *weight * *weight;
        }
        if let Some(importance) = importance {
            let mut variances = [0.0; MOST_LANES];
            for (at, of_block) in variances.iter_mut().enumerate().take(blocks.len()) {
                padded[at] = *importance(at);
                *of_block = variance(at).unwrap_or_default();
            }
            let mut of_blocks = self.lanes.load(&variances);
            if variance(0).is_none() {
                let mut sum = self.lanes.floats(0.0);
                for square in &weights {
                    sum = sum + *square;
                }
                of_blocks = sum * self.lanes.floats(2.0 / 32.0);
            }
            for (weight, importance) in weights.iter_mut().zip(self.columns(&padded)) {
                *weight = importance * (of_blocks + *weight).sqrt();
            }
        }
        let mut scales = [0.0; MOST_LANES];
        self.scale(&values, &weights).store(&mut scales);
        scales
    }

    /// The codes of a block whose elements are multiplied with the inverse of a scale.
    #[inline(always)]
    pub fn codes(&self, values: &[f32; 32], inverse: f32) -> [u8; 32] {
        let mut codes = [0; 32];
        let inverse = self.lanes.floats(inverse);
        for (values, codes) in values.chunks_exact(V::COUNT).zip(codes.chunks_exact_mut(V::COUNT)) {
            self.nearest(inverse * self.lanes.load(values)).store_bytes(codes);
        }
        codes
    }

    /// Element `n` of every block, a block a lane.
    #[inline(always)]
    fn columns(&self, blocks: &[[f32; 32]]) -> [V::Floats; 32] {
        let mut columns = [self.lanes.floats(0.0); 32];
        self.lanes.columns(blocks.as_flattened(), 32, &mut columns);
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_decides_as_two_distances_do() {
        let by_middles = |value: f32| MIDDLES.iter().filter(|middle| value < **middle).count();
        let check =
            |value: f32| assert_eq!(super::super::nearest(value), 15 - by_middles(value), "{value:e}");
        for special in VALUES.iter().chain(&MIDDLES) {
            let bits = special.to_bits();
            (bits - 70_000..bits + 70_000).for_each(|bits| check(f32::from_bits(bits)));
        }
        (0..=u32::MAX).step_by(4001).for_each(|bits| check(f32::from_bits(bits)));
        [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN].into_iter().for_each(check);
    }
}
