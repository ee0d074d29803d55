//! Sixteen lanes: AVX-512 F, BW, DQ and VL.

#![allow(
    unsafe_code,
    reason = "intrinsics: `call!` for those on values, and one block with its reason for each load and store"
)]

use super::call::call;
use super::{Floats, Ints, Lanes, Mask};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Not, Sub};

/// The proof that this machine has AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The machine has AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

/// Sixteen floats.
#[derive(Clone, Copy)]
pub struct Floats16(__m512);
/// Sixteen integers.
#[derive(Clone, Copy)]
pub struct Ints16(__m512i);
/// Sixteen truth values: a bit each.
#[derive(Clone, Copy)]
pub struct Mask16(__mmask16);

macro_rules! operators {
    ($($of:ident: $($operator:ident $method:ident $intrinsic:ident),*;)*) => {$($(
        impl $operator for $of {
            type Output = $of;
            #[inline(always)]
            fn $method(self, other: $of) -> $of {
                $of(call!($intrinsic(self.0, other.0)))
            }
        }
    )*)*};
}

operators! {
    Floats16: Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps;
    Ints16: Add add _mm512_add_epi32, Sub sub _mm512_sub_epi32, Mul mul _mm512_mullo_epi32,
        BitAnd bitand _mm512_and_si512, BitOr bitor _mm512_or_si512, BitXor bitxor _mm512_xor_si512;
}

impl BitAnd for Mask16 {
    type Output = Mask16;
    #[inline(always)]
    fn bitand(self, other: Mask16) -> Mask16 {
        Mask16(self.0 & other.0)
    }
}

impl BitOr for Mask16 {
    type Output = Mask16;
    #[inline(always)]
    fn bitor(self, other: Mask16) -> Mask16 {
        Mask16(self.0 | other.0)
    }
}

impl Not for Mask16 {
    type Output = Mask16;
    #[inline(always)]
    fn not(self) -> Mask16 {
        Mask16(!self.0)
    }
}

impl Avx512 {
    /// The index, or that of the last of `len` elements where it lies beyond an end.
    #[inline(always)]
    fn inside(self, at: Ints16, len: usize) -> Ints16 {
        let last = i32::try_from(len).unwrap_or(i32::MAX) - 1;
        Ints16(call!(_mm512_min_epu32(at.0, call!(_mm512_set1_epi32(last)))))
    }
}

/// Four elements of the rows `row`, `row + 4`, `row + 8` and `row + 12`, from `column` on.
#[inline(always)]
fn four_rows(_: Avx512, from: &[f32], stride: usize, column: usize, row: usize) -> __m512 {
    let a = &from[row * stride + column..][..4];
    let b = &from[(row + 4) * stride + column..][..4];
    let c = &from[(row + 8) * stride + column..][..4];
    let d = &from[(row + 12) * stride + column..][..4];
    // SAFETY: four elements each, as just checked; AVX-512 by the first argument.
    unsafe {
        let all = _mm512_castps128_ps512(_mm_loadu_ps(a.as_ptr()));
        let all = _mm512_insertf32x4::<1>(all, _mm_loadu_ps(b.as_ptr()));
        let all = _mm512_insertf32x4::<2>(all, _mm_loadu_ps(c.as_ptr()));
        _mm512_insertf32x4::<3>(all, _mm_loadu_ps(d.as_ptr()))
    }
}

impl Lanes for Avx512 {
    const COUNT: usize = 16;
    type Floats = Floats16;
    type Ints = Ints16;
    type Mask = Mask16;
    type Table = Floats16;

