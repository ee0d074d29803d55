//! A scale for codes around zero, by coordinate descent: each code in turn moves to where the others want it.

use super::{ZERO_BELOW, byte, float, greatest};
use crate::number::nearest_int;

/// Finds the scale for which `scale * (code - most)`, with codes of 0 to `2 * most - 1`, is nearest to the values, each
/// weighted by its square; writes the codes. All codes are 0, and so is the scale, where every magnitude is below
/// [`ZERO_BELOW`]. Up to 16 values.
///
/// Source: `make_q3_quants` of ggml with `do_rmse`.
pub fn descent(most: i32, values: &[f32], codes: &mut [u8]) -> f32 {
    let (max, amax) = greatest(values);
    if amax < ZERO_BELOW {
        codes.fill(0);
        return 0.0;
    }
    let inverse = float(-most) / max;
    let (mut sum_lx, mut sum_l2) = (0.0f32, 0.0f32);
    let mut signed = [0i32; 16];
    for (l, &value) in signed.iter_mut().zip(values) {
        *l = nearest_int(inverse * value).min(most - 1).max(-most);
        let w = value * value;
        sum_lx += w * value * float(*l);
        sum_l2 += w * float(*l) * float(*l);
    }
    for _ in 0..5 {
        let mut changed = false;
        for (l, &value) in signed.iter_mut().zip(values) {
            let w = value * value;
            // The sums without this element.
            let lx = sum_lx - w * value * float(*l);
            if lx <= 0.0 || lx.is_nan() {
                continue;
            }
            let l2 = sum_l2 - w * float(*l) * float(*l);
            let moved = nearest_int(value * l2 / lx).min(most - 1).max(-most);
            if moved == *l {
                continue;
            }
            let lx = lx + w * value * float(moved);
            let l2 = l2 + w * float(moved) * float(moved);
            if l2 > 0.0 && lx * lx * sum_l2 > sum_lx * sum_lx * l2 {
                (*l, sum_lx, sum_l2) = (moved, lx, l2);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for (code, l) in codes.iter_mut().zip(signed) {
        *code = byte(l + most);
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}
