//! A scale for codes from 0 without a minimum.

use crate::search::{ZERO_BELOW, float};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// What was found.
#[derive(Clone, Copy)]
pub struct PositiveLanes<V: Lanes, const N: usize> {
    /// The scale.
    pub scale: V::Floats,
    /// The codes: bytes.
    pub codes: [V::Ints; N],
}

/// As `search::positive`; all groups of a lane have the same weights.
#[inline(always)]
pub fn positive<V: Lanes, const N: usize, const G: usize>(
    v: V,
    most: i32,
    values: &[[V::Floats; N]; G],
    weights: &[V::Floats; N],
) -> [PositiveLanes<V, N>; G] {
    let nought = v.floats(0.0);
    let (one, byte) = (v.floats(1.0), v.ints(0xff));
    let mut found = [PositiveLanes::<V, N> { scale: nought, codes: [v.ints(0); N] }; G];
    for g in 0..G {
        let values = &values[g];
        let mut max = nought;
        for value in values {
            max = max.max(*value);
        }
        let zero = max.less(v.floats(ZERO_BELOW));
        let mut inverse = v.floats(float(most)) / max;
        let mut best_error = nought;
        let scale = one / inverse;
        for l in 0..N {
            let code = ((inverse * values[l]).nearest_int() & byte).to_floats();
            let off = values[l] - scale * code;
            best_error = best_error + weights[l] * off * off;
        }
        for step in -4i32..=4 {
            if step == 0 {
                continue;
            }
            let this_inverse = v.floats(0.1 * float(step) + float(most)) / max;
            let scale = one / this_inverse;
            let mut error = nought;
            for l in 0..N {
                let code = (this_inverse * values[l]).nearest_int().min(v.ints(most)).to_floats();
                let off = values[l] - scale * code;
                error = error + weights[l] * off * off;
            }
            let better = error.less(best_error);
            best_error = better.pick(error, best_error);
            inverse = better.pick(this_inverse, inverse);
        }
        let codes = &mut found[g].codes;
        let (mut sum_lx, mut sum_l2) = (nought, nought);
        for l in 0..N {
            let code = (inverse * values[l]).nearest_int().min(v.ints(most));
            codes[l] = code & byte;
            let code = code.to_floats();
            sum_lx = sum_lx + weights[l] * values[l] * code;
            sum_l2 = sum_l2 + weights[l] * code * code;
        }
        for _ in 0..5 {
            let mut changed = v.mask(false);
            for l in 0..N {
                let (value, w, code) = (values[l], weights[l], codes[l].to_floats());
                // The sums without this element.
                let lx = sum_lx - w * value * code;
                let l2 = sum_l2 - w * code * code;
                let moved = (value * l2 / lx).nearest_int().min(v.ints(most));
                let counts = lx.more(nought) & l2.more(nought) & !moved.equals(codes[l]) & !zero;
                let (number, moved) = (moved.to_floats(), moved & byte);
                let lx = lx + w * value * number;
                let l2 = l2 + w * number * number;
                let better = counts & (lx * lx * sum_l2).more(sum_lx * sum_lx * l2);
                codes[l] = better.pick_ints(moved, codes[l]);
                sum_lx = better.pick(lx, sum_lx);
                sum_l2 = better.pick(l2, sum_l2);
                changed = changed | better;
            }
            if !changed.any() {
                break;
            }
        }
        for code in &mut *codes {
            *code = zero.pick_ints(v.ints(0), *code);
        }
        found[g].scale = (!zero & sum_l2.more(nought)).pick(sum_lx / sum_l2, nought);
    }
    found
}
