//! Floats of four bits, E2M1, as MXFP4 and NVFP4 have them.

/// Twice the value of each code (OCP Microscaling Formats 1.0, section 5.3.3).
pub const VALUES: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// For each element the code whose value, times a scale, is nearest; of several, the first. So -0.0 is never chosen.
#[inline(always)]
pub fn nearest<const N: usize>(values: &[f32; N], scale: f32) -> [u8; N] {
    let (mut codes, mut least) = ([0u32; N], values.map(|value| (VALUES[0] * scale - value).abs()));
    for (code, of_code) in (0u32..).zip(VALUES).skip(1) {
        let product = of_code * scale;
        for ((found, least), value) in codes.iter_mut().zip(&mut least).zip(values) {
            let error = (product - value).abs();
            let nearer = error < *least;
            *found = if nearer { code } else { *found };
            *least = if nearer { error } else { *least };
        }
    }
    codes.map(|code| code.to_le_bytes()[0])
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
