//! Conversions between `f32` and the two 16-bit floats: IEEE 754 binary16 and bfloat16. Branch-free, so that
//! loops over them vectorize.

/// Widens a binary16. A NaN keeps its payload.
#[inline(always)]
pub fn from_f16(bits: u16) -> f32 {
    const LEADING: u32 = 1 << 23;
    const REBIAS: u32 = (127 - 15) << 23;
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let is_subnormal = if magnitude < 0x400 { u32::MAX } else { 0 };
    let is_odd = if magnitude >= 0x7c00 { u32::MAX } else { 0 };
    // Shift the exponent into place. Subnormals, read as if they had the leading bit, lose it in one exact
    // subtraction: multiplying by a subnormal would be slow.
    let moved = (magnitude << 13) + REBIAS + (is_subnormal & LEADING) + (is_odd & REBIAS);
    let lowered = (f32::from_bits(moved) - f32::from_bits(REBIAS + LEADING)).to_bits();
    f32::from_bits(lowered & is_subnormal | moved & !is_subnormal | sign)
}

/// Rounds to the nearest binary16, ties to even; 65520 and above become infinity. A NaN becomes quiet and
/// keeps the upper bits of its payload.
#[inline(always)]
pub fn to_f16(value: f32) -> u16 {
    /// Large enough that adding it rounds away whatever a subnormal binary16 cannot hold.
    const SHIFT: f32 = 0.5;
    const REBIAS: u32 = (127 - 15) << 23;
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let subnormal = (f32::from_bits(magnitude) + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits());
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let large = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    low_half(sign | if magnitude < 0x4780_0000 { finite } else { large })
}

/// Widens a bfloat16: `bits` become the upper half, the lower half is 0.
#[inline(always)]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bfloat16, ties to even. A NaN becomes quiet and keeps the upper bits of its payload.
#[inline(always)]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    low_half(if value.is_nan() { bits >> 16 | 0x40 } else { nearest })
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the upper half is left out on purpose")]
fn low_half(bits: u32) -> u16 {
    bits as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_has_the_value_of_its_definition_and_comes_back() {
        for bits in 0..=u16::MAX {
            let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
            let exponent = i32::from(bits >> 10 & 0x1f);
            let fraction = f32::from(bits & 0x3ff);
            let wanted = match exponent {
                0 => sign * fraction * 2f32.powi(-24),
                31 if fraction == 0.0 => sign * f32::INFINITY,
                31 => f32::from_bits(
                    u32::from(bits & 0x8000) << 16 | 0x7f80_0000 | u32::from(bits & 0x3ff) << 13,
                ),
                _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
            };
            let value = from_f16(bits);
            assert_eq!(value.to_bits(), wanted.to_bits(), "{bits:04x}");
            assert_eq!(to_f16(value), bits | if value.is_nan() { 0x200 } else { 0 }, "{bits:04x}");
        }
    }

    #[test]
    fn f16_are_rounded_to_even() {
        for bits in 0..0x7c00u16 {
            let [low, high] = [bits, bits + 1].map(from_f16);
            let middle = if high.is_finite() { low / 2.0 + high / 2.0 } else { 65520.0 };
            let even = bits + (bits & 1);
            assert_eq!(to_f16(middle), even, "{middle}");
            assert_eq!(to_f16(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(to_f16(-f32::from_bits(middle.to_bits() + 1)), 0x8000 | (bits + 1));
        }
        assert_eq!([f32::MAX, f32::INFINITY, -65536.0].map(to_f16), [0x7c00, 0x7c00, 0xfc00]);
        assert_eq!([f32::MIN_POSITIVE, -0.0].map(to_f16), [0, 0x8000]);
    }

    #[test]
    fn bf16_are_rounded_to_even_and_come_back() {
        for bits in 0..=u16::MAX {
            let value = from_bf16(bits);
            assert_eq!(to_bf16(value), bits | if value.is_nan() { 0x40 } else { 0 });
            if !value.is_finite() {
                continue;
            }
            let rounded =
                [0x7fff, 0x8000, 0x8001].map(|rest| to_bf16(f32::from_bits(value.to_bits() | rest)));
            assert_eq!(rounded, [bits, bits + (bits & 1), bits + 1], "{bits:04x}");
        }
    }
}
