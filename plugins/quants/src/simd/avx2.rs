//! Eight lanes: AVX2.

#![allow(
    unsafe_code,
    reason = "intrinsics: `call!` for those on values, and one block with its reason for each load and store"
)]

use super::call::call;
use super::{Floats, Ints, Lanes, Mask};
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Not, Sub};

/// The proof that this machine has AVX2.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    pub unsafe fn new() -> Avx2 {
        Avx2(())
    }
}

/// Eight floats.
#[derive(Clone, Copy)]
pub struct Floats8(__m256);
/// Eight integers.
#[derive(Clone, Copy)]
pub struct Ints8(__m256i);
/// Eight truth values: all bits of a lane, or none.
#[derive(Clone, Copy)]
pub struct Mask8(__m256);
/// Sixteen floats.
#[derive(Clone, Copy)]
pub struct Table8(__m256, __m256);

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
    Floats8: Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps;
    Ints8: Add add _mm256_add_epi32, Sub sub _mm256_sub_epi32, Mul mul _mm256_mullo_epi32,
        BitAnd bitand _mm256_and_si256, BitOr bitor _mm256_or_si256, BitXor bitxor _mm256_xor_si256;
    Mask8: BitAnd bitand _mm256_and_ps, BitOr bitor _mm256_or_ps;
}

impl Not for Mask8 {
    type Output = Mask8;
    #[inline(always)]
    fn not(self) -> Mask8 {
        Mask8(call!(_mm256_xor_ps(self.0, call!(_mm256_castsi256_ps(call!(_mm256_set1_epi32(-1)))))))
    }
}

impl Avx2 {
    /// The index, or that of the last of `len` elements where it lies beyond an end.
    #[inline(always)]
    fn inside(self, at: Ints8, len: usize) -> Ints8 {
        let last = i32::try_from(len).unwrap_or(i32::MAX) - 1;
        Ints8(call!(_mm256_min_epu32(at.0, call!(_mm256_set1_epi32(last)))))
    }
}

/// Four elements of row `row` and of row `row + 4`, from `column` on.
#[inline(always)]
fn two_rows(_: Avx2, from: &[f32], stride: usize, column: usize, row: usize) -> __m256 {
    let low = &from[row * stride + column..][..4];
    let high = &from[(row + 4) * stride + column..][..4];
    // SAFETY: four elements each, as just checked; AVX2 by the first argument.
    unsafe {
        let low = _mm256_castps128_ps256(_mm_loadu_ps(low.as_ptr()));
        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(high.as_ptr()))
    }
}

impl Lanes for Avx2 {
    const COUNT: usize = 8;
    type Floats = Floats8;
    type Ints = Ints8;
    type Mask = Mask8;
    type Table = Table8;

