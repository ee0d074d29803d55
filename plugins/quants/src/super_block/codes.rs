//! The last rounding of a super-block, and its codes as bits.

use super::ELEMENTS;
use crate::number::nearest_int;
use crate::simd::{Floats, Ints, Lanes};

/// The codes of a super-block, a byte each.
pub type Codes = [u8; ELEMENTS];

/// Codes a sub-block anew with its coded scale.
pub trait Coder {
    /// The nearest integers to `(value + offset) / scale`, from `least` to `most`, less `least`. Where the scale is 0, nothing
    /// is done: the codes of the search stay.
    fn code(&self, values: &[f32], scale: f32, offset: f32, range: (i32, i32), codes: &mut [u8]);
}

/// One by one.
pub struct Plain;

impl Coder for Plain {
    fn code(&self, values: &[f32], scale: f32, offset: f32, (least, most): (i32, i32), codes: &mut [u8]) {
        if scale != 0.0 {
            for (code, value) in codes.iter_mut().zip(values) {
                let l = nearest_int((value + offset) / scale).min(most).max(least) - least;
                *code = l.to_le_bytes()[0];
            }
        }
    }
}

/// An element in each lane.
pub struct ByLanes<V>(pub V);

impl<V: Lanes> Coder for ByLanes<V> {
    #[inline(always)]
    fn code(&self, values: &[f32], scale: f32, offset: f32, (least, most): (i32, i32), codes: &mut [u8]) {
        let v = self.0;
        if scale != 0.0 {
            let (scale, offset) = (v.floats(scale), v.floats(offset));
            for (codes, values) in codes.chunks_exact_mut(V::COUNT).zip(values.chunks_exact(V::COUNT)) {
                let l = ((v.load(values) + offset) / scale).nearest_int();
                (l.min(v.ints(most)).max(v.ints(least)) - v.ints(least)).store_bytes(codes);
            }
        }
    }
}

/// The low two bits of 256 codes in 64 bytes: four codes a byte, 32 elements apart.
#[inline(always)]
pub fn pack_two_bits(codes: &Codes, out: &mut [u8]) {
    for (codes, out) in codes.as_chunks::<128>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        for (l, out) in out.iter_mut().enumerate() {
            let two = |from: usize| codes[from + l] & 3;
            *out = two(0) | two(32) << 2 | two(64) << 4 | two(96) << 6;
        }
    }
}

/// The low four bits of 256 codes in 128 bytes: two codes a byte, 32 elements apart.
#[inline(always)]
pub fn pack_four_bits(codes: &Codes, out: &mut [u8]) {
    for (codes, out) in codes.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        for (l, out) in out.iter_mut().enumerate() {
            *out = codes[l] & 15 | codes[l + 32] << 4;
        }
    }
}

/// Bit `bit` of 256 codes in 32 bytes: bit `n` of a byte is that of the `n`th 32 elements.
#[inline(always)]
pub fn pack_bit(codes: &Codes, bit: u32, out: &mut [u8]) {
    let mut bytes = [0; 32];
    for (n, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
        for (byte, code) in bytes.iter_mut().zip(codes) {
            *byte |= (code >> bit & 1) << n;
        }
    }
    out.copy_from_slice(&bytes);
}

/// What [`pack_two_bits`] packed.
#[inline(always)]
pub fn unpack_two_bits(bytes: &[u8]) -> Codes {
    let mut codes = [0; ELEMENTS];
    for (bytes, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<128>().0) {
        for (n, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, byte) in codes.iter_mut().zip(bytes) {
                *code = byte >> (2 * n) & 3;
            }
        }
    }
    codes
}

/// What [`pack_four_bits`] packed.
#[inline(always)]
pub fn unpack_four_bits(bytes: &[u8]) -> Codes {
    let mut codes = [0; ELEMENTS];
    for (bytes, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<64>().0) {
        let (low, high) = codes.split_at_mut(32);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
            (*low, *high) = (byte & 15, byte >> 4);
        }
    }
    codes
}

/// Adds what [`pack_bit`] packed to codes, as bit `bit`.
#[inline(always)]
pub fn unpack_bit(bytes: &[u8], bit: u32, codes: &mut Codes) {
    for (n, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (code, byte) in codes.iter_mut().zip(bytes) {
            *code |= (byte >> n & 1) << bit;
        }
    }
}

/// The elements of codes in sub-blocks of `N`: `scale * code - offset`.
#[inline(always)]
pub fn elements<const N: usize>(codes: &Codes, scales: &[f32], offsets: &[f32], out: &mut [f32; ELEMENTS]) {
    let subs = codes.as_chunks::<N>().0.iter().zip(out.as_chunks_mut::<N>().0);
    for ((codes, out), (scale, offset)) in subs.zip(scales.iter().zip(offsets)) {
        for (value, code) in out.iter_mut().zip(codes) {
            *value = scale * f32::from(*code) - offset;
        }
    }
}

/// The same for sub-blocks of 32 whose codes [`pack_four_bits`] packed and, where they have a fifth bit, [`pack_bit`].
#[inline(always)]
pub fn four_bit_elements<V: Lanes>(
    v: V,
    (bytes, fifth): (&[u8], Option<&[u8]>),
    scales: &[f32],
    offsets: &[f32],
    out: &mut [f32; ELEMENTS],
) {
    let factors = scales.as_chunks::<2>().0.iter().zip(offsets.as_chunks::<2>().0);
    let pairs = bytes.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
    for (pair, ((bytes, out), (scales, offsets))) in (0..).zip(pairs.zip(factors)) {
        let (first, second) = out.split_at_mut(32);
        for at in (0..32).step_by(V::COUNT) {
            let both = v.load_bytes(&bytes[at..]);
            let (mut low, mut high) = (both & v.ints(15), both.shift_right(4));
            if let Some(fifth) = fifth {
                let bits = v.load_bytes(&fifth[at..]).shift_right(2 * pair);
                low = low | (bits & v.ints(1)).shift_left(4);
                high = high | (bits & v.ints(2)).shift_left(3);
            }
            (v.floats(scales[0]) * low.to_floats() - v.floats(offsets[0])).store(&mut first[at..]);
            (v.floats(scales[1]) * high.to_floats() - v.floats(offsets[1])).store(&mut second[at..]);
        }
    }
}

/// The elements of codes in sub-blocks of 16: `scale * (code - most)`.
#[inline(always)]
pub fn symmetric_elements(codes: &Codes, scales: &[f32], most: i8, out: &mut [f32; ELEMENTS]) {
    let subs = codes.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0);
    for ((codes, out), scale) in subs.zip(scales) {
        for (value, code) in out.iter_mut().zip(codes) {
            *value = scale * f32::from(code.cast_signed() - most);
        }
    }
}
