//! A scale and a minimum for codes from 0.

use super::{ROUNDER, negated};
use crate::search::{Error, Steps};
use crate::simd::{Floats, Ints, Lanes, Mask};

/// What was found.
#[derive(Clone, Copy)]
pub struct AffineLanes<V: Lanes> {
    /// The scale.
    pub scale: V::Floats,
    /// What is taken away.
    pub offset: V::Floats,
    /// The codes are those of `inverse * (value - from)`.
    pub inverse: V::Floats,
    /// See `inverse`.
    pub from: V::Floats,
    /// Where they are those of the first try, whose codes are not guarded.
    pub first: V::Mask,
    /// The sum of the weights.
    pub sum_w: V::Floats,
}

/// The sums of a try.
#[derive(Clone, Copy)]
struct Sums<F> {
    l: F,
    l2: F,
    xl: F,
}

/// As `search::affine`, or as `search::weighted` if guarded.
#[inline(always)]
pub fn affine<V: Lanes, const N: usize, const G: usize>(
    v: V,
    steps: &Steps,
    error: Error,
    guarded: bool,
    values: &[[V::Floats; N]; G],
    weights: &[[V::Floats; N]; G],
) -> [AffineLanes<V>; G] {
    let zero = v.floats(0.0);
    let most = v.floats(crate::search::float(steps.most));
    let mut codes = [[zero; N]; G];
    let mut greatest = [zero; G];
    let mut flat = [v.mask(false); G];
    let mut sum_x = [zero; G];
    let mut best_error = [zero; G];
    let mut found = [AffineLanes::<V> {
        scale: zero,
        offset: zero,
        inverse: zero,
        from: zero,
        first: v.mask(true),
        sum_w: zero,
    }; G];
    // Until the end, `offset` holds the minimum.
    for g in 0..G {
        let (mut min, mut max, mut sum_w) = (values[g][0], values[g][0], weights[g][0]);
        sum_x[g] = sum_w * values[g][0];
        for l in 1..N {
            let (value, w) = (values[g][l], weights[g][l]);
            min = value.min(min);
            max = value.max(max);
            sum_w = sum_w + w;
            sum_x[g] = sum_x[g] + w * value;
        }
        min = min.more(zero).pick(zero, min);
        flat[g] = if guarded { max.at_most(min) } else { max.equals(min) };
        greatest[g] = max;
        let inverse = most / (max - min);
        let scale = v.floats(1.0) / inverse;
        for l in 0..N {
            codes[g][l] = plain(v, steps.most, inverse * (values[g][l] - min));
        }
        found[g] = AffineLanes { scale, offset: min, inverse, from: min, sum_w, ..found[g] };
    }
    let (mut scales, mut mins) = ([zero; G], [zero; G]);
    for g in 0..G {
        (scales[g], mins[g]) = (found[g].scale, found[g].offset);
    }
    errors::<V, N, G>(v, error, values, weights, &codes, (&scales, &mins), &mut best_error);

    for number in 0..=steps.count {
        let spread = v.floats(steps.spread(number));
        let mut inverse = [zero; G];
        let mut from = [zero; G];
        let mut sums = [Sums { l: zero, l2: zero, xl: zero }; G];
        for g in 0..G {
            // From the best minimum so far.
            from[g] = found[g].offset;
            inverse[g] = spread / (greatest[g] - from[g]);
        }
        for l in 0..N {
            for g in 0..G {
                let (value, w) = (values[g][l], weights[g][l]);
                let place = inverse[g] * (value - from[g]);
                let code = if guarded {
                    // 0 also for what is no number, which is the lesser operand here.
                    let held = most.min(place).max(zero);
                    (held + v.floats(ROUNDER)) - v.floats(ROUNDER)
                } else {
                    plain(v, steps.most, place)
                };
                codes[g][l] = code;
                let wl = w * code;
                sums[g].l = sums[g].l + wl;
                sums[g].l2 = sums[g].l2 + wl * code;
                sums[g].xl = sums[g].xl + wl * value;
            }
        }
        let mut solvable = [v.mask(false); G];
        for g in 0..G {
            let (Sums { l, l2, xl }, sum_w) = (sums[g], found[g].sum_w);
            let d = sum_w * l2 - l * l;
            let scale = (sum_w * xl - sum_x[g] * l) / d;
            let min = (l2 * sum_x[g] - l * xl) / d;
            let above = min.more(zero);
            solvable[g] = d.more(zero);
            scales[g] = above.pick(xl / l2, scale);
            mins[g] = above.pick(zero, min);
        }
        let mut this_error = [zero; G];
        errors::<V, N, G>(v, error, values, weights, &codes, (&scales, &mins), &mut this_error);
        for g in 0..G {
            let better = solvable[g] & this_error[g].less(best_error[g]);
            let was = found[g];
            best_error[g] = better.pick(this_error[g], best_error[g]);
            found[g] = AffineLanes {
                scale: better.pick(scales[g], was.scale),
                offset: better.pick(mins[g], was.offset),
                inverse: better.pick(inverse[g], was.inverse),
                from: better.pick(from[g], was.from),
                first: was.first & !better,
                sum_w: was.sum_w,
            };
        }
    }
    for g in 0..G {
        let was = found[g];
        // A flat lane has the minimum from before the search, and codes of 0.
        let mut min = values[g][0];
        for value in &values[g] {
            min = value.min(min);
        }
        min = min.more(zero).pick(zero, min);
        found[g] = AffineLanes {
            scale: flat[g].pick(zero, was.scale),
            offset: negated(v, flat[g].pick(min, was.offset)),
            inverse: flat[g].pick(zero, was.inverse),
            from: flat[g].pick(zero, was.from),
            first: was.first | flat[g],
            sum_w: was.sum_w,
        };
    }
    found
}

/// The code of a place in the range.
#[inline(always)]
fn plain<V: Lanes>(v: V, most: i32, place: V::Floats) -> V::Floats {
    place.nearest_int().min(v.ints(most)).max(v.ints(0)).to_floats()
}

/// The weighted errors of codes.
#[inline(always)]
fn errors<V: Lanes, const N: usize, const G: usize>(
    v: V,
    error: Error,
    values: &[[V::Floats; N]; G],
    weights: &[[V::Floats; N]; G],
    codes: &[[V::Floats; N]; G],
    (scales, mins): (&[V::Floats; G], &[V::Floats; G]),
    out: &mut [V::Floats; G],
) {
    *out = [v.floats(0.0); G];
    for l in 0..N {
        for g in 0..G {
            let off = scales[g] * codes[g][l] + mins[g] - values[g][l];
            let off = if error == Error::Square { off * off } else { off.abs() };
            out[g] = out[g] + weights[g][l] * off;
        }
    }
}
