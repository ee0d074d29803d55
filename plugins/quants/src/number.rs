//! Numbers as ggml's x86-64 code sees them: rounding, conversions and half precision, each exact for every input.

pub use apr_sdk::half::from_f16;
use apr_sdk::half::to_f16;

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
#[inline(always)]
pub fn half(value: f32) -> u16 {
    let half = to_f16(value);
    if value.is_nan() { half & 0xfe00 } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_the_quiet_half_of_its_sign() {
        for bits in 0..=u16::MAX {
            let value = from_f16(bits);
            assert_eq!(half(value), if value.is_nan() { bits & 0x8000 | 0x7e00 } else { bits }, "{value}");
        }
        assert_eq!([0x7f80_0001, 0xffff_ffff].map(|bits| half(f32::from_bits(bits))), [0x7e00, 0xfe00]);
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
