//! Numbers as ggml's x86-64 code sees them: rounding, conversions and half precision, each exact for every input.

/// The nearest integer, ties to even, for magnitudes up to 4194303; beyond that, and for what is no number, whatever the
/// addition of 1.5 · 2²³ leaves in the low 23 bits, as ggml has it.
#[inline(always)]
pub fn nearest_int(value: f32) -> i32 {
    let bits = (value + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// C's `(int)value` on x86-64: towards zero; `i32::MIN` for what is no number and for what does not fit.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the values that do not fit are answered before")]
pub fn truncated(value: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 } else { i32::MIN }
}

/// The low byte of C's `(int8_t)value` or `(uint8_t)value` on x86-64.
#[inline(always)]
pub fn low_byte(value: f32) -> u8 {
    truncated(value).to_le_bytes()[0]
}

/// One more than C's `lroundf(value)` of a value from -1 to 1.
#[inline(always)]
pub fn nearest_digit(value: f32) -> u8 {
    1 + u8::from(value >= 0.5) - u8::from(value <= -0.5)
}

/// The bits of the nearest half, ties to even; what is no number becomes the quiet one with its sign.
pub fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= 0x477f_f000 {
        // 65520 and above round to infinity.
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal halves: the exponent is moved, and 13 bits are rounded off.
        let odd = magnitude >> 13 & 1;
        (magnitude - 0x3800_0000 + 0xfff + odd) >> 13
    } else {
        // Subnormal halves: adding 0.5 leaves multiples of 2⁻²⁴ in the low bits, rounded by the addition.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
    };
    // 16 bits by construction.
    let [low, high, ..] = (sign | half).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The value of a half.
pub fn from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10 & 0x1f);
    let mantissa = u32::from(half & 0x3ff);
    let magnitude = match exponent {
        // Exact: a multiple of 2⁻²⁴ below 2⁻¹⁴.
        0 => (f32::from(half & 0x3ff) * f32::from_bits(0x3380_0000)).to_bits(),
        31 => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            if value.is_nan() {
                assert_eq!(half(value), bits & 0x8000 | 0x7e00);
            } else {
                assert_eq!(half(value), bits, "{value}");
            }
        }
    }

    #[test]
    fn halves_are_rounded_to_even() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (from_half(bits), from_half(bits + 1));
            let middle = if high.is_finite() { low / 2.0 + high / 2.0 } else { 65520.0 };
            let even = bits + (bits & 1);
            assert_eq!(half(middle), even, "{middle}");
            assert_eq!(half(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(half(-f32::from_bits(middle.to_bits() + 1)), 0x8000 | (bits + 1));
        }
    }

    #[test]
    fn integers_are_the_nearest_and_odd_input_is_as_on_x86() {
        for (value, want) in
            [(0.5, 0), (1.5, 2), (-2.5, -2), (4_194_303.0, 4_194_303), (f32::INFINITY, -4_194_304)]
        {
            assert_eq!(nearest_int(value), want, "{value}");
        }
        for (value, want) in
            [(-1.9, -1), (1e10, i32::MIN), (f32::NAN, i32::MIN), (-2_147_483_648.0, i32::MIN), (255.9, 255)]
        {
            assert_eq!(truncated(value), want, "{value}");
        }
        assert_eq!(low_byte(f32::INFINITY), 0);
        assert_eq!(low_byte(-1.0), 0xff);
    }
}
