//! A scale for codes around zero: tried around the one that takes the greatest magnitude to the end of the codes.

use super::{ZERO_BELOW, byte, float, greatest};
use crate::number::nearest_int;

/// Finds the scale for which `scale * (code - most)`, with codes of 0 to `2 * most - 1`, is nearest to the values; writes
/// the codes. Without weights, each value's square is its weight. All codes are 0, and so is the scale, where every
/// magnitude is below [`ZERO_BELOW`].
///
/// Source: `make_qx_quants` of ggml with `rmse_type` 1.
pub fn symmetric(most: i32, values: &[f32], weights: Option<&[f32]>, codes: &mut [u8]) -> f32 {
    let (max, amax) = greatest(values);
    if amax < ZERO_BELOW {
        codes.fill(0);
        return 0.0;
    }
    let code = |inverse: f32, value: f32| nearest_int(inverse * value).min(most - 1).max(-most);
    let sums = |inverse: f32| {
        let (mut sum_lx, mut sum_l2) = (0.0f32, 0.0f32);
        for (n, &value) in values.iter().enumerate() {
            let l = float(code(inverse, value));
            let w = weights.map_or(value * value, |weights| weights[n]);
            sum_lx += w * value * l;
            sum_l2 += w * l * l;
        }
        (sum_lx, sum_l2)
    };
    let mut best_inverse = float(-most) / max;
    let (sum_lx, sum_l2) = sums(best_inverse);
    let mut scale = if sum_l2 == 0.0 { 0.0 } else { sum_lx / sum_l2 };
    let mut best = scale * sum_lx;
    for step in (-9..=9).filter(|step| *step != 0) {
        let inverse = -(float(most) + 0.1 * float(step)) / max;
        let (sum_lx, sum_l2) = sums(inverse);
        if sum_l2 > 0.0 && sum_lx * sum_lx > best * sum_l2 {
            scale = sum_lx / sum_l2;
            best = scale * sum_lx;
            best_inverse = inverse;
        }
    }
    for (to, &value) in codes.iter_mut().zip(values) {
        *to = byte(code(best_inverse, value) + most);
    }
    scale
}
