//! One-byte floats: decoding, and rounding to the nearest.

use super::floats::{Source, Target, to_odd};
use crate::values::numbers::{Odd, power_of_two, small_float};

/// Defines a one-byte float: exponent and mantissa bits, bias, and the meaning of its odd codes.
macro_rules! small_floats {
    ($($(#[$doc:meta])* $name:ident = $exponent:literal, $mantissa:literal, $bias:literal, $odd:expr;)*) => {$(
        $(#[$doc])*
        #[allow(non_camel_case_types, reason = "the names of the dtype table")]
        pub struct $name;

        impl Source<1> for $name {
            type Wide = f32;
            #[inline(always)]
            fn read([code]: [u8; 1]) -> f32 {
                small_float(code.into(), $exponent, $mantissa, $bias, $odd)
            }
        }

        impl Target<1, f32> for $name {
            #[inline(always)]
            fn write(value: f32) -> ([u8; 1], f32) {
                let code = nearest(value, $exponent, $mantissa, $bias, $odd);
                ([code], small_float(code.into(), $exponent, $mantissa, $bias, $odd))
            }
        }

        impl Target<1, f64> for $name {
            #[inline(always)]
            fn write(value: f64) -> ([u8; 1], f64) {
                let (bytes, narrow) = <$name as Target<1, f32>>::write(to_odd(value));
                (bytes, f64::from(narrow))
            }
        }
    )*};
}

small_floats! {
    /// OFP8 E4M3: no infinity; values that are too large become NaN.
    F8_E4M3 = 4, 3, 7, Odd::OneNan;
    /// OFP8 E5M2.
    F8_E5M2 = 5, 2, 15, Odd::Ieee;
    /// E4M3 without minus zero; bias 8.
    F8_E4M3FNUZ = 4, 3, 8, Odd::NanIsMinusZero;
    /// E5M2 without minus zero; bias 16.
    F8_E5M2FNUZ = 5, 2, 16, Odd::NanIsMinusZero;
}

#[allow(non_camel_case_types, reason = "the names of the dtype table")]
/// OCP MX scale: a power of two. Nothing is cast to it, since few values are one.
pub struct F8_E8M0;

impl Source<1> for F8_E8M0 {
    type Wide = f32;
    #[inline(always)]
    fn read([code]: [u8; 1]) -> f32 {
        power_of_two(code.into())
    }
}

/// The code of the nearest value, ties to even. Values that exceed the greatest by half a step or more become
/// infinite, or NaN if there is no infinity. Branch-free.
#[inline(always)]
fn nearest(value: f32, exponent_bits: u32, mantissa_bits: u32, bias: u32, odd: Odd) -> u8 {
    let sign = value.to_bits() >> 31;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let shift = 23 - mantissa_bits;
    let rebias = (127 - bias) << 23;
    let to_even = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    let normal = magnitude.wrapping_sub(rebias).wrapping_add(to_even) >> shift;
    // A number whose last bit is the step between subnormal codes: adding it rounds away what these cannot
    // hold.
    let step = f32::from_bits((127 + 23 + 1 - bias - mantissa_bits) << 23);
    let subnormal = (f32::from_bits(magnitude) + step).to_bits().wrapping_sub(step.to_bits());
    let all = (1 << (exponent_bits + mantissa_bits)) - 1;
    // The first code that is not a finite value.
    let end = match odd {
        Odd::Ieee => all & !((1 << mantissa_bits) - 1),
        Odd::OneNan => all,
        Odd::NanIsMinusZero | Odd::None => all + 1,
    };
    let is_small = magnitude < rebias + (1 << 23);
    let code = (if is_small { subnormal } else { normal }).min(end);
    let code = if magnitude >= 0x7f80_0000 { end } else { code };
    // An IEEE 754 NaN stays one; the other types have a single code for it.
    let quiet = if magnitude > 0x7f80_0000 && odd == Odd::Ieee { 1 << (mantissa_bits - 1) } else { 0 };
    let no_number = odd == Odd::NanIsMinusZero && code == end;
    let signed = code | quiet | sign << (exponent_bits + mantissa_bits);
    let minus_zero = 1 << (exponent_bits + mantissa_bits);
    let is_minus_zero = odd == Odd::NanIsMinusZero && signed == minus_zero;
    let whole = if no_number {
        minus_zero
    } else if is_minus_zero {
        0
    } else {
        signed
    };
    whole.to_le_bytes()[0]
}
