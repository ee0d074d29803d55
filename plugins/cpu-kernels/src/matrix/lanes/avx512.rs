//! Sixteen lanes in one register of AVX-512, with VNNI.

// Each function is one expression of intrinsics, whose instructions and bytes the trait's contract promises: an
// unsafe block in each would say the same again.
#![allow(unsafe_op_in_unsafe_fn, reason = "each function is one expression; see the trait's contract")]

use super::{Lanes, four, shuffle_of};
use std::arch::asm;
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy)]
pub struct Avx512;

// SAFETY: intrinsics of F, BW and VNNI alone, which the caller enables; memory is reached through `loadu`, `storeu` and
// `read_unaligned` of as many bytes as the trait says.
unsafe impl Lanes for Avx512 {
    type Bytes = __m512i;
    type Ints = __m512i;
    type Floats = __m512;

    const FEW: bool = false;
    const TOKENS: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        _mm512_loadu_si512(from.cast())
    }

    #[inline(always)]
    unsafe fn splat(bytes: u32) -> __m512i {
        _mm512_set1_epi32(bytes.cast_signed())
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }

    #[inline(always)]
    unsafe fn right(a: __m512i, bits: u32) -> __m512i {
        _mm512_srlv_epi32(a, _mm512_set1_epi32(bits.cast_signed()))
    }

    #[inline(always)]
    unsafe fn left(a: __m512i, bits: u32) -> __m512i {
        _mm512_sllv_epi32(a, _mm512_set1_epi32(bits.cast_signed()))
    }

    #[inline(always)]
    unsafe fn fifths(a: __m512i, first: usize) -> __m512i {
        let (byte, bits) = shuffle_of(first);
        let chosen = _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(byte));
        _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(chosen, Self::splat(bits)), Self::splat(0x1010_1010))
    }

    #[inline(always)]
    unsafe fn splat_int(int: i32) -> __m512i {
        _mm512_set1_epi32(int)
    }

    #[inline(always)]
    unsafe fn byte(a: __m512i, byte: u32) -> __m512i {
        _mm512_and_si512(Self::right(a, 8 * byte), _mm512_set1_epi32(0xff))
    }

    #[inline(always)]
    unsafe fn signed_byte(a: __m512i, byte: u32) -> __m512i {
        _mm512_srai_epi32::<24>(Self::left(a, 24 - 8 * byte))
    }

    #[inline(always)]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn times_128(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<7>(a)
    }

    #[inline(always)]
    unsafe fn dot(offset: i32, codes: &[__m512i], _most: i32, x: *const u8) -> __m512i {
        let mut sum = _mm512_set1_epi32(offset);
        for (n, codes) in codes.iter().enumerate() {
            sum = _mm512_dpbusd_epi32(sum, *codes, _mm512_set1_epi32(four(x.add(4 * n))));
        }
        sum
    }

    #[inline(always)]
    unsafe fn dot_scaled(
        sum: __m512i,
        offset: i32,
        codes: &[__m512i],
        most: i32,
        x: *const u8,
        scale: __m512i,
    ) -> __m512i {
        _mm512_add_epi32(sum, _mm512_mullo_epi32(Self::dot(offset, codes, most, x), scale))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn settled(a: __m512i) -> __m512i {
        let mut all = a;
        asm!("/* {0} */", inout(zmm_reg) all, options(nostack, preserves_flags));
        all
    }

    #[inline(always)]
    unsafe fn to_floats(ints: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(ints)
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m512 {
        _mm512_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: __m512) {
        _mm512_storeu_ps(to, floats);
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_bfloats(from: *const u8) -> __m512 {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }

    #[inline(always)]
    unsafe fn splat_float(float: f32) -> __m512 {
        _mm512_set1_ps(float)
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }

    #[inline(always)]
    unsafe fn add_floats(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }

    #[inline(always)]
    unsafe fn mul_sub_from(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fnmadd_ps(a, b, c)
    }
}
