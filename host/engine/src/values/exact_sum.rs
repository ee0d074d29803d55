//! A sum of floats that does not depend on their order: parts of a tensor arrive from several threads.

use std::collections::BTreeMap;

/// Bits of the exponent covered by one bin.
const SPAN: i32 = 32;

/// An exact sum: integers, each in units of another power of two. Integer addition is associative, so any
/// order and grouping gives the same bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactSum(BTreeMap<i32, i128>);

impl ExactSum {
    /// Adds a number; infinities and NaN are ignored.
    pub fn add(&mut self, value: f64) {
        if value == 0.0 || !value.is_finite() {
            return;
        }
        let bits = value.to_bits();
        let (fraction, exponent) = (bits & ((1 << 52) - 1), i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0));
        // A subnormal number has no leading bit, and the exponent of the smallest normal one.
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let exponent = exponent.max(1) - 1075;
        let magnitude = i128::from(mantissa) << exponent.rem_euclid(SPAN);
        let signed = if value < 0.0 { -magnitude } else { magnitude };
        *self.0.entry(exponent.div_euclid(SPAN)).or_default() += signed;
    }

    /// The sum as a float, accurate to a few units in the last place.
    pub fn value(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "rounded on purpose: a bin may hold more than 53 bits")]
        let parts = self.0.iter().rev().map(|(bin, sum)| scaled(*sum as f64, bin * SPAN));
        // An empty sum would otherwise be negative zero.
        parts.fold(0.0, |sum, part| sum + part)
    }
}

/// `value` times 2^`exponent`, even if that power alone would underflow.
fn scaled(value: f64, exponent: i32) -> f64 {
    value * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: impl Iterator<Item = f64>) -> ExactSum {
        let mut sum = ExactSum::default();
        values.for_each(|value| sum.add(value));
        sum
    }

    #[test]
    fn the_sum_of_nothing_and_of_zeros_is_no_negative_zero() {
        for values in [&[][..], &[0.0, 0.0], &[-0.0], &[1.5, -1.5]] {
            let sum = sum(values.iter().copied()).value();
            assert!(sum == 0.0 && sum.is_sign_positive(), "{values:?}");
        }
    }

    #[test]
    fn every_order_gives_the_same() {
        let values: Vec<f64> = (0u32..1000).map(|n| f64::from(n * 7919 % 1009) * 1.1e-3 - 0.5).collect();
        let (there, back) = (sum(values.iter().copied()), sum(values.iter().rev().copied()));
        assert_eq!(there, back);
        let plain: f64 = values.iter().sum();
        assert!((there.value() - plain).abs() < 1e-10);
    }

    #[test]
    fn nothing_is_lost_between_large_and_small() {
        let s = sum([1e300, 1.0, -1e300, 2f64.powi(-1074), f64::INFINITY, f64::NAN].into_iter());
        assert_eq!(s.value(), 1.0);
        assert_eq!(sum([2f64.powi(-1074), 2f64.powi(-1074)].into_iter()).value(), 2f64.powi(-1073));
        assert_eq!(sum([f64::MAX, -f64::MAX].into_iter()).value(), 0.0);
        assert_eq!(ExactSum::default().value(), 0.0);
    }
}
