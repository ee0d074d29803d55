//! The sixteen values of IQ4_NL and IQ4_XS, and the search for the scale of a block.

mod lanes;

pub use lanes::{MOST_LANES, Search};

use crate::extremes::widest;
use crate::weights::{sum_of_squares, weights};

/// The value of each code. Source: `kvalues_iq4nl` of ggml.
pub const VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];
/// Below this magnitude a block is all zero.
const NOTHING: f32 = 1e-15;
/// How many other scales are tried on either side of the first.
const TRIES: i8 = 7;

/// The code of the nearest value; in the middle, the upper one. What is no number gets the last one, as ggml's search has it.
#[inline(always)]
pub fn nearest(value: f32) -> usize {
    if value <= VALUES[0] {
        return 0;
    }
    let (mut low, mut high) = (0, 15);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if value < VALUES[middle] {
            high = middle;
        } else {
            low = middle;
        }
    }
    // Above the last value the first distance is the larger one, or both are equal.
    if value - VALUES[high - 1] < VALUES[high] - value { high - 1 } else { high }
}

/// Sums over a block, one after the other: weight * value of the code * element, and weight * value * value.
fn sums(values: &[f32; 32], weights: &[f32; 32], inverse: f32) -> (f32, f32) {
    values.iter().zip(weights).fold((0.0, 0.0), |(of_both, of_codes), (value, weight)| {
        let code = VALUES[nearest(inverse * value)];
        (of_both + weight * code * value, of_codes + weight * code * code)
    })
}

/// The scale that leaves the least weighted error, among those that ggml tries: one that maps the widest element to the first
/// value, and fifteen that map it near that.
pub fn scale(values: &[f32; 32], weights: &[f32; 32]) -> f32 {
    let widest = widest(values);
    if widest.abs() < NOTHING {
        return 0.0;
    }
    let (of_both, of_codes) = sums(values, weights, 1.0 / (-widest / VALUES[0]));
    let mut found = if of_codes > 0.0 { of_both / of_codes } else { 0.0 };
    let mut best = found * of_both;
    for shift in -TRIES..=TRIES {
        let (of_both, of_codes) = sums(values, weights, (f32::from(shift) + VALUES[0]) / widest);
        if of_codes > 0.0 && of_both * of_both > best * of_codes {
            found = of_both / of_codes;
            best = found * of_both;
        }
    }
    found
}

/// The codes of a block whose elements are multiplied with the inverse of a scale.
pub fn codes(values: &[f32; 32], inverse: f32) -> [u8; 32] {
    values.map(|value| nearest(inverse * value).to_le_bytes()[0])
}

/// The weights of a block's elements: their squares, or what their importance makes of them.
pub fn weights_of(values: &[f32; 32], importance: Option<&[f32; 32]>, variance: f32) -> [f32; 32] {
    importance.map_or_else(|| values.map(|value| value * value), |all| weights(values, all, variance))
}

/// Twice the mean square of a block of 32 or 256.
pub fn variance(values: &[f32]) -> f32 {
    sum_of_squares(values) * if values.len() == 32 { 2.0 / 32.0 } else { 2.0 / 256.0 }
}
