//! A scale for codes around zero, by coordinate descent.

use super::{ROUNDER, greatest, spare};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// Values, their codes, and sums over them.
struct State<'a, V: Lanes, const N: usize, const G: usize> {
    values: &'a mut [[V::Floats; N]; G],
    codes: [[V::Floats; N]; G],
    sum_lx: [V::Floats; G],
    sum_l2: [V::Floats; G],
    /// Where all values count as zero.
    zero: [V::Mask; G],
    /// The ends of the codes.
    lowest: V::Floats,
    highest: V::Floats,
}

/// What a value with a code adds to the sums.
#[inline(always)]
fn products<F: Floats>(value: F, code: F) -> (F, F) {
    let weight = value * value;
    (weight * value * code, weight * code * code)
}

impl<'a, V: Lanes, const N: usize, const G: usize> State<'a, V, N, G> {
    /// With the codes that are nearest where the value of the greatest magnitude has the lowest.
    #[inline(always)]
    fn new(v: V, most: i32, values: &'a mut [[V::Floats; N]; G]) -> State<'a, V, N, G> {
        let nought = v.floats(0.0);
        let most = crate::search::float(most);
        let (lowest, highest) = (v.floats(-most), v.floats(most - 1.0));
        let (codes, sums, zero) = ([[nought; N]; G], [nought; G], [v.mask(false); G]);
        let mut state = State { values, codes, sum_lx: sums, sum_l2: sums, zero, lowest, highest };
        let mut inverse = [nought; G];
        for (g, inverse) in inverse.iter_mut().enumerate() {
            let mut max;
            (max, state.zero[g]) = greatest(v, &state.values[g]);
            spare(v, state.zero[g], &mut max, &mut state.values[g]);
            *inverse = lowest / max;
        }
        for l in 0..N {
            for (g, inverse) in inverse.iter().enumerate() {
                let value = state.values[g][l];
                // No place is beyond most + 1, but in lanes that count as zero: the short rounding is exact.
                let rounded = (*inverse * value + v.floats(ROUNDER)) - v.floats(ROUNDER);
                let code = rounded.min(highest).max(lowest);
                let (lx, l2) = products(value, code);
                state.codes[g][l] = code;
                state.sum_lx[g] = state.sum_lx[g] + lx;
                state.sum_l2[g] = state.sum_l2[g] + l2;
            }
        }
        state
    }

    /// The sums without an element.
    #[inline(always)]
    fn without(&self, g: usize, l: usize) -> (V::Floats, V::Floats) {
        let (lx, l2) = products(self.values[g][l], self.codes[g][l]);
        (self.sum_lx[g] - lx, self.sum_l2[g] - l2)
    }

    /// Where the code of an element may move, by the sums without it.
    #[inline(always)]
    fn may_move(&self, v: V, g: usize, l: usize, (lx, l2): (V::Floats, V::Floats)) -> V::Mask {
        // Where `value * l2 / lx`, held between the ends, is plainly nearest to the code, nothing moves. The margin is far wider
        // than the roundings of these products while they are no subnormals, which `lx` tells; a quotient that `nearest_int`
        // does not round is left to it.
        let (at, away) = (self.values[g][l] * l2, self.codes[g][l] * lx);
        let held = at.max(self.lowest * lx).min(self.highest * lx);
        let near = (held - away).abs().at_most(v.floats(0.499) * lx);
        let rounds = at.abs().less(v.floats(1e6) * lx);
        let stays = near & rounds & lx.more(v.floats(1e-30));
        lx.more(v.floats(0.0)) & !stays & !self.zero[g]
    }

    #[inline(always)]
    fn scale(&self, v: V, g: usize) -> V::Floats {
        let nought = v.floats(0.0);
        (!self.zero[g] & self.sum_l2[g].more(nought)).pick(self.sum_lx[g] / self.sum_l2[g], nought)
    }
}

/// The scales that `search::descent` finds where no code moves, and where one may.
#[inline(always)]
pub fn first_descent<V: Lanes, const N: usize, const G: usize>(
    v: V,
    most: i32,
    values: &mut [[V::Floats; N]; G],
) -> [(V::Floats, V::Mask); G] {
    let state = State::new(v, most, values);
    let mut found = [(v.floats(0.0), v.mask(false)); G];
    for l in 0..N {
        for (g, (_, moves)) in found.iter_mut().enumerate() {
            *moves = *moves | state.may_move(v, g, l, state.without(g, l));
        }
    }
    for (g, (scale, _)) in found.iter_mut().enumerate() {
        *scale = state.scale(v, g);
    }
    found
}

/// The scales that `search::descent` finds. A lane in which a sweep changed nothing changes nothing in the next either, so
/// that all may go on until none changes.
#[inline(always)]
pub fn descent<V: Lanes, const N: usize, const G: usize>(
    v: V,
    most: i32,
    values: &mut [[V::Floats; N]; G],
) -> [V::Floats; G] {
    let nought = v.floats(0.0);
    let mut state = State::new(v, most, values);
    for sweep in 0..5 {
        let mut changed = v.mask(false);
        for l in 0..N {
            for g in 0..G {
                let (lx, l2) = state.without(g, l);
                // At first some lane nearly always moves: asking would only take time.
                if sweep > 1 && !state.may_move(v, g, l, (lx, l2)).any() {
                    continue;
                }
                let (value, code) = (state.values[g][l], state.codes[g][l]);
                let moved = (value * l2 / lx).nearest_int().to_floats().min(state.highest).max(state.lowest);
                let may = lx.more(nought) & !state.zero[g] & !moved.equals(code);
                let (more_lx, more_l2) = products(value, moved);
                let (lx, l2) = (lx + more_lx, l2 + more_l2);
                let (sum_lx, sum_l2) = (state.sum_lx[g], state.sum_l2[g]);
                let better = may & l2.more(nought) & (lx * lx * sum_l2).more(sum_lx * sum_lx * l2);
                state.codes[g][l] = better.pick(moved, code);
                state.sum_lx[g] = better.pick(lx, sum_lx);
                state.sum_l2[g] = better.pick(l2, sum_l2);
                changed = changed | better;
            }
        }
        if !changed.any() {
            break;
        }
    }
    let mut scales = [nought; G];
    for (g, scale) in scales.iter_mut().enumerate() {
        *scale = state.scale(v, g);
    }
    scales
}
