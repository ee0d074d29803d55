//! Sixteen lanes in two registers of AVX2.

// Each function is one expression of intrinsics, whose instructions and bytes the trait's contract promises: an
// unsafe block in each would say the same again.
#![allow(unsafe_op_in_unsafe_fn, reason = "each function is one expression; see the trait's contract")]

use super::{Lanes, MOST_UNSIGNED, four, shuffle_of};
use std::arch::asm;
use std::arch::x86_64::*;

/// AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub struct Avx2;

/// Lanes 0 to 7 and 8 to 15.
type Two = [__m256i; 2];

/// As [`Two`], of floats.
type TwoFloats = [__m256; 2];

/// An intrinsic on both registers. (A function that is handed another would not be inlined for certain.)
macro_rules! both {
    ($of:ident $(::<$constant:tt>)?($($value:expr),*)) => {
        [$of$(::<$constant>)?($($value[0]),*), $of$(::<$constant>)?($($value[1]),*)]
    };
}

/// How many products of pairs fit a sum of 16 bits: 2 * 127 * `most` each.
const fn fitting(most: i32) -> usize {
    if most <= 15 {
        8
    } else if most <= 31 {
        4
    } else {
        2
    }
}

/// The products of codes with activations, summed in pairs: up to [`fitting`] registers.
#[inline(always)]
unsafe fn pairs(codes: &[Two], x: *const u8) -> Two {
    let mut sums = [_mm256_setzero_si256(); 2];
    for (n, codes) in codes.iter().enumerate() {
        let x = _mm256_set1_epi32(four(x.add(4 * n)));
        for half in 0..2 {
            sums[half] = _mm256_add_epi16(sums[half], _mm256_maddubs_epi16(codes[half], x));
        }
    }
    sums
}

/// The products of one register of codes that are signed ones with 128 added. Pairs reach 2 * 127 * 128, and fit.
#[inline(always)]
unsafe fn signed_pairs(codes: Two, x: *const u8) -> Two {
    let (x, sign) = ([_mm256_set1_epi32(four(x)); 2], [_mm256_set1_epi8(-128); 2]);
    let signed = both!(_mm256_xor_si256(codes, sign));
    let (magnitude, x) = (both!(_mm256_abs_epi8(signed)), both!(_mm256_sign_epi8(x, signed)));
    both!(_mm256_maddubs_epi16(magnitude, x))
}

/// `sum` plus the sums of neighbours in `pairs` times `factor`, which stands in both halves of each lane.
#[inline(always)]
unsafe fn widened(sum: Two, pairs: Two, factor: Two) -> Two {
    let products = both!(_mm256_madd_epi16(pairs, factor));
    both!(_mm256_add_epi32(sum, products))
}

// SAFETY: intrinsics of AVX2, FMA and F16C alone, which the caller enables; memory is reached through `loadu`, `storeu`
// and `read_unaligned` of as many bytes as the trait says.
unsafe impl Lanes for Avx2 {
    type Bytes = Two;
    type Ints = Two;
    type Floats = TwoFloats;