    #[inline(always)]
    fn floats(self, value: f32) -> Floats16 {
        Floats16(call!(_mm512_set1_ps(value)))
    }
    #[inline(always)]
    fn ints(self, value: i32) -> Ints16 {
        Ints16(call!(_mm512_set1_epi32(value)))
    }
    #[inline(always)]
    fn mask(self, value: bool) -> Mask16 {
        Mask16(if value { u16::MAX } else { 0 })
    }
    #[inline(always)]
    fn numbers(self) -> Ints16 {
        Ints16(call!(_mm512_cvtepu8_epi32(call!(_mm_set_epi64x(
            0x0f0e_0d0c_0b0a_0908,
            0x0706_0504_0302_0100
        )))))
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> Floats16 {
        let from = &from[..16];
        // SAFETY: sixteen elements, as just checked; AVX-512 by `self`.
        Floats16(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }
    #[inline(always)]
    fn load_ints(self, from: &[i32]) -> Ints16 {
        let from = &from[..16];
        // SAFETY: sixteen elements, as just checked; AVX-512 by `self`.
        Ints16(unsafe { _mm512_loadu_si512(from.as_ptr().cast()) })
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> Ints16 {
        let from = &from[..16];
        // SAFETY: sixteen bytes, as just checked; AVX-512 by `self`.
        Ints16(unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn load_halves(self, from: &[u16]) -> Ints16 {
        let from = &from[..16];
        // SAFETY: sixteen numbers, as just checked; AVX-512 by `self`.
        Ints16(unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn four(self, from: &[f32; 4]) -> Floats16 {
        // SAFETY: four elements; AVX-512 by `self`.
        Floats16(unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(from.as_ptr())) })
    }
    #[inline(always)]
    fn of_four(self, four: Floats16, at: Ints16) -> Floats16 {
        Floats16(call!(_mm512_permutevar_ps(four.0, at.0)))
    }
    #[inline(always)]
    fn eight(self, from: &[f32; 8]) -> Floats16 {
        // SAFETY: eight elements; AVX-512 by `self`.
        Floats16(unsafe { _mm512_broadcast_f32x8(_mm256_loadu_ps(from.as_ptr())) })
    }
    #[inline(always)]
    fn of_eight(self, eight: Floats16, at: Ints16) -> Floats16 {
        // Of sixteen values: the upper eight are the lower once more.
        Floats16(call!(_mm512_permutexvar_ps(at.0, eight.0)))
    }
    #[inline(always)]
    fn gather(self, from: &[f32], at: Ints16) -> Floats16 {
        if from.is_empty() {
            return self.floats(0.0);
        }
        let at = self.inside(at, from.len());
        // SAFETY: every index is below the length; AVX-512 by `self`.
        Floats16(unsafe { _mm512_i32gather_ps::<4>(at.0, from.as_ptr()) })
    }
    #[inline(always)]
    fn gather_ints(self, from: &[i32], at: Ints16) -> Ints16 {
        if from.is_empty() {
            return self.ints(0);
        }
        let at = self.inside(at, from.len());
        // SAFETY: every index is below the length; AVX-512 by `self`.
        Ints16(unsafe { _mm512_i32gather_epi32::<4>(at.0, from.as_ptr()) })
    }
    #[inline(always)]
    fn columns<const N: usize>(self, from: &[f32], stride: usize, out: &mut [Floats16; N]) {
        let from = &from[..15 * stride + N];
        for (four, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // Quarter `quarter` of the vector of a row is `row + 4 * quarter`; its four elements are those of the four
            // columns. No closures here: they would not be compiled for AVX-512.
            let (a, b) =
                (four_rows(self, from, stride, four * 4, 0), four_rows(self, from, stride, four * 4, 1));
            let (c, d) =
                (four_rows(self, from, stride, four * 4, 2), four_rows(self, from, stride, four * 4, 3));
            // A transposition of 4 by 4 in each quarter.
            let (ab, cd) = (call!(_mm512_unpacklo_ps(a, b)), call!(_mm512_unpacklo_ps(c, d)));
            out[0] = Floats16(call!(_mm512_shuffle_ps::<0x44>(ab, cd)));
            out[1] = Floats16(call!(_mm512_shuffle_ps::<0xee>(ab, cd)));
            let (ab, cd) = (call!(_mm512_unpackhi_ps(a, b)), call!(_mm512_unpackhi_ps(c, d)));
            out[2] = Floats16(call!(_mm512_shuffle_ps::<0x44>(ab, cd)));
            out[3] = Floats16(call!(_mm512_shuffle_ps::<0xee>(ab, cd)));
        }
    }
    #[inline(always)]
    fn table(self, values: &[f32; 16]) -> Floats16 {
        self.load(values)
    }
    #[inline(always)]
    fn look_up(self, table: Floats16, at: Ints16) -> Floats16 {
        Floats16(call!(_mm512_permutexvar_ps(at.0, table.0)))
    }
}

impl Floats for Floats16 {
    type Ints = Ints16;
    type Mask = Mask16;

    #[inline(always)]
    fn sqrt(self) -> Floats16 {
        Floats16(call!(_mm512_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Floats16 {
        Floats16(call!(_mm512_abs_ps(self.0)))
    }
    #[inline(always)]
    fn min(self, other: Floats16) -> Floats16 {
        Floats16(call!(_mm512_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Floats16) -> Floats16 {
        Floats16(call!(_mm512_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn less(self, other: Floats16) -> Mask16 {
        Mask16(call!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn at_most(self, other: Floats16) -> Mask16 {
        Mask16(call!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn more(self, other: Floats16) -> Mask16 {
        Mask16(call!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn equals(self, other: Floats16) -> Mask16 {
        Mask16(call!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn nearest_int(self) -> Ints16 {
        let bits =
            call!(_mm512_castps_si512(call!(_mm512_add_ps(self.0, call!(_mm512_set1_ps(12_582_912.0))))));
        let low = call!(_mm512_and_si512(bits, call!(_mm512_set1_epi32(0x007f_ffff))));
        Ints16(call!(_mm512_sub_epi32(low, call!(_mm512_set1_epi32(0x0040_0000)))))
    }
    #[inline(always)]
    fn truncated(self) -> Ints16 {
        Ints16(call!(_mm512_cvttps_epi32(self.0)))
    }
    #[inline(always)]
    fn bits(self) -> Ints16 {
        Ints16(call!(_mm512_castps_si512(self.0)))
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        call!(_mm512_reduce_max_ps(self.0))
    }
    #[inline(always)]
    fn least(self) -> f32 {
        call!(_mm512_reduce_min_ps(self.0))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..16];
        // SAFETY: sixteen places, as just checked; AVX-512 by `self`.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for Ints16 {
    type Floats = Floats16;
    type Mask = Mask16;

    #[inline(always)]
    fn min(self, other: Ints16) -> Ints16 {
        Ints16(call!(_mm512_min_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Ints16) -> Ints16 {
        Ints16(call!(_mm512_max_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn equals(self, other: Ints16) -> Mask16 {
        Mask16(call!(_mm512_cmpeq_epi32_mask(self.0, other.0)))
    }
    #[inline(always)]
    fn more(self, other: Ints16) -> Mask16 {
        Mask16(call!(_mm512_cmpgt_epi32_mask(self.0, other.0)))
    }
    #[inline(always)]
    fn shift_left(self, by: u32) -> Ints16 {
        Ints16(call!(_mm512_sll_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_right(self, by: u32) -> Ints16 {
        Ints16(call!(_mm512_srl_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_right_signed(self, by: u32) -> Ints16 {
        Ints16(call!(_mm512_sra_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_left_each(self, by: Ints16) -> Ints16 {
        Ints16(call!(_mm512_sllv_epi32(self.0, by.0)))
    }
    #[inline(always)]
    fn shift_right_each(self, by: Ints16) -> Ints16 {
        Ints16(call!(_mm512_srlv_epi32(self.0, by.0)))
    }
    #[inline(always)]
    fn to_floats(self) -> Floats16 {
        Floats16(call!(_mm512_cvtepi32_ps(self.0)))
    }
    #[inline(always)]
    fn as_bits(self) -> Floats16 {
        Floats16(call!(_mm512_castsi512_ps(self.0)))
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..16];
        // SAFETY: sixteen places, as just checked; AVX-512 by `self`.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [u8]) {
        let to = &mut to[..16];
        // SAFETY: sixteen places, as just checked; AVX-512 by `self`.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(self.0)) }
    }
}

impl Mask for Mask16 {
    type Floats = Floats16;
    type Ints = Ints16;

    #[inline(always)]
    fn pick(self, yes: Floats16, no: Floats16) -> Floats16 {
        Floats16(call!(_mm512_mask_blend_ps(self.0, no.0, yes.0)))
    }
    #[inline(always)]
    fn pick_ints(self, yes: Ints16, no: Ints16) -> Ints16 {
        Ints16(call!(_mm512_mask_blend_epi32(self.0, no.0, yes.0)))
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
}
