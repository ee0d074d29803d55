//! A sum of floats that does not depend on their order: parts of a tensor arrive from several threads.

use crate::values::double_double::DoubleDouble;
use std::collections::BTreeMap;

/// Bits of the exponent covered by one bin.
const SPAN: i32 = 32;
/// The bits of a digit, which a bin holds once all is carried.
const DIGIT: i128 = (1 << SPAN) - 1;

/// An exact sum: integers, each in units of another power of two. Integer addition is associative, so any
/// order and grouping gives the same bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactSum(BTreeMap<i32, i128>);

impl ExactSum {
    /// Adds a number; infinities and NaN are ignored.
    pub fn add(&mut self, value: f64) {
        self.add_scaled(value, 0);
    }

    /// Adds `value` times 2^`scale`.
    fn add_scaled(&mut self, value: f64, scale: i32) {
        if value == 0.0 || !value.is_finite() {
            return;
        }
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
        // A subnormal number has no leading bit, and the exponent of the smallest normal one.
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let exponent = exponent.max(1) - 1075 + scale;
        let magnitude = i128::from(mantissa) << exponent.rem_euclid(SPAN);
        let signed = if value < 0.0 { -magnitude } else { magnitude };
        *self.0.entry(exponent.div_euclid(SPAN)).or_default() += signed;
    }

    /// Adds a number of twice the precision.
    pub fn add_wide(&mut self, value: DoubleDouble) {
        let (high, low, exponent) = value.parts();
        self.add_scaled(high, exponent);
        self.add_scaled(low, exponent);
    }

    /// The nearest float, but for a unit in the last place.
    pub fn value(&self) -> f64 {
        self.wide().value()
    }

    /// The sum, to 97 bits at least.
    pub fn wide(&self) -> DoubleDouble {
        match self.digits(1) {
            Ok(wide) => wide,
            Err(Negative) => -self.digits(-1).unwrap_or_default(),
        }
    }

    /// The sum times `sign`, if that is not negative. What exceeds the span of a bin is carried to the next, until each
    /// holds a digit.
    fn digits(&self, sign: i128) -> Result<DoubleDouble, Negative> {
        let bins = self.0.first_key_value().zip(self.0.last_key_value());
        let Some(((&first, _), (&last, _))) = bins else { return Ok(DoubleDouble::default()) };
        let mut digits = Vec::new();
        let mut carry = 0i128;
        for bin in first..=last {
            let sum = self.0.get(&bin).copied().unwrap_or(0) * sign + carry;
            digits.push((sum & DIGIT).cast_unsigned());
            carry = sum >> SPAN;
        }
        if carry < 0 {
            return Err(Negative);
        }
        while carry > 0 {
            digits.push((carry & DIGIT).cast_unsigned());
            carry >>= SPAN;
        }
        let n = digits.iter().rposition(|digit| *digit > 0).map_or(0, |at| at + 1);
        let lowest = n.saturating_sub(4);
        let leading = digits[lowest..n].iter().rev().fold(0u128, |all, digit| all << SPAN | digit);
        #[allow(clippy::cast_precision_loss, reason = "rounded on purpose")]
        let high = leading as f64;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and not below zero: the rest is what the rounding lost"
        )]
        let rest = leading.wrapping_sub(high as u128).cast_signed();
        #[allow(clippy::cast_precision_loss, reason = "rounded on purpose: the last of 128 bits")]
        Ok(DoubleDouble::new(high, rest as f64, (first + i32::try_from(lowest).unwrap_or(0)) * SPAN))
    }
}

/// A sum that is below zero.
struct Negative;

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
        let there = sum(values.iter().copied());
        assert_eq!(there, sum(values.iter().rev().copied()));
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
        // Carried through many bins, and back.
        assert_eq!(sum([1e300, 1e-300, -1e300, -2e-300].into_iter()).value(), -1e-300);
        assert_eq!(
            sum([-(2f64.powi(100)), 2f64.powi(100) - 2f64.powi(47), 1.0].into_iter()).value(),
            1.0 - 2f64.powi(47)
        );
    }

    #[test]
    fn sums_of_squares_may_leave_the_range_of_a_float() {
        let mut sum = ExactSum::default();
        let square = DoubleDouble::from(f64::MAX) * DoubleDouble::from(f64::MAX);
        (0..4).for_each(|_| sum.add_wide(square));
        assert_eq!((sum.wide() / DoubleDouble::from(4.0)).sqrt().value(), f64::MAX);
        sum.add_wide(-square);
        sum.add_wide(DoubleDouble::from(5e-324) * DoubleDouble::from(5e-324));
        assert_eq!((sum.wide() / DoubleDouble::from(3.0)).sqrt().value(), f64::MAX);
    }
}