    const FEW: bool = true;
    const TOKENS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Two {
        [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())]
    }

    #[inline(always)]
    unsafe fn splat(bytes: u32) -> Two {
        [_mm256_set1_epi32(bytes.cast_signed()); 2]
    }

    #[inline(always)]
    unsafe fn and(a: Two, b: Two) -> Two {
        both!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    unsafe fn or(a: Two, b: Two) -> Two {
        both!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    unsafe fn xor(a: Two, b: Two) -> Two {
        both!(_mm256_xor_si256(a, b))
    }

    #[inline(always)]
    unsafe fn right(a: Two, bits: u32) -> Two {
        let bits = Self::splat(bits);
        both!(_mm256_srlv_epi32(a, bits))
    }

    #[inline(always)]
    unsafe fn left(a: Two, bits: u32) -> Two {
        let bits = Self::splat(bits);
        both!(_mm256_sllv_epi32(a, bits))
    }

    #[inline(always)]
    unsafe fn fifths(a: Two, first: usize) -> Two {
        let (byte, bits) = shuffle_of(first);
        let (byte, bits) = ([_mm256_broadcastsi128_si256(byte); 2], Self::splat(bits));
        let chosen = Self::and(both!(_mm256_shuffle_epi8(a, byte)), bits);
        Self::and(both!(_mm256_cmpeq_epi8(chosen, bits)), Self::splat(0x1010_1010))
    }

    #[inline(always)]
    unsafe fn splat_int(int: i32) -> Two {
        [_mm256_set1_epi32(int); 2]
    }

    #[inline(always)]
    unsafe fn byte(a: Two, byte: u32) -> Two {
        Self::and(Self::right(a, 8 * byte), Self::splat(0xff))
    }

    #[inline(always)]
    unsafe fn signed_byte(a: Two, byte: u32) -> Two {
        let a = Self::left(a, 24 - 8 * byte);
        both!(_mm256_srai_epi32::<24>(a))
    }

    #[inline(always)]
    unsafe fn add(a: Two, b: Two) -> Two {
        both!(_mm256_add_epi32(a, b))
    }

    #[inline(always)]
    unsafe fn times_128(a: Two) -> Two {
        both!(_mm256_slli_epi32::<7>(a))
    }

    #[inline(always)]
    unsafe fn dot(offset: i32, codes: &[Two], most: i32, x: *const u8) -> Two {
        let one = [_mm256_set1_epi16(1); 2];
        if most > MOST_UNSIGNED {
            let mut sum = [_mm256_setzero_si256(); 2];
            for (n, codes) in codes.iter().enumerate() {
                sum = widened(sum, signed_pairs(*codes, x.add(4 * n)), one);
            }
            return sum;
        }
        let mut sum = Self::splat_int(offset);
        for (n, codes) in codes.chunks(fitting(most)).enumerate() {
            sum = widened(sum, pairs(codes, x.add(4 * fitting(most) * n)), one);
        }
        sum
    }

    #[inline(always)]
    unsafe fn dot_scaled(
        mut sum: Two,
        offset: i32,
        codes: &[Two],
        most: i32,
        x: *const u8,
        scale: Two,
    ) -> Two {
        // A scale fits 16 bits: its lower half, in both halves of the lane. So it takes the place of the ones that sum pairs.
        let low = Self::and(scale, Self::splat(0xffff));
        let both = Self::or(low, Self::left(scale, 16));
        if most > MOST_UNSIGNED {
            for (n, codes) in codes.iter().enumerate() {
                sum = widened(sum, signed_pairs(*codes, x.add(4 * n)), both);
            }
            return sum;
        }
        for (n, codes) in codes.chunks(fitting(most)).enumerate() {
            sum = widened(sum, pairs(codes, x.add(4 * fitting(most) * n)), both);
        }
        if offset == 0 {
            return sum;
        }
        let offset = Self::splat_int(offset);
        Self::add(sum, both!(_mm256_mullo_epi32(scale, offset)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn settled(a: Two) -> Two {
        let [mut low, mut high] = a;
        asm!("/* {0} {1} */", inout(ymm_reg) low, inout(ymm_reg) high, options(nostack, preserves_flags));
        [low, high]
    }

    #[inline(always)]
    unsafe fn to_floats(ints: Two) -> TwoFloats {
        both!(_mm256_cvtepi32_ps(ints))
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> TwoFloats {
        [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: TwoFloats) {
        _mm256_storeu_ps(to, floats[0]);
        _mm256_storeu_ps(to.add(8), floats[1]);
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> TwoFloats {
        let halves = [_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast())];
        both!(_mm256_cvtph_ps(halves))
    }

    #[inline(always)]
    unsafe fn load_bfloats(from: *const u8) -> TwoFloats {
        let halves = [_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast())];
        let wide = both!(_mm256_cvtepu16_epi32(halves));
        let upper = both!(_mm256_slli_epi32::<16>(wide));
        both!(_mm256_castsi256_ps(upper))
    }

    #[inline(always)]
    unsafe fn splat_float(float: f32) -> TwoFloats {
        [_mm256_set1_ps(float); 2]
    }

    #[inline(always)]
    unsafe fn mul(a: TwoFloats, b: TwoFloats) -> TwoFloats {
        both!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    unsafe fn add_floats(a: TwoFloats, b: TwoFloats) -> TwoFloats {
        both!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    unsafe fn mul_add(a: TwoFloats, b: TwoFloats, c: TwoFloats) -> TwoFloats {
        both!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    unsafe fn mul_sub_from(a: TwoFloats, b: TwoFloats, c: TwoFloats) -> TwoFloats {
        both!(_mm256_fnmadd_ps(a, b, c))
    }
}
