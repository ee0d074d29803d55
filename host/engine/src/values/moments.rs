//! Sums of numbers and of their squares, whatever their range and however many digits cancel.

use crate::values::double_double::{DoubleDouble, scaled, two_sum};
use crate::values::numbers::CHUNK;

/// Sums accumulated side by side.
const LANES: usize = 8;
/// Magnitudes up to 2^400, and from 2^-400, whose squares and sums neither overflow nor vanish.
const PLAIN: std::ops::Range<f64> = f64::from_bits((1023 - 400) << 52)..f64::from_bits((1023 + 400) << 52);

/// Returns whether squares of numbers up to this magnitude can be summed as they are.
pub fn is_plain(greatest: f64) -> bool {
    greatest == 0.0 || PLAIN.contains(&greatest)
}

/// Sums over numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// The sum of the numbers.
    pub sum: DoubleDouble,
    /// The sum of their squares.
    pub squares: DoubleDouble,
}

/// The sums of at most [`CHUNK`] numbers less `pivot`; each is `high + low` and finite, and `greatest` the greatest
/// magnitude of them. The numbers are summed as distances from their mean: nothing cancels that they have in common.
#[inline(always)]
pub fn moments(high: &[f64], low: &[f64], greatest: f64, pivot: f64) -> Moments {
    if PLAIN.contains(&greatest) {
        return about_mean(high, low, 0, pivot);
    }
    if greatest == 0.0 {
        return about_mean(&[0.0; CHUNK][..high.len()], low, 0, pivot);
    }
    let shift = -exponent_of(greatest);
    let mut near = [0.0; CHUNK];
    let mut near_low = [0.0; CHUNK];
    near.iter_mut().zip(high).for_each(|(near, high)| *near = scaled(*high, shift));
    near_low.iter_mut().zip(low).for_each(|(near, low)| *near = scaled(*low, shift));
    about_mean(&near[..high.len()], &near_low[..high.len()], -shift, pivot)
}

/// The sum of the squares of finite numbers, the greatest magnitude of which is `greatest`.
#[inline(always)]
pub fn squares(values: &[f64], greatest: f64) -> DoubleDouble {
    let shift = if is_plain(greatest) { 0 } else { -exponent_of(greatest) };
    let mut lanes = [0.0; LANES];
    let (groups, rest) = values.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            let value = if shift == 0 { group[lane] } else { scaled(group[lane], shift) };
            lanes[lane] += value * value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        let value = scaled(*value, shift);
        *lane += value * value;
    }
    DoubleDouble::new(lanes.iter().sum(), 0.0, -2 * shift)
}

/// The sum of the products of pairs of finite numbers, the greatest magnitude of each side given.
#[inline(always)]
pub fn products(a: &[f64], b: &[f64], greatest: [f64; 2]) -> DoubleDouble {
    let shift = greatest.map(|most| if is_plain(most) { 0 } else { -exponent_of(most) });
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            let (a, b) = if shift == [0, 0] {
                (a[lane], b[lane])
            } else {
                (scaled(a[lane], shift[0]), scaled(b[lane], shift[1]))
            };
            lanes[lane] += a * b;
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += scaled(*a, shift[0]) * scaled(*b, shift[1]);
    }
    DoubleDouble::new(lanes.iter().sum(), 0.0, -shift[0] - shift[1])
}

/// The exponent of the power of two at or below a magnitude, near enough for subnormal ones.
fn exponent_of(value: f64) -> i32 {
    i32::try_from(value.to_bits() >> 52 & 0x7ff).unwrap_or(0).max(1)
        - if value < f64::MIN_POSITIVE { 1023 + 26 } else { 1023 }
}

