//! Sixteen lanes one after the other: the plain form, for every processor.

use super::Lanes;
use apr_sdk::half::{from_bf16, from_f16};
use std::array::from_fn;

/// The plain form.
#[derive(Clone, Copy)]
pub struct Scalar;

// SAFETY: no instruction beyond those of the target is used; pointers are read and written as the trait says.
unsafe impl Lanes for Scalar {
    type Bytes = [[u8; 4]; 16];
    type Ints = [i32; 16];
    type Floats = [f32; 16];

    const FEW: bool = true;
    const TOKENS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Bytes {
        // SAFETY: the caller gives 64 bytes; an array of bytes needs no alignment.
        unsafe { from.cast::<Self::Bytes>().read() }
    }

    #[inline(always)]
    unsafe fn splat(bytes: u32) -> Self::Bytes {
        [bytes.to_le_bytes(); 16]
    }

    #[inline(always)]
    unsafe fn and(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        from_fn(|n| from_fn(|m| a[n][m] & b[n][m]))
    }

    #[inline(always)]
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        from_fn(|n| from_fn(|m| a[n][m] | b[n][m]))
    }

    #[inline(always)]
    unsafe fn xor(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        from_fn(|n| from_fn(|m| a[n][m] ^ b[n][m]))
    }

    #[inline(always)]
    unsafe fn right(a: Self::Bytes, bits: u32) -> Self::Bytes {
        a.map(|lane| (u32::from_le_bytes(lane) >> bits).to_le_bytes())
    }

    #[inline(always)]
    unsafe fn left(a: Self::Bytes, bits: u32) -> Self::Bytes {
        a.map(|lane| (u32::from_le_bytes(lane) << bits).to_le_bytes())
    }

    #[inline(always)]
    unsafe fn fifths(a: Self::Bytes, first: usize) -> Self::Bytes {
        a.map(|lane| from_fn(|byte| (u32::from_le_bytes(lane) >> (first + byte) & 1) as u8 * 0x10))
    }

    #[inline(always)]
    unsafe fn splat_int(int: i32) -> Self::Ints {
        [int; 16]
    }

    #[inline(always)]
    unsafe fn byte(a: Self::Bytes, byte: u32) -> Self::Ints {
        a.map(|lane| i32::from(lane[byte as usize]))
    }

    #[inline(always)]
    unsafe fn signed_byte(a: Self::Bytes, byte: u32) -> Self::Ints {
        a.map(|lane| i32::from(lane[byte as usize].cast_signed()))
    }

    #[inline(always)]
    unsafe fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        from_fn(|n| a[n].wrapping_add(b[n]))
    }

    #[inline(always)]
    unsafe fn times_128(a: Self::Ints) -> Self::Ints {
        a.map(|lane| lane << 7)
    }

    #[inline(always)]
    unsafe fn dot(offset: i32, codes: &[Self::Bytes], _most: i32, x: *const u8) -> Self::Ints {
        let mut sums = [offset; 16];
        for (n, codes) in codes.iter().enumerate() {
            // SAFETY: the caller gives four bytes for each register.
            let x = unsafe { super::four(x.add(4 * n)) }.to_le_bytes().map(|x| i32::from(x.cast_signed()));
            for (sum, lane) in sums.iter_mut().zip(codes) {
                for (code, x) in lane.iter().zip(x) {
                    *sum = sum.wrapping_add(i32::from(*code) * x);
                }
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn dot_scaled(
        sum: Self::Ints,
        offset: i32,
        codes: &[Self::Bytes],
        most: i32,
        x: *const u8,
        scale: Self::Ints,
    ) -> Self::Ints {
        // SAFETY: as the caller says.
        let dot = unsafe { Self::dot(offset, codes, most, x) };
        from_fn(|n| sum[n].wrapping_add(dot[n].wrapping_mul(scale[n])))
    }

    #[inline(always)]
    unsafe fn settled(a: Self::Ints) -> Self::Ints {
        a
    }

    #[inline(always)]
    #[allow(clippy::cast_precision_loss, reason = "rounds to nearest, as the other levels do")]
    unsafe fn to_floats(ints: Self::Ints) -> Self::Floats {
        ints.map(|lane| lane as f32)
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> Self::Floats {
        // SAFETY: the caller gives 16 floats.
        unsafe { from.cast::<Self::Floats>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: Self::Floats) {
        // SAFETY: as for `load_floats`.
        unsafe { to.cast::<Self::Floats>().write_unaligned(floats) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> Self::Floats {
        // SAFETY: the caller gives 32 bytes.
        unsafe { from.cast::<[[u8; 2]; 16]>().read() }.map(|half| from_f16(u16::from_le_bytes(half)))
    }

    #[inline(always)]
    unsafe fn load_bfloats(from: *const u8) -> Self::Floats {
        // SAFETY: as for `load_halves`.
        unsafe { from.cast::<[[u8; 2]; 16]>().read() }.map(|half| from_bf16(u16::from_le_bytes(half)))
    }

    #[inline(always)]
    unsafe fn splat_float(float: f32) -> Self::Floats {
        [float; 16]
    }

    #[inline(always)]
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|n| a[n] * b[n])
    }

    #[inline(always)]
    unsafe fn add_floats(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|n| a[n] + b[n])
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        from_fn(|n| a[n].mul_add(b[n], c[n]))
    }

    #[inline(always)]
    unsafe fn mul_sub_from(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        from_fn(|n| (-a[n]).mul_add(b[n], c[n]))
    }
}
