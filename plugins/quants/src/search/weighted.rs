//! A scale and a minimum for codes from 0, where importance may leave nearly no weight: tries are guarded.

use super::affine::{Affine, Error, Group, Steps, search};
use crate::number::nearest_int;

/// As [`super::affine`], with squared errors. The minimum found so far can be at or beyond a value, so a try's code is 0 for
/// what is not above it, and the quotient is held to the greatest code before it is rounded.
///
/// Source: `make_qkx3_quants` of ggml with weights and without `use_mad`.
pub fn weighted(steps: &Steps, values: &[f32], weights: &[f32], codes: &mut [u8]) -> Affine {
    let most = super::float(steps.most);
    let code = |inverse: f32, min: f32, value: f32| {
        let v = inverse * (value - min);
        if v > 0.0 { nearest_int(if v < most { v } else { most }) } else { 0 }
    };
    search(steps, Error::Square, values, weights, codes, (|group: &Group| group.max <= group.min, code))
}