/// The sums of numbers times 2^`exponent`.
#[inline(always)]
fn about_mean(high: &[f64], low: &[f64], exponent: i32, pivot: f64) -> Moments {
    #[allow(clippy::cast_precision_loss, reason = "at most CHUNK")]
    let n = high.len() as f64;
    if high.is_empty() {
        return Moments::default();
    }
    let mut lanes = [0.0; LANES];
    let (groups, rest) = high.as_chunks::<LANES>();
    groups.iter().for_each(|group| lanes.iter_mut().zip(group).for_each(|(lane, value)| *lane += value));
    let mean = lanes.iter().chain(rest).sum::<f64>() / n;
    let mut away = Away::default();
    let (low_groups, low_rest) = low.as_chunks::<LANES>();
    for (group, low) in groups.iter().zip(low_groups) {
        for lane in 0..LANES {
            away.add(lane, group[lane], low[lane], mean);
        }
    }
    for (lane, (value, low)) in rest.iter().zip(low_rest).enumerate() {
        away.add(lane, *value, *low, mean);
    }
    let (distances, squares) = away.sums(exponent);
    let n = DoubleDouble::from(n);
    let from_pivot = DoubleDouble::new(mean, 0.0, exponent) - DoubleDouble::from(pivot);
    let twice = distances + distances;
    Moments { sum: distances + n * from_pivot, squares: squares + from_pivot * (twice + n * from_pivot) }
}

/// Sums of distances from a mean, in lanes.
#[derive(Default)]
struct Away {
    sum: [f64; LANES],
    /// The part that rounding `sum` lost.
    lost: [f64; LANES],
    squares: [f64; LANES],
}

impl Away {
    #[inline(always)]
    fn add(&mut self, lane: usize, value: f64, low: f64, mean: f64) {
        let (distance, rounded) = two_sum(value, -mean);
        let (distance, rounded) = two_sum(distance, rounded + low);
        let (sum, lost) = two_sum(self.sum[lane], distance);
        self.sum[lane] = sum;
        self.lost[lane] += lost + rounded;
        self.squares[lane] += distance * distance;
    }

    fn sums(&self, exponent: i32) -> (DoubleDouble, DoubleDouble) {
        let parts = self.sum.iter().zip(&self.lost);
        let sum = parts
            .fold(DoubleDouble::default(), |all, (sum, lost)| all + DoubleDouble::new(*sum, *lost, exponent));
        (sum, DoubleDouble::new(self.squares.iter().sum(), 0.0, 2 * exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], pivot: f64) -> Moments {
        let greatest = values.iter().fold(0.0f64, |greatest, value| greatest.max(value.abs()));
        let low = vec![0.0; values.len()];
        moments(values, &low, greatest, pivot)
    }

    #[test]
    fn large_and_small_numbers_are_summed_as_others_are() {
        for scale in [1.0, 1e300, 1e-300, 2f64.powi(-1040), f64::MAX / 4.0] {
            let values: Vec<f64> = (-3..=4).map(|n| f64::from(n) * scale).collect();
            let Moments { sum, squares } = of(&values, 0.0);
            assert_eq!(sum.value(), 4.0 * scale);
            let root = 44f64.sqrt() * scale;
            let near = (squares.sqrt() / DoubleDouble::from(root)).value();
            assert!(root.is_infinite() || (near - 1.0).abs() < 1e-6, "{scale:e}: {near}");
            let alone = super::squares(&values, 4.0 * scale);
            assert!(((alone / squares).value() - 1.0).abs() < 1e-12, "{scale:e}");
        }
    }

    #[test]
    fn what_numbers_have_in_common_does_not_hide_how_they_differ() {
        let values: Vec<f64> = (0..500).map(|n| 1e15 + f64::from(n % 2)).collect();
        let Moments { sum, squares } = of(&values, 1e15);
        assert_eq!((sum.value(), squares.value()), (250.0, 250.0));
        let Moments { sum, .. } = of(&[1e16, 1.0, -1e16], 0.0);
        assert_eq!(sum.value(), 1.0);
        assert_eq!(of(&[], 0.0), Moments::default());
        assert_eq!(of(&[0.0, -0.0], 0.0).sum.value(), 0.0);
    }
}
