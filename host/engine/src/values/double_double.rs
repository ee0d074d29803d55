//! A number with twice the precision of an `f64`, and a range that no sum of squares leaves (Dekker 1971, "A
//! floating-point technique for extending the available precision").

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// `(high + low) · 2^exponent`. `high` is zero or lies between 2^-256 and 2^256, so that products of two numbers neither
/// overflow nor vanish; the exponent is a multiple of 512, and almost always zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DoubleDouble {
    high: f64,
    low: f64,
    exponent: i32,
}

/// Exponents are multiples of this.
const STEP: i32 = 512;
/// The greatest magnitude of `high`, 2^256; its inverse is the smallest.
const MOST: f64 = f64::from_bits((1023 + 256) << 52);
/// See [`MOST`].
const LEAST: f64 = 1.0 / MOST;

impl DoubleDouble {
    /// `(high + low) · 2^exponent`, for `high` and `low` of any magnitude.
    #[inline]
    pub fn new(high: f64, low: f64, exponent: i32) -> DoubleDouble {
        let high_size = high.abs();
        if exponent == 0 && (LEAST..MOST).contains(&high_size) {
            let (high, low) = two_sum(high, low);
            return DoubleDouble { high, low, exponent };
        }
        DoubleDouble::far(high, low, exponent)
    }

    /// The same for a number that is zero, very large or very small.
    fn far(high: f64, low: f64, exponent: i32) -> DoubleDouble {
        // Away from the end of the range first, which the sum of both parts could leave.
        let shift = if high.abs() >= 1.0 { STEP / 2 } else { -STEP / 2 };
        let (high, low) = two_sum(scaled(high, -shift), scaled(low, -shift));
        if high == 0.0 || !high.is_finite() {
            return DoubleDouble { high: high + 0.0, ..DoubleDouble::default() };
        }
        let mut exponent = exponent + shift;
        let up = exponent.rem_euclid(STEP);
        exponent -= up;
        let [mut high, mut low] = [high, low].map(|part| scaled(part, up));
        while high.abs() >= MOST {
            (high, low, exponent) = (scaled(high, -STEP), scaled(low, -STEP), exponent + STEP);
        }
        while high.abs() < LEAST {
            (high, low, exponent) = (scaled(high, STEP), scaled(low, STEP), exponent - STEP);
        }
        DoubleDouble { high, low, exponent }
    }

    /// The number of a count.
    #[allow(clippy::cast_precision_loss, reason = "no tensor has 2^53 elements")]
    pub fn count(n: u64) -> DoubleDouble {
        DoubleDouble::from(n as f64)
    }

    /// The nearest `f64`; infinity beyond its range.
    pub fn value(self) -> f64 {
        scaled(self.high, self.exponent)
    }

    /// The parts: `(high + low) · 2^exponent`.
    pub fn parts(self) -> (f64, f64, i32) {
        (self.high, self.low, self.exponent)
    }

    /// The square root; zero for numbers below zero, which only rounding makes.
    #[must_use]
    pub fn sqrt(self) -> DoubleDouble {
        if self.high <= 0.0 {
            return DoubleDouble::default();
        }
        let root = self.high.sqrt();
        let (square, rest) = two_product(root, root);
        let low = ((self.high - square) - rest + self.low) / (2.0 * root);
        DoubleDouble::new(root, low, self.exponent / 2)
    }

    /// The logarithm to base 10.
    pub fn log10(self) -> f64 {
        self.high.log10() + f64::from(self.exponent) * std::f64::consts::LOG10_2
    }

    /// The greater of two numbers.
    #[must_use]
    pub fn max(self, other: DoubleDouble) -> DoubleDouble {
        if (self - other).high < 0.0 { other } else { self }
    }

    /// Returns whether it is zero.
    pub fn is_zero(self) -> bool {
        self.high == 0.0
    }
}

impl From<f64> for DoubleDouble {
    #[inline]
    fn from(value: f64) -> DoubleDouble {
        DoubleDouble::new(value, 0.0, 0)
    }
}

impl Add for DoubleDouble {
    type Output = DoubleDouble;

