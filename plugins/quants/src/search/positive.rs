//! A scale for codes from 0 without a minimum: how the scales of a block are themselves coded where importance is known.

use super::{ZERO_BELOW, byte, float};
use crate::number::nearest_int;

/// Finds the scale for which `scale * code`, with codes up to `most`, is nearest to the values; writes the codes. All are 0,
/// and so is the scale, where every value is below [`ZERO_BELOW`]. Negative values leave the low byte of their code, as in
/// C.
///
/// Source: `make_qp_quants` of ggml.
pub fn positive(most: i32, values: &[f32], weights: &[f32], codes: &mut [u8]) -> f32 {
    let max = values.iter().fold(0.0f32, |max, &value| if max > value { max } else { value });
    if max < ZERO_BELOW {
        codes.fill(0);
        return 0.0;
    }
    let mut inverse = float(most) / max;
    let first = 1.0 / inverse;
    let mut best_error = 0.0f32;
    for (&value, w) in values.iter().zip(weights) {
        let off = value - first * f32::from(byte(nearest_int(inverse * value)));
        best_error += w * off * off;
    }
    for step in (-4..=4).filter(|step| *step != 0) {
        let this_inverse = (0.1 * float(step) + float(most)) / max;
        let scale = 1.0 / this_inverse;
        let mut error = 0.0f32;
        for (&value, w) in values.iter().zip(weights) {
            let off = value - scale * float(nearest_int(this_inverse * value).min(most));
            error += w * off * off;
        }
        if error < best_error {
            (best_error, inverse) = (error, this_inverse);
        }
    }
    let (mut sum_lx, mut sum_l2) = (0.0f32, 0.0f32);
    for ((&value, w), code) in values.iter().zip(weights).zip(&mut *codes) {
        let l = nearest_int(inverse * value).min(most);
        *code = byte(l);
        sum_lx += w * value * float(l);
        sum_l2 += w * float(l) * float(l);
    }
    for _ in 0..5 {
        let mut changed = false;
        for ((&value, w), code) in values.iter().zip(weights).zip(&mut *codes) {
            let l = f32::from(*code);
            // The sums without this element.
            let (lx, l2) = (sum_lx - w * value * l, sum_l2 - w * l * l);
            if !(lx > 0.0 && l2 > 0.0) {
                continue;
            }
            let moved = nearest_int(value * l2 / lx).min(most);
            if moved == i32::from(*code) {
                continue;
            }
            let (lx, l2) = (lx + w * value * float(moved), l2 + w * float(moved) * float(moved));
            if lx * lx * sum_l2 > sum_lx * sum_lx * l2 {
                (*code, sum_lx, sum_l2) = (byte(moved), lx, l2);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}
