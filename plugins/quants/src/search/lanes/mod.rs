//! The same searches, a group in each lane: every lane does what the scalar form does, in its order, and branches are masks.
//!
//! `G` vectors go side by side, since one chain of additions alone would leave the adders idle.

mod affine;
mod descent;
mod positive;
mod symmetric;

pub use affine::{AffineLanes, affine};
pub use descent::{descent, first_descent};
pub use positive::{PositiveLanes, positive};
pub use symmetric::{SymmetricLanes, symmetric};

use crate::simd::{Floats, Ints, Lanes, Mask};

/// Added and taken away again, it leaves the nearest integer, ties to even, of magnitudes below 2²².
const ROUNDER: f32 = 12_582_912.0;

/// `-value`, also of zero.
#[inline(always)]
fn negated<V: Lanes>(v: V, value: V::Floats) -> V::Floats {
    (value.bits() ^ v.ints(i32::MIN)).as_bits()
}

/// Vectors whose lanes that count as zero are made plain ones and zeros: subnormals would be slow, and their results are
/// thrown away.
#[inline(always)]
fn spare<V: Lanes, const N: usize>(v: V, zero: V::Mask, max: &mut V::Floats, values: &mut [V::Floats; N]) {
    if zero.any() {
        *max = zero.pick(v.floats(1.0), *max);
        for value in values {
            *value = zero.pick(v.floats(0.0), *value);
        }
    }
}

/// The first value of the greatest magnitude in each lane, and where that magnitude is below what counts.
#[inline(always)]
fn greatest<V: Lanes, const N: usize>(v: V, values: &[V::Floats; N]) -> (V::Floats, V::Mask) {
    let (mut least, mut most) = (v.floats(0.0), v.floats(0.0));
    for value in values {
        (least, most) = (value.min(least), value.max(most));
    }
    let below = v.floats(0.0) - least;
    let amax = below.max(most);
    let mut max = below.more(most).pick(least, most);
    if below.equals(most).any() {
        // Of a value and its opposite, the first one counts.
        let mut found = v.mask(false);
        for value in values {
            let is_first = value.abs().equals(amax) & !found;
            max = is_first.pick(*value, max);
            found = found | is_first;
        }
    }
    (max, amax.less(v.floats(super::ZERO_BELOW)))
}
