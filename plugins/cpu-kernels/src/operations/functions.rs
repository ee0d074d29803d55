//! Elementary functions without branches, so that loops over them become vector code. In single precision within 2 units
//! in the last place; NaN gives NaN.

/// Adding this to a float of moderate size rounds it to a whole number, which its lowest bits then hold.
const ROUND: f32 = 12_582_912.0;
/// The same in double precision.
const ROUND_WIDE: f64 = 6_755_399_441_055_744.0;

/// 2^n for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n + 127).cast_unsigned() << 23)
}

/// e^x: 0 below −104, infinite above 89.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// The upper bits of ln 2, such that its product with any exponent is exact.
    const UPPER: f32 = 355.0 / 512.0;
    const LOWER: f32 = -2.121_944_4e-4;
    // Comparisons rather than `clamp`, for a NaN must remain.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let (n, whole) = (shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed(), shifted - ROUND);
    let r = (x - whole * UPPER) - whole * LOWER;
    // The minimax polynomial of the Cephes library.
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5.0e-1;
    let p = p * (r * r) + r + 1.0;
    // In two steps, for 2^n itself may be beyond the range.
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n - half)
}

/// e^x in double precision within 1e-14, for x from −700 to 700; x beyond is taken as the nearest of these.
#[inline(always)]
pub(crate) fn exp_wide(x: f64) -> f64 {
    const UPPER: f64 = 6.931_471_803_691_238e-1;
    const LOWER: f64 = 1.908_214_929_270_587_7e-10;
    let x = if x < -700.0 { -700.0 } else { x };
    let x = if x > 700.0 { 700.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND_WIDE;
    let n = shifted.to_bits().wrapping_sub(ROUND_WIDE.to_bits());
    let whole = shifted - ROUND_WIDE;
    let r = (x - whole * UPPER) - whole * LOWER;
    // Taylor's series, whose next term is below 1e-14 for |r| up to half of ln 2.
    let mut p = 1.0 / 39_916_800.0;
    for factorial in [3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        p = p * r + 1.0 / factorial;
    }
    p * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// 1 / (1 + e^−x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// tanh x.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let wide = f64::from(x);
    let e = exp_wide(-2.0 * wide.abs());
    let ratio = narrow(((1.0 - e) / (1.0 + e)).copysign(wide));
    // Near zero the difference 1 − e has lost its digits, and the function is its argument.
    if x.abs() < 1e-5 { x } else { ratio }
}

/// The distribution function of the standard normal distribution, Φ(x) = erfc(−x/√2) / 2, within 1e-9 relative.
#[inline(always)]
pub(crate) fn normal_distribution(x: f32) -> f64 {
    /// Chebyshev coefficients of ln(erfc(z) / t) + z² over 2t − 1, where t = 2 / (2 + z). Fitted for this file: the
    /// largest relative error of erfc(z) for z from 0 to 15 is 1.1e-10.
    const COEFFICIENTS: [f64; 16] = [
        -1.302_653_719_781_660_1,
        0.641_969_792_356_448_6,
        0.019_476_473_204_205_14,
        -0.009_561_514_786_799_355,
        -0.000_946_595_344_516_707_5,
        0.000_366_839_497_900_938_57,
        4.252_332_476_124_332e-5,
        -2.027_857_808_475_475e-5,
        -1.624_290_005_720_619e-6,
        1.303_655_809_684_611_8e-6,
        1.562_648_565_434_088_2e-8,
        -8.523_814_316_041_546e-8,
        6.529_088_827_367_247e-9,
        5.059_333_095_802_643e-9,
        -9.913_804_477_346_134e-10,
        -2.273_282_528_886_255_8e-10,
    ];
    let wide = f64::from(x);
    let z = wide.abs() * std::f64::consts::FRAC_1_SQRT_2;
    let t = 2.0 / (2.0 + z);
    let y = 4.0 * t - 2.0;
    let (mut d, mut before) = (0.0, 0.0);
    for coefficient in COEFFICIENTS[1..].iter().rev() {
        (d, before) = (y * d - before + coefficient, d);
    }
    let tail = 0.5 * t * exp_wide(0.5 * (COEFFICIENTS[0] + y * d) - before - z * z);
    if wide < 0.0 { tail } else { 1.0 - tail }
}

/// Rounds to single precision.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
pub(crate) fn narrow(x: f64) -> f32 {
    x as f32
}

/// A count as a float.
#[inline(always)]
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(have: f32, want: f64, x: f32) {
        let want_narrow = narrow(want);
        let unit = f64::from(f32::from_bits(want_narrow.abs().to_bits() + 1)) - f64::from(want_narrow.abs());
        let error = (f64::from(have) - want).abs() / unit;
        assert!(error <= 2.0, "{x}: {have} for {want}, {error} units");
    }

    #[test]
    fn functions_are_within_two_units() {
        for step in -100_000..100_000i32 {
            let x = step as f32 * 8e-4;
            close(exp(x), f64::from(x).exp(), x);
            close(tanh(x), f64::from(x).tanh(), x);
        }
        for (x, want) in [(-104.5, 0.0), (89.5, f32::INFINITY), (f32::NEG_INFINITY, 0.0), (0.0, 1.0)] {
            assert_eq!(exp(x), want, "{x}");
        }
        for x in [1e-30f32, 3e-6, 1.1e-5, -2e-4] {
            close(tanh(x), f64::from(x).tanh(), x);
        }
        assert_eq!([exp(f32::INFINITY), tanh(f32::INFINITY), tanh(-1e30)], [f32::INFINITY, 1.0, -1.0]);
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn the_normal_distribution_is_that_of_tables() {
        for (x, want) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-1.0, 0.158_655_253_931_457_05),
            (-2.5, 0.006_209_665_325_776_132),
            (3.0, 0.998_650_101_968_369_9),
            (-5.0, 2.866_515_718_791_939e-7),
            (-8.0, 6.220_960_574_271_785e-16),
        ] {
            assert!((normal_distribution(x) / want - 1.0).abs() < 1e-9, "{x}");
        }
        assert!(normal_distribution(f32::NAN).is_nan());
    }
}