    #[inline]
    fn add(self, other: DoubleDouble) -> DoubleDouble {
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        if large.is_zero() {
            return small;
        }
        let mut high = small.high;
        let mut low = small.low;
        if large.exponent != small.exponent {
            let down = small.exponent - large.exponent;
            (high, low) = (scaled(high, down), scaled(low, down));
        }
        let (high, rest) = two_sum(large.high, high);
        let (low, lost) = two_sum(large.low, low);
        let (high, rest) = two_sum(high, rest + low);
        DoubleDouble::new(high, rest + lost, large.exponent)
    }
}

impl AddAssign for DoubleDouble {
    #[inline]
    fn add_assign(&mut self, other: DoubleDouble) {
        *self = *self + other;
    }
}

impl Neg for DoubleDouble {
    type Output = DoubleDouble;

    fn neg(self) -> DoubleDouble {
        DoubleDouble { high: -self.high, low: -self.low, exponent: self.exponent }
    }
}

impl Sub for DoubleDouble {
    type Output = DoubleDouble;

    fn sub(self, other: DoubleDouble) -> DoubleDouble {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = DoubleDouble;

    #[inline]
    fn mul(self, other: DoubleDouble) -> DoubleDouble {
        let (high, rest) = two_product(self.high, other.high);
        let low = rest + (self.high * other.low + self.low * other.high);
        DoubleDouble::new(high, low, self.exponent + other.exponent)
    }
}

impl Div for DoubleDouble {
    type Output = DoubleDouble;

    fn div(self, other: DoubleDouble) -> DoubleDouble {
        let high = self.high / other.high;
        let (product, rest) = two_product(high, other.high);
        let low = ((self.high - product) - rest + self.low - high * other.low) / other.high;
        DoubleDouble::new(high, low, self.exponent - other.exponent)
    }
}

/// `value` times 2^`exponent`, even if that power alone is out of range.
pub fn scaled(value: f64, exponent: i32) -> f64 {
    value * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

/// A sum and what rounding it lost (Knuth, The Art of Computer Programming, 4.2.2).
#[inline(always)]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    (sum, (a - (sum - from_b)) + (b - from_b))
}

/// A product and what rounding it lost, for magnitudes up to 2^500.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((a, a_low), (b, b_low)) = (halves(a), halves(b));
    (product, ((a * b - product) + a * b_low + a_low * b) + a_low * b_low)
}

/// A number as the sum of two with at most 26 bits each (Veltkamp).
#[inline(always)]
fn halves(a: f64) -> (f64, f64) {
    let shifted = a * f64::from((1 << 27) + 1);
    let high = shifted - (shifted - a);
    (high, a - high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows_or_vanishes() {
        for value in [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e200, 1e-200, 1.5, 0.0, -3e77] {
            let wide = DoubleDouble::from(value);
            assert_eq!(wide.value(), value);
            assert_eq!((wide * wide).sqrt().value(), value.abs());
            assert_eq!((wide + wide - wide).value(), value);
            assert_eq!((wide + wide).value(), value * 2.0);
            if value != 0.0 {
                assert_eq!(((wide * wide) / wide).value(), value);
                let log = (wide * wide).log10();
                assert!((log - 2.0 * value.abs().log10()).abs() < 1e-12 * log.abs(), "{value:e}: {log}");
            }
        }
        assert_eq!((DoubleDouble::from(f64::MAX) + DoubleDouble::from(f64::MAX)).value(), f64::INFINITY);
    }

    #[test]
    fn small_parts_beside_large_ones_stay() {
        let large = DoubleDouble::from(1e16);
        let one = DoubleDouble::from(1.0);
        assert_eq!((large + one - large).value(), 1.0);
        assert_eq!((one + large * large - large * large).value(), 1.0);
        let third = one / DoubleDouble::from(3.0);
        assert!((third * DoubleDouble::from(3.0) - one).value().abs() < 1e-31);
        assert_eq!(large.max(one), large);
        assert_eq!((-large).max(one), one);
        assert_eq!(DoubleDouble::from(-1.0).sqrt(), DoubleDouble::default());
    }
}
