//! The float types that can be cast, and rounding to the nearest value of another type.

use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};

/// An intermediate value: wide enough for everything that is done to it.
pub trait Wide: Copy + PartialEq {
    /// Returns whether it is neither infinite nor NaN.
    fn finite(self) -> bool;
    /// The sum, rounded to the nearest value.
    fn plus(self, c: f32) -> Self;
    /// Returns whether the bits are the same: zeros of both signs differ.
    fn same_bits(self, other: Self) -> bool;
}

impl Wide for f32 {
    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }

    #[inline(always)]
    fn plus(self, c: f32) -> f32 {
        self + c
    }

    #[inline(always)]
    fn same_bits(self, other: f32) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Wide for f64 {
    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }

    #[inline(always)]
    fn plus(self, c: f32) -> f64 {
        self + f64::from(c)
    }

    #[inline(always)]
    fn same_bits(self, other: f64) -> bool {
        self.to_bits() == other.to_bits()
    }
}

/// A type to cast from, with elements of `N` bytes.
pub trait Source<const N: usize> {
    /// A type that holds all its values.
    type Wide: Wide;
    /// Decodes an element.
    fn read(bytes: [u8; N]) -> Self::Wide;
}

/// A type to cast to.
pub trait Target<const N: usize, W> {
    /// Encodes the nearest value; returns its bytes and that value.
    fn write(value: W) -> ([u8; N], W);
}

/// IEEE 754 binary64.
pub struct F64;
/// IEEE 754 binary32.
pub struct F32;
/// IEEE 754 binary16.
pub struct F16;
/// bfloat16: the upper half of a binary32.
pub struct BF16;
impl Source<8> for F64 {
    type Wide = f64;
    #[inline(always)]
    fn read(bytes: [u8; 8]) -> f64 {
        f64::from_le_bytes(bytes)
    }
}

impl Source<4> for F32 {
    type Wide = f32;
    #[inline(always)]
    fn read(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
}

impl Source<2> for F16 {
    type Wide = f32;
    #[inline(always)]
    fn read(bytes: [u8; 2]) -> f32 {
        from_f16(u16::from_le_bytes(bytes))
    }
}

impl Source<2> for BF16 {
    type Wide = f32;
    #[inline(always)]
    fn read(bytes: [u8; 2]) -> f32 {
        from_bf16(u16::from_le_bytes(bytes))
    }
}

impl Target<8, f64> for F64 {
    #[inline(always)]
    fn write(value: f64) -> ([u8; 8], f64) {
        (value.to_le_bytes(), value)
    }
}

impl Target<8, f32> for F64 {
    #[inline(always)]
    fn write(value: f32) -> ([u8; 8], f32) {
        let bits = u64::from(value.to_bits());
        // Copied bit by bit, because processors make a signalling NaN quiet.
        let nan = (bits & 0x8000_0000) << 32 | 0x7ff << 52 | (bits & 0x7f_ffff) << 29;
        let wide = if value.is_nan() { nan } else { f64::from(value).to_bits() };
        (wide.to_le_bytes(), value)
    }
}

impl Target<4, f32> for F32 {
    #[inline(always)]
    fn write(value: f32) -> ([u8; 4], f32) {
        (value.to_le_bytes(), value)
    }
}

impl Target<4, f64> for F32 {
    #[inline(always)]
    fn write(value: f64) -> ([u8; 4], f64) {
        let narrow = to_single(value);
        (narrow.to_le_bytes(), f64::from(narrow))
    }
}

impl Target<2, f32> for F16 {
    #[inline(always)]
    fn write(value: f32) -> ([u8; 2], f32) {
        let bits = to_f16(value);
        (bits.to_le_bytes(), from_f16(bits))
    }
}

impl Target<2, f32> for BF16 {
    #[inline(always)]
    fn write(value: f32) -> ([u8; 2], f32) {
        let bits = to_bf16(value);
        (bits.to_le_bytes(), from_bf16(bits))
    }
}

/// Rounding an `f64` by way of the odd `f32` gives the same result as rounding it directly.
macro_rules! by_way_of_f32 {
    ($($type:ty),*) => {$(
        impl Target<2, f64> for $type {
            #[inline(always)]
            fn write(value: f64) -> ([u8; 2], f64) {
                let (bytes, narrow) = <$type as Target<2, f32>>::write(to_odd(value));
                (bytes, f64::from(narrow))
            }
        }
    )*};
}

by_way_of_f32!(F16, BF16);

/// The nearest `f32`.
#[inline(always)]
fn to_single(value: f64) -> f32 {
    let bits = value.to_bits();
    let [low, high] = [bits >> 29, bits >> 32].map(|n| u32::try_from(n & 0xffff_ffff).unwrap_or(0));
    let nan = high & 0x8000_0000 | 0x7fc0_0000 | low & 0x3f_ffff;
    #[allow(clippy::cast_possible_truncation, reason = "rounded on purpose")]
    let narrow = value as f32;
    if value.is_nan() { f32::from_bits(nan) } else { narrow }
}

/// Rounds to odd: towards zero, then to the neighbour away from zero if that is even. Rounding the result
/// again, to at most 22 bits, is then the same as rounding once (Boldo and Melquiond 2008, "Emulation of FMA
/// and correctly rounded sums").
#[inline(always)]
pub(super) fn to_odd(value: f64) -> f32 {
    let near = to_single(value);
    let wide = f64::from(near);
    let towards_zero = near.to_bits().wrapping_sub(u32::from(wide.abs() > value.abs()));
    if wide == value || value.is_nan() { near } else { f32::from_bits(towards_zero | 1) }
}
