//! A scale for codes around zero.

use super::{ROUNDER, greatest, spare};
use crate::simd::{Floats, Lanes, Mask};

/// What was found.
#[derive(Clone, Copy)]
pub struct SymmetricLanes<V: Lanes> {
    /// The scale.
    pub scale: V::Floats,
    /// The codes are those of `inverse * value`.
    pub inverse: V::Floats,
    /// Where all values count as zero: the codes are 0, and so is the scale.
    pub zero: V::Mask,
}

/// As `search::symmetric` with weights.
#[inline(always)]
pub fn symmetric<V: Lanes, const N: usize, const G: usize>(
    v: V,
    most: i32,
    mut values: [[V::Floats; N]; G],
    weights: &[[V::Floats; N]; G],
) -> [SymmetricLanes<V>; G] {
    let nought = v.floats(0.0);
    let most = crate::search::float(most);
    let (mut max, mut best) = ([nought; G], [nought; G]);
    let mut found = [SymmetricLanes::<V> { scale: nought, inverse: nought, zero: v.mask(false) }; G];
    let mut weighted = [[nought; N]; G];
    for g in 0..G {
        (max[g], found[g].zero) = greatest(v, &values[g]);
        spare(v, found[g].zero, &mut max[g], &mut values[g]);
        for l in 0..N {
            weighted[g][l] = weights[g][l] * values[g][l];
        }
        found[g].inverse = v.floats(-most) / max[g];
    }
    for step in -10i32..=9 {
        // The first try is that without a step.
        let is_first = step == -10;
        if step == 0 {
            continue;
        }
        let spread = if is_first { -most } else { -(most + 0.1 * crate::search::float(step)) };
        let mut inverse = [nought; G];
        let (mut sum_lx, mut sum_l2) = ([nought; G], [nought; G]);
        for g in 0..G {
            inverse[g] = v.floats(spread) / max[g];
        }
        for l in 0..N {
            for g in 0..G {
                // No place is beyond most + 1, but in lanes that count as zero: the short rounding is exact.
                let rounded = (inverse[g] * values[g][l] + v.floats(ROUNDER)) - v.floats(ROUNDER);
                let code = rounded.min(v.floats(most - 1.0)).max(v.floats(-most));
                sum_lx[g] = sum_lx[g] + weighted[g][l] * code;
                sum_l2[g] = sum_l2[g] + weights[g][l] * code * code;
            }
        }
        for g in 0..G {
            let (lx, l2) = (sum_lx[g], sum_l2[g]);
            let scale = lx / l2;
            let better = if is_first {
                // With a sum of 0 scale and best stay 0.
                !l2.equals(nought)
            } else {
                l2.more(nought) & (lx * lx).more(best[g] * l2)
            };
            let was = found[g];
            best[g] = better.pick(scale * lx, best[g]);
            found[g] = SymmetricLanes {
                scale: better.pick(scale, was.scale),
                inverse: better.pick(inverse[g], was.inverse),
                zero: was.zero,
            };
        }
    }
    for found in &mut found {
        found.scale = found.zero.pick(nought, found.scale);
    }
    found
}
