//! Floats of four bits, E2M1, as MXFP4 and NVFP4 have them.

/// Twice the value of each code (OCP Microscaling Formats 1.0, section 5.3.3).
pub const VALUES: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Where the nearest magnitude changes; in the middle, the lesser counts.
const MIDDLES: [f32; 7] = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0];
/// The largest half scale whose products are all finite.
const LARGEST_HALF_SCALE: f32 = f32::from_bits(0x7d80_0000);

/// From so many half scales on, distances that differ may be rounded to the same.
const FAR: f32 = 24.0;

/// For each element the code whose value, times half of a scale, is nearest; of several, the first. So -0.0 is never chosen.
///
/// Near the middle of two values both distances are exact, so that a comparison with the middle decides as theirs does.
#[inline(always)]
pub fn nearest<const N: usize>(values: &[f32; N], half_scale: f32) -> [u8; N] {
    // With no scale, all distances are equal; to what lies far beyond the largest value, several are.
    let is_far = values.iter().fold(false, |far, value| far | (value.abs() > FAR * half_scale));
    if is_far || half_scale == 0.0 || half_scale > LARGEST_HALF_SCALE {
        return values.map(|value| nearest_of_all(value, half_scale));
    }
    let mut codes = [0; N];
    for (code, value) in codes.iter_mut().zip(values) {
        let mut magnitude = 0u32;
        for middle in MIDDLES {
            magnitude += u32::from(value.abs() > middle * half_scale);
        }
        let is_negative = *value < 0.0 && magnitude > 0;
        [*code, ..] = (magnitude + u32::from(is_negative) * 8).to_le_bytes();
    }
    codes
}

/// The same, by all distances: what is meant, also where a product is infinite.
fn nearest_of_all(value: f32, half_scale: f32) -> u8 {
    let (mut nearest, mut least) = (0, (VALUES[0] * half_scale - value).abs());
    for (code, of_code) in (0u8..).zip(VALUES).skip(1) {
        let error = (of_code * half_scale - value).abs();
        if error < least {
            (nearest, least) = (code, error);
        }
    }
    nearest
}

/// How many of the floats just below 2^n, counted in steps of 2^(n - 24), have a logarithm that rounds to n, by the exponent
/// of |n|: ln 2 * 2^exponent, cut to an integer. For n a power of two the floats below n lie twice as dense.
const ROUNDED_UP: [u32; 8] = [0, 1, 2, 5, 11, 22, 44, 88];

/// The whole part of the logarithm to base 2, rounded to a float before, of a positive number: so the last floats before a
/// power of two count as that.
#[inline(always)]
pub fn floor_log2(value: f32) -> f32 {
    let bits = value.to_bits();
    // A subnormal is made normal first.
    let shift = if bits < 0x0080_0000 { bits.leading_zeros() - 8 } else { 0 };
    let (exponent, mantissa) = (bits >> 23, bits << shift & 0x007f_ffff);
    let next = exponent.max(1).cast_signed() - 126 - shift.cast_signed();
    let dense = u32::from(next > 0 && next.cast_unsigned().is_power_of_two());
    let of_next = next.unsigned_abs().checked_ilog2().unwrap_or(0);
    let above = if of_next < dense || next == 0 { 0 } else { ROUNDED_UP[(of_next - dense) as usize] };
    let rounds_up = 0x0080_0000 - mantissa <= above;
    // Small integers: exact.
    f32::from(i16::try_from(next - i32::from(!rounds_up)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_decide_as_distances_do() {
        let check = |value: f32, half_scale: f32| {
            let want = nearest_of_all(value, half_scale);
            assert_eq!(nearest(&[value], half_scale), [want], "{value:e} {half_scale:e}");
        };
        // Scales of NVFP4 have four bits of mantissa, those of MXFP4 one; from the least to the largest.
        let scales = (0..16).flat_map(|eighths| {
            (1..251).map(move |exponent: u32| f32::from_bits(exponent << 23 | eighths << 20 & 0x007f_ffff))
        });
        let least = [0.0, f32::from_bits(0x0020_0000), f32::from_bits(0x0040_0000), LARGEST_HALF_SCALE];
        for half_scale in scales.chain(least) {
            for middle in MIDDLES.iter().chain(&VALUES[..8]) {
                let bits = (middle * half_scale).to_bits();
                for bits in bits.saturating_sub(40)..bits + 40 {
                    check(f32::from_bits(bits), half_scale);
                    check(-f32::from_bits(bits), half_scale);
                }
            }
        }
    }

    #[test]
    fn of_equal_distances_the_first_decides() {
        for half_scale in [224.0, 1.0, f32::from_bits(0x0040_0000)] {
            for power in 0..120u8 {
                let value = half_scale * 1.7 * f32::from(power).exp2();
                assert_eq!(nearest(&[value], half_scale), [nearest_of_all(value, half_scale)], "{value:e}");
                assert_eq!(nearest(&[-value], half_scale), [nearest_of_all(-value, half_scale)], "{value:e}");
            }
        }
        assert_eq!(nearest(&[1e30, -1e30, 448.0], 224.0), [0, 0, 2]);
    }

    #[test]
    fn logarithms_are_those_of_the_c_library() {
        // glibc's log2f is the rounded f64 wherever that matters here.
        let check = |bits: u32| {
            let value = f32::from_bits(bits);
            #[allow(clippy::cast_possible_truncation, reason = "the rounding that is asked for")]
            let want = (f64::from(value).log2() as f32).floor();
            assert_eq!(floor_log2(value), want, "{value:e} {bits:08x}");
        };
        for binade in 1..255u32 {
            (0..300).for_each(|below| check((binade << 23).saturating_sub(below).max(1)));
            (0..0x0080_0000).step_by(65_537).for_each(|mantissa| check(binade << 23 | mantissa));
        }
        (0..300).for_each(|below| check(0x7f7f_ffff - below));
        for bit in 0..23u32 {
            (0..300).for_each(|below| check((1u32 << bit).saturating_sub(below).max(1)));
        }
    }
}
