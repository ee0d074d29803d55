//! What IQ1_S and IQ1_M share: three levels −1, 0 and 1, all moved by an eighth up or down.

use super::{IQ1, no_point};
use apr_sdk::Result;

/// By how much the levels are moved.
pub const DELTA: f32 = 0.125;

/// The values of the three levels, moved up or down.
pub fn steps(down: bool) -> [f32; 3] {
    if down { [-1.0 - DELTA, -DELTA, 1.0 - DELTA] } else { [-1.0 + DELTA, DELTA, 1.0 + DELTA] }
}

/// The weights of elements: with importance as with the other types, else their squares. `spread` is twice the mean square
/// of the super-block.
pub fn weights<const N: usize>(values: &[f32; N], importance: Option<&[f32]>, spread: f32) -> [f32; N] {
    std::array::from_fn(|i| match importance {
        Some(importance) => importance[i] * (spread + values[i] * values[i]).sqrt(),
        None => values[i] * values[i],
    })
}

/// Twice the mean square of a super-block.
pub fn spread(values: &[f32]) -> f32 {
    2.0 * values.iter().fold(0.0, |sum, value| sum + value * value) / 256.0
}

/// The places of elements in ascending order, equal ones in the order in which they lie.
pub fn ascending<const N: usize>(values: &[f32; N]) -> [usize; N] {
    let mut order = std::array::from_fn(|i| i);
    for i in 1..N {
        let mut at = i;
        while at > 0 && values[i] < values[order[at - 1]] {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = i;
    }
    order
}

/// A block's split of the ascending elements: those before `first` have level 0, those from `second` on level 2.
pub struct Split {
    /// See above.
    pub first: usize,
    /// See above.
    pub second: usize,
    /// The scale that fits best; may be negative.
    pub scale: f32,
}

impl Split {
    /// The levels of the elements, for the scale's magnitude.
    pub fn levels<const N: usize>(&self, order: &[usize; N]) -> [u8; N] {
        let mut levels = [0; N];
        for (n, i) in order.iter().enumerate() {
            let level = u8::from(n >= self.first) + u8::from(n >= self.second);
            levels[*i] = if self.scale < 0.0 { 2 - level } else { level };
        }
        levels
    }
}

/// Puts levels on points of the codebook: each group of eight has its steps. Gives the points, and the scale that then fits
/// if a group was off the codebook.
///
/// # Errors
/// Where ggml ends the process.
pub fn to_points<const G: usize>(
    values: &[[f32; 8]; G],
    weights: &[[f32; 8]; G],
    levels: &[[u8; 8]; G],
    steps: &[[f32; 3]; G],
    scale: f32,
) -> Result<([u16; G], f32)> {
    let (mut points, mut all_on) = ([0; G], true);
    for group in 0..G {
        let near = IQ1.near(IQ1.place(&levels[group]));
        points[group] = near[0];
        if *IQ1.point(near[0]) != levels[group] {
            all_on = false;
            points[group] = nearest(near, &values[group], &weights[group], &steps[group], scale)?;
        }
    }
    if all_on {
        return checked(points, scale);
    }
    let (products, squares) =
        sums(values, weights, &points, |group, level| steps[group][usize::from(level)], (0.0, 0.0));
    checked(points, if products > 0.0 && squares > 0.0 { products / squares } else { scale })
}

fn checked<const G: usize>(points: [u16; G], scale: f32) -> Result<([u16; G], f32)> {
    if scale >= 0.0 { Ok((points, scale)) } else { Err(no_point()) }
}

/// Adds to the weighted sums of values times what levels stand for, and of the squares of these.
pub fn sums<const G: usize>(
    values: &[[f32; 8]; G],
    weights: &[[f32; 8]; G],
    points: &[u16; G],
    value_of: impl Fn(usize, u8) -> f32,
    (mut products, mut squares): (f32, f32),
) -> (f32, f32) {
    for group in 0..G {
        let point = IQ1.point(points[group]);
        for ((level, value), weight) in point.iter().zip(&values[group]).zip(&weights[group]) {
            let q = value_of(group, *level);
            products += weight * q * value;
            squares += weight * q * q;
        }
    }
    (products, squares)
}

/// The nearest of some points to eight values.
fn nearest(near: &[u16], values: &[f32; 8], weights: &[f32; 8], steps: &[f32; 3], scale: f32) -> Result<u16> {
    let mut best = (f32::MAX, None);
    for index in near {
        let mut distance = 0.0;
        for ((level, value), weight) in IQ1.point(*index).iter().zip(values).zip(weights) {
            let difference = scale * steps[usize::from(*level)] - value;
            distance += weight * difference * difference;
        }
        if distance < best.0 {
            best = (distance, Some(*index));
        }
    }
    best.1.ok_or_else(no_point)
}
