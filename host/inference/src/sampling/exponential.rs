//! The exponential function and the logarithm in plain arithmetic: a system's own differ in the last bit from machine to
//! machine, and the drawn token with them.

/// ln 2, rounded to 33 bits so that its multiples up to 2^11 are exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
/// The rest of ln 2.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this the result is 0.
const SMALLEST: f64 = -700.0;

/// e to the power of `x`, for `x` at most 0: within 2 units in the last place; 0 below −700.
pub fn exp(x: f64) -> f64 {
    // Not a number stays one.
    if x < SMALLEST {
        return 0.0;
    }
    let times = (x * std::f64::consts::LOG2_E).round();
    let rest = (x - times * LN_2_HIGH) - times * LN_2_LOW;
    // |rest| is at most ln 2 / 2, where the 14th term of the series is below 2^-60.
    let series = (1..=14).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from -1010 to 0, so positive"
    )]
    let exponent = (times + 1023.0) as u64;
    series * f64::from_bits(exponent << 52)
}

/// The natural logarithm of a number from 0 on, which is no subnormal one: within 4 units in the last place, or 1e-16 near 1.
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let bits = x.to_bits();
    // From 1 to 2.
    let part = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    #[allow(clippy::cast_precision_loss, reason = "at most 2047")]
    let times = (bits >> 52) as f64 - 1023.0;
    // At most a third, whose 39th power is below 2^-60.
    let ratio = (part - 1.0) / (part + 1.0);
    let square = ratio * ratio;
    let series = (0..20).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    times * LN_2_HIGH + (times * LN_2_LOW + 2.0 * ratio * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_function() {
        let mut worst = 0.0f64;
        for step in 0..70_000 {
            let x = -f64::from(step) * 0.01;
            worst = worst.max(((exp(x) - x.exp()) / x.exp()).abs());
        }
        assert!(worst < 5e-16, "{worst}");
        assert_eq!((exp(0.0), exp(-701.0), exp(f64::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn it_is_the_logarithm() {
        let mut worst = 0.0f64;
        for step in 1..70_000 {
            let x = f64::from(step) * 0.001;
            worst = worst.max((ln(x) - x.ln()).abs() / x.ln().abs().max(0.25));
        }
        assert!(worst < 1e-15, "{worst}");
        assert_eq!((ln(1.0), ln(0.0)), (0.0, f64::NEG_INFINITY));
    }
}
