//! A scale and a minimum for codes from 0: several scales are tried, and for each the least squares fit of both.

use super::{byte, float};
use crate::number::nearest_int;

/// Scales to be tried: codes up to `most`, spread over `most + first + step * n` for each `n` of 0 to `count`.
#[derive(Clone, Copy)]
pub struct Steps {
    /// The greatest code.
    pub most: i32,
    /// What the first try adds to it.
    pub first: f32,
    /// What each further try adds.
    pub step: f32,
    /// The number of the last try.
    pub count: i32,
}

impl Steps {
    /// How many codes a try spreads over the range.
    #[inline(always)]
    pub(super) fn spread(&self, number: i32) -> f32 {
        self.first + self.step * float(number) + float(self.most)
    }
}

/// What of a difference is summed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Its square.
    Square,
    /// Its magnitude.
    Magnitude,
}

/// What a search found: `scale * code - offset` is near the value.
#[derive(Clone, Copy, Default)]
pub struct Affine {
    /// The scale.
    pub scale: f32,
    /// What is taken away; never negative.
    pub offset: f32,
}

/// The weighted sums of a group.
pub(super) struct Group {
    pub(super) min: f32,
    pub(super) max: f32,
    pub(super) sum_w: f32,
    pub(super) sum_x: f32,
}

impl Group {
    pub(super) fn new(values: &[f32], weights: &[f32]) -> Group {
        let (mut min, mut max, mut sum_w) = (values[0], values[0], weights[0]);
        let mut sum_x = sum_w * values[0];
        for (&value, &w) in values.iter().zip(weights).skip(1) {
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            sum_w += w;
            sum_x += w * value;
        }
        Group { min: if min > 0.0 { 0.0 } else { min }, max, sum_w, sum_x }
    }

    /// The scale and the minimum with the least squared error, where the sums have one.
    pub(super) fn fit(&self, sum_l: f32, sum_l2: f32, sum_xl: f32) -> Option<(f32, f32)> {
        let d = self.sum_w * sum_l2 - sum_l * sum_l;
        if d <= 0.0 || d.is_nan() {
            return None;
        }
        let scale = (self.sum_w * sum_xl - self.sum_x * sum_l) / d;
        let min = (sum_l2 * self.sum_x - sum_l * sum_xl) / d;
        Some(if min > 0.0 { (sum_xl / sum_l2, 0.0) } else { (scale, min) })
    }
}

/// Finds scale and offset for codes of 0 to `steps.most`, and writes the codes. A group of one value has scale 0.
///
/// Source: `make_qkx2_quants` of ggml.
pub fn affine(steps: &Steps, error: Error, values: &[f32], weights: &[f32], codes: &mut [u8]) -> Affine {
    let code = |inverse, min, value: f32| nearest_int(inverse * (value - min)).min(steps.most).max(0);
    search(steps, error, values, weights, codes, (|group: &Group| group.max == group.min, code))
}

/// What [`affine`] and [`super::weighted`] share: whether a group is of one value, and the code of a value in a try, differ.
pub(super) fn search(
    steps: &Steps,
    error: Error,
    values: &[f32],
    weights: &[f32],
    codes: &mut [u8],
    (is_flat, code): (impl Fn(&Group) -> bool, impl Fn(f32, f32, f32) -> i32),
) -> Affine {
    let group = Group::new(values, weights);
    let mut min = group.min;
    if is_flat(&group) {
        codes.fill(0);
        return Affine { scale: 0.0, offset: -min };
    }
    // The error of codes, which come as numbers from a function.
    let error_of = |scale: f32, min: f32, l: &dyn Fn(f32) -> i32| {
        values.iter().zip(weights).fold(0.0f32, |sum, (&value, w)| {
            let off = scale * float(l(value)) + min - value;
            sum + w * if error == Error::Square { off * off } else { off.abs() }
        })
    };
    // The first codes: the range spread over all of them. They alone are not guarded in `weighted`.
    let inverse = float(steps.most) / (group.max - group.min);
    let mut scale = 1.0 / inverse;
    let plain = |value: f32| nearest_int(inverse * (value - group.min)).min(steps.most).max(0);
    let mut best_error = error_of(scale, min, &plain);
    for (to, &value) in codes.iter_mut().zip(values) {
        *to = byte(plain(value));
    }
    for number in 0..=steps.count {
        // From the best minimum so far, and over the range above it.
        let from = min;
        let inverse = steps.spread(number) / (group.max - from);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0f32, 0.0f32, 0.0f32);
        for (&value, &w) in values.iter().zip(weights) {
            let l = float(code(inverse, from, value));
            sum_l += w * l;
            sum_l2 += w * l * l;
            sum_xl += w * l * value;
        }
        let Some((this_scale, this_min)) = group.fit(sum_l, sum_l2, sum_xl) else { continue };
        let this_error = error_of(this_scale, this_min, &|value| code(inverse, from, value));
        if this_error < best_error {
            for (to, &value) in codes.iter_mut().zip(values) {
                *to = byte(code(inverse, from, value));
            }
            (best_error, scale, min) = (this_error, this_scale, this_min);
        }
    }
    Affine { scale, offset: -min }
}