    #[inline(always)]
    fn floats(self, value: f32) -> Floats8 {
        Floats8(call!(_mm256_set1_ps(value)))
    }
    #[inline(always)]
    fn ints(self, value: i32) -> Ints8 {
        Ints8(call!(_mm256_set1_epi32(value)))
    }
    #[inline(always)]
    fn mask(self, value: bool) -> Mask8 {
        Mask8(call!(_mm256_castsi256_ps(call!(_mm256_set1_epi32(-i32::from(value))))))
    }
    #[inline(always)]
    fn numbers(self) -> Ints8 {
        Ints8(call!(_mm256_cvtepu8_epi32(call!(_mm_cvtsi64_si128(0x0706_0504_0302_0100)))))
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> Floats8 {
        let from = &from[..8];
        // SAFETY: eight elements, as just checked; AVX2 by `self`.
        Floats8(unsafe { _mm256_loadu_ps(from.as_ptr()) })
    }
    #[inline(always)]
    fn load_ints(self, from: &[i32]) -> Ints8 {
        let from = &from[..8];
        // SAFETY: eight elements, as just checked; AVX2 by `self`.
        Ints8(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> Ints8 {
        let from = &from[..8];
        // SAFETY: eight bytes, as just checked; AVX2 by `self`.
        Ints8(unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn load_halves(self, from: &[u16]) -> Ints8 {
        let from = &from[..8];
        // SAFETY: eight numbers, as just checked; AVX2 by `self`.
        Ints8(unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast())) })
    }
    #[inline(always)]
    fn four(self, from: &[f32; 4]) -> Floats8 {
        // SAFETY: four elements; AVX2 by `self`.
        Floats8(unsafe { _mm256_broadcast_ps(&_mm_loadu_ps(from.as_ptr())) })
    }
    #[inline(always)]
    fn of_four(self, four: Floats8, at: Ints8) -> Floats8 {
        Floats8(call!(_mm256_permutevar_ps(four.0, at.0)))
    }
    #[inline(always)]
    fn eight(self, from: &[f32; 8]) -> Floats8 {
        self.load(from)
    }
    #[inline(always)]
    fn of_eight(self, eight: Floats8, at: Ints8) -> Floats8 {
        Floats8(call!(_mm256_permutevar8x32_ps(eight.0, at.0)))
    }
    #[inline(always)]
    fn gather(self, from: &[f32], at: Ints8) -> Floats8 {
        if from.is_empty() {
            return self.floats(0.0);
        }
        let at = self.inside(at, from.len());
        // SAFETY: every index is below the length; AVX2 by `self`.
        Floats8(unsafe { _mm256_i32gather_ps::<4>(from.as_ptr(), at.0) })
    }
    #[inline(always)]
    fn gather_ints(self, from: &[i32], at: Ints8) -> Ints8 {
        if from.is_empty() {
            return self.ints(0);
        }
        let at = self.inside(at, from.len());
        // SAFETY: every index is below the length; AVX2 by `self`.
        Ints8(unsafe { _mm256_i32gather_epi32::<4>(from.as_ptr(), at.0) })
    }
    #[inline(always)]
    fn columns<const N: usize>(self, from: &[f32], stride: usize, out: &mut [Floats8; N]) {
        let from = &from[..7 * stride + N];
        for (four, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // Half `half` of the vector of a row is `row + 4 * half`; its four elements are those of the four columns. No
            // closures here: they would not be compiled for AVX2.
            let (a, b) =
                (two_rows(self, from, stride, four * 4, 0), two_rows(self, from, stride, four * 4, 1));
            let (c, d) =
                (two_rows(self, from, stride, four * 4, 2), two_rows(self, from, stride, four * 4, 3));
            // A transposition of 4 by 4 in each half.
            let (ab, cd) = (call!(_mm256_unpacklo_ps(a, b)), call!(_mm256_unpacklo_ps(c, d)));
            out[0] = Floats8(call!(_mm256_shuffle_ps::<0x44>(ab, cd)));
            out[1] = Floats8(call!(_mm256_shuffle_ps::<0xee>(ab, cd)));
            let (ab, cd) = (call!(_mm256_unpackhi_ps(a, b)), call!(_mm256_unpackhi_ps(c, d)));
            out[2] = Floats8(call!(_mm256_shuffle_ps::<0x44>(ab, cd)));
            out[3] = Floats8(call!(_mm256_shuffle_ps::<0xee>(ab, cd)));
        }
    }
    #[inline(always)]
    fn table(self, values: &[f32; 16]) -> Table8 {
        Table8(self.load(&values[..8]).0, self.load(&values[8..]).0)
    }
    #[inline(always)]
    fn look_up(self, table: Table8, at: Ints8) -> Floats8 {
        let low = call!(_mm256_permutevar8x32_ps(table.0, at.0));
        let high = call!(_mm256_permutevar8x32_ps(table.1, at.0));
        // Bit 3 of the number becomes the sign, which the blend looks at.
        let upper = call!(_mm256_castsi256_ps(call!(_mm256_slli_epi32::<28>(at.0))));
        Floats8(call!(_mm256_blendv_ps(low, high, upper)))
    }
}

impl Floats for Floats8 {
    type Ints = Ints8;
    type Mask = Mask8;

    #[inline(always)]
    fn sqrt(self) -> Floats8 {
        Floats8(call!(_mm256_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Floats8 {
        Floats8(call!(_mm256_and_ps(self.0, call!(_mm256_castsi256_ps(call!(_mm256_set1_epi32(i32::MAX)))))))
    }
    #[inline(always)]
    fn min(self, other: Floats8) -> Floats8 {
        Floats8(call!(_mm256_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Floats8) -> Floats8 {
        Floats8(call!(_mm256_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn less(self, other: Floats8) -> Mask8 {
        Mask8(call!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn at_most(self, other: Floats8) -> Mask8 {
        Mask8(call!(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn more(self, other: Floats8) -> Mask8 {
        Mask8(call!(_mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn equals(self, other: Floats8) -> Mask8 {
        Mask8(call!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0)))
    }
    #[inline(always)]
    fn nearest_int(self) -> Ints8 {
        let bits =
            call!(_mm256_castps_si256(call!(_mm256_add_ps(self.0, call!(_mm256_set1_ps(12_582_912.0))))));
        let low = call!(_mm256_and_si256(bits, call!(_mm256_set1_epi32(0x007f_ffff))));
        Ints8(call!(_mm256_sub_epi32(low, call!(_mm256_set1_epi32(0x0040_0000)))))
    }
    #[inline(always)]
    fn truncated(self) -> Ints8 {
        Ints8(call!(_mm256_cvttps_epi32(self.0)))
    }
    #[inline(always)]
    fn bits(self) -> Ints8 {
        Ints8(call!(_mm256_castps_si256(self.0)))
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        let four = call!(_mm_max_ps(
            call!(_mm256_castps256_ps128(self.0)),
            call!(_mm256_extractf128_ps::<1>(self.0))
        ));
        let two = call!(_mm_max_ps(four, call!(_mm_movehl_ps(four, four))));
        call!(_mm_cvtss_f32(call!(_mm_max_ss(two, call!(_mm_shuffle_ps::<1>(two, two))))))
    }
    #[inline(always)]
    fn least(self) -> f32 {
        let four = call!(_mm_min_ps(
            call!(_mm256_castps256_ps128(self.0)),
            call!(_mm256_extractf128_ps::<1>(self.0))
        ));
        let two = call!(_mm_min_ps(four, call!(_mm_movehl_ps(four, four))));
        call!(_mm_cvtss_f32(call!(_mm_min_ss(two, call!(_mm_shuffle_ps::<1>(two, two))))))
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        let to = &mut to[..8];
        // SAFETY: eight places, as just checked; AVX2 by `self`.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
    }
}

impl Ints for Ints8 {
    type Floats = Floats8;
    type Mask = Mask8;

    #[inline(always)]
    fn min(self, other: Ints8) -> Ints8 {
        Ints8(call!(_mm256_min_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Ints8) -> Ints8 {
        Ints8(call!(_mm256_max_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn equals(self, other: Ints8) -> Mask8 {
        Mask8(call!(_mm256_castsi256_ps(call!(_mm256_cmpeq_epi32(self.0, other.0)))))
    }
    #[inline(always)]
    fn more(self, other: Ints8) -> Mask8 {
        Mask8(call!(_mm256_castsi256_ps(call!(_mm256_cmpgt_epi32(self.0, other.0)))))
    }
    #[inline(always)]
    fn shift_left(self, by: u32) -> Ints8 {
        Ints8(call!(_mm256_sll_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_right(self, by: u32) -> Ints8 {
        Ints8(call!(_mm256_srl_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_right_signed(self, by: u32) -> Ints8 {
        Ints8(call!(_mm256_sra_epi32(self.0, call!(_mm_cvtsi32_si128(by.cast_signed())))))
    }
    #[inline(always)]
    fn shift_left_each(self, by: Ints8) -> Ints8 {
        Ints8(call!(_mm256_sllv_epi32(self.0, by.0)))
    }
    #[inline(always)]
    fn shift_right_each(self, by: Ints8) -> Ints8 {
        Ints8(call!(_mm256_srlv_epi32(self.0, by.0)))
    }
    #[inline(always)]
    fn to_floats(self) -> Floats8 {
        Floats8(call!(_mm256_cvtepi32_ps(self.0)))
    }
    #[inline(always)]
    fn as_bits(self) -> Floats8 {
        Floats8(call!(_mm256_castsi256_ps(self.0)))
    }
    #[inline(always)]
    fn store(self, to: &mut [i32]) {
        let to = &mut to[..8];
        // SAFETY: eight places, as just checked; AVX2 by `self`.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    fn store_bytes(self, to: &mut [u8]) {
        let to = &mut to[..8];
        // The low bytes of each half come together in its lowest four.
        let order = call!(_mm256_set1_epi64x(0x0c08_0400));
        let bytes = call!(_mm256_shuffle_epi8(self.0, order));
        let (low, high) = (call!(_mm256_castsi256_si128(bytes)), call!(_mm256_extracti128_si256::<1>(bytes)));
        // SAFETY: eight places, as just checked; AVX2 by `self`.
        unsafe { _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_unpacklo_epi32(low, high)) }
    }
}

impl Mask for Mask8 {
    type Floats = Floats8;
    type Ints = Ints8;

    #[inline(always)]
    fn pick(self, yes: Floats8, no: Floats8) -> Floats8 {
        Floats8(call!(_mm256_blendv_ps(no.0, yes.0, self.0)))
    }
    #[inline(always)]
    fn pick_ints(self, yes: Ints8, no: Ints8) -> Ints8 {
        self.pick(yes.as_bits(), no.as_bits()).bits()
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        call!(_mm256_movemask_ps(self.0)).cast_unsigned()
    }
}
