//! A scale for codes around zero, by coordinate descent.

use super::{ROUNDER, greatest, spare};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// What was found.
#[derive(Clone, Copy)]
pub struct DescentLanes<V: Lanes, const N: usize> {
    /// The scale.
    pub scale: V::Floats,
    /// The codes, as many below zero as `most` says.
    pub codes: [V::Floats; N],
    /// Where all values count as zero: the codes are `-most`, and the scale is 0.
    pub zero: V::Mask,
}

/// As `search::descent`. A lane in which a sweep changed nothing changes nothing in the next either, so that all may go on
/// until none changes.
#[inline(always)]
pub fn descent<V: Lanes, const N: usize, const G: usize>(
    v: V,
    most: i32,
    mut values: [[V::Floats; N]; G],
) -> [DescentLanes<V, N>; G] {
    let nought = v.floats(0.0);
    let most = crate::search::float(most);
    let (lowest, highest) = (v.floats(-most), v.floats(most - 1.0));
    let (mut sum_lx, mut sum_l2) = ([nought; G], [nought; G]);
    let mut found = [DescentLanes::<V, N> { scale: nought, codes: [nought; N], zero: v.mask(false) }; G];
    let (mut own, mut weighted) = ([[nought; N]; G], [[nought; N]; G]);
    let mut inverse = [nought; G];
    for g in 0..G {
        let mut max;
        (max, found[g].zero) = greatest(v, &values[g]);
        spare(v, found[g].zero, &mut max, &mut values[g]);
        inverse[g] = lowest / max;
    }
    for l in 0..N {
        for g in 0..G {
            let value = values[g][l];
            own[g][l] = value * value;
            weighted[g][l] = own[g][l] * value;
            // No place is beyond most + 1, but in lanes that count as zero: the short rounding is exact.
            let rounded = (inverse[g] * value + v.floats(ROUNDER)) - v.floats(ROUNDER);
            let code = rounded.min(highest).max(lowest);
            found[g].codes[l] = code;
            sum_lx[g] = sum_lx[g] + weighted[g][l] * code;
            sum_l2[g] = sum_l2[g] + own[g][l] * code * code;
        }
    }
    for _ in 0..5 {
        let mut changed = v.mask(false);
        for l in 0..N {
            for g in 0..G {
                let (value, code) = (values[g][l], found[g].codes[l]);
                // The sums without this element.
                let lx = sum_lx[g] - weighted[g][l] * code;
                let l2 = sum_l2[g] - own[g][l] * code * code;
                // Where `value * l2 / lx` is plainly nearest to the code, or beyond the end at which the code is, nothing
                // moves, and no division is needed. The margin is far wider than the roundings of these products while
                // they are no subnormals, which `lx` tells; a quotient that `nearest_int` does not round is left to it.
                let (at, away) = (value * l2, code * lx);
                let off = at - away;
                let near = off.abs().at_most(v.floats(0.499) * lx);
                let beyond = code.equals(lowest) & off.less(nought) | code.equals(highest) & off.more(nought);
                let beyond = beyond & off.abs().less(v.floats(1e6) * lx);
                let stays = (near | beyond) & lx.more(v.floats(1e-30));
                let may = lx.more(nought) & !stays & !found[g].zero;
                if !may.any() {
                    continue;
                }
                let moved = (at / lx).nearest_int().to_floats().min(highest).max(lowest);
                let lx = lx + weighted[g][l] * moved;
                let l2 = l2 + own[g][l] * moved * moved;
                let better = may
                    & !moved.equals(code)
                    & l2.more(nought)
                    & (lx * lx * sum_l2[g]).more(sum_lx[g] * sum_lx[g] * l2);
                found[g].codes[l] = better.pick(moved, code);
                sum_lx[g] = better.pick(lx, sum_lx[g]);
                sum_l2[g] = better.pick(l2, sum_l2[g]);
                changed = changed | better;
            }
        }
        if !changed.any() {
            break;
        }
    }
    for g in 0..G {
        let scale = (!found[g].zero & sum_l2[g].more(nought)).pick(sum_lx[g] / sum_l2[g], nought);
        found[g].scale = scale;
        for l in 0..N {
            found[g].codes[l] = found[g].zero.pick(lowest, found[g].codes[l]);
        }
    }
    found
}
