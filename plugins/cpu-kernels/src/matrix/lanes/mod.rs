//! Sixteen rows at once: what kernels are written in, once, for every level. Each lane is a row of a tile.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod scalar;

/// The largest code that is not signed; beyond it, codes are signed ones with 128 added.
pub const MOST_UNSIGNED: i32 = 63;

/// Registers of sixteen lanes. Every implementation gives the same bits.
///
/// # Safety
/// The functions with a pointer read or write what they say: 64 bytes, unless they say otherwise. No pointer need be
/// aligned. All are to be called where the level's instructions are enabled (inlined into a function that has them as
/// target features), on a processor that has them.
pub unsafe trait Lanes: Copy + 'static {
    /// Four bytes in each lane.
    type Bytes: Copy;
    /// An i32 in each lane.
    type Ints: Copy;
    /// An f32 in each lane.
    type Floats: Copy;

    /// Whether registers are so few that it is better to load something twice than to keep it.
    const FEW: bool;

    /// Tokens of a batch whose sums fit the registers.
    const TOKENS: usize;

    /// Loads bytes.
    unsafe fn load(from: *const u8) -> Self::Bytes;
    /// The same four bytes in each lane.
    unsafe fn splat(bytes: u32) -> Self::Bytes;
    /// Bits of both.
    unsafe fn and(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bits of either.
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bits of one alone.
    unsafe fn xor(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Each lane shifted right, zeros coming in.
    unsafe fn right(a: Self::Bytes, bits: u32) -> Self::Bytes;
    /// Each lane shifted left.
    unsafe fn left(a: Self::Bytes, bits: u32) -> Self::Bytes;

    /// The four bits of each lane from `first` on, a multiple of 4: the fifth bit of each of its bytes.
    unsafe fn fifths(a: Self::Bytes, first: usize) -> Self::Bytes;

    /// The same integer in each lane.
    unsafe fn splat_int(int: i32) -> Self::Ints;
    /// A byte of each lane as an integer.
    unsafe fn byte(a: Self::Bytes, byte: u32) -> Self::Ints;
    /// A byte of each lane as a signed integer.
    unsafe fn signed_byte(a: Self::Bytes, byte: u32) -> Self::Ints;
    /// The sum.
    unsafe fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Each lane times 128.
    unsafe fn times_128(a: Self::Ints) -> Self::Ints;

    /// `offset`, plus the products of each lane's codes, at most `most`, with the same codes of activations, four bytes
    /// of `x` for each register. Codes beyond [`MOST_UNSIGNED`] are signed ones with 128 added, and `offset` is -128 times
    /// the sum of those of `x`.
    unsafe fn dot(offset: i32, codes: &[Self::Bytes], most: i32, x: *const u8) -> Self::Ints;
    /// `sum` plus `scale` times [`Lanes::dot`]. A scale is at most 127, in magnitude 128.
    unsafe fn dot_scaled(
        sum: Self::Ints,
        offset: i32,
        codes: &[Self::Bytes],
        most: i32,
        x: *const u8,
        scale: Self::Ints,
    ) -> Self::Ints;

    /// The same integers, of which the compiler knows no more: all that they were computed from is computed before, and what
    /// is loaded after this in the text is loaded after it. Left to itself, it loads so early that registers do not suffice.
    unsafe fn settled(a: Self::Ints) -> Self::Ints;

    /// The nearest floats.
    unsafe fn to_floats(ints: Self::Ints) -> Self::Floats;
    /// Loads floats.
    unsafe fn load_floats(from: *const f32) -> Self::Floats;
    /// Stores floats.
    unsafe fn store_floats(to: *mut f32, floats: Self::Floats);
    /// Loads 16 binary16, 32 bytes.
    unsafe fn load_halves(from: *const u8) -> Self::Floats;
    /// Loads 16 bfloat16, 32 bytes.
    unsafe fn load_bfloats(from: *const u8) -> Self::Floats;
    /// The same float in each lane.
    unsafe fn splat_float(float: f32) -> Self::Floats;
    /// The product.
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The sum.
    unsafe fn add_floats(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    unsafe fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `c - a * b`, rounded once.
    unsafe fn mul_sub_from(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// Begins to load a line into the nearest cache. Any address will do.
#[inline(always)]
pub fn ask(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: asking for a line changes nothing and may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Four bytes.
///
/// # Safety
/// `from` leads to four bytes.
#[inline(always)]
unsafe fn four(from: *const u8) -> i32 {
    // SAFETY: as the caller says; it need not be aligned.
    unsafe { from.cast::<i32>().read_unaligned() }
}

/// For [`Lanes::fifths`]: an index of bytes that repeats in each lane the byte with the bits from `first` on, and a mask of
/// these bits, each in a byte of its own.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn shuffle_of(first: usize) -> (std::arch::x86_64::__m128i, u32) {
    use std::arch::x86_64::{_mm_add_epi8, _mm_set1_epi8, _mm_setr_epi32};
    let byte = [0, 1, 2, 3][first / 8];
    // SAFETY: every 64-bit x86 processor has SSE2.
    let index = unsafe {
        _mm_add_epi8(_mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c), _mm_set1_epi8(byte))
    };
    (index, 0x0804_0201 << (first % 8))
}
