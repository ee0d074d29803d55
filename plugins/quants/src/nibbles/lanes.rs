//! Blocks of 32 elements in vectors: what their scales are made of, and their codes. No closures here: they would not be
//! compiled for the level's instructions.

use super::ELEMENTS;
use crate::simd::{Floats, Ints, Lanes, Mask};

/// The vectors of a block, of which as many are used as its elements fill.
pub type Vectors<T> = [T; 4];

/// The elements of a block.
#[inline(always)]
pub fn load<V: Lanes>(lanes: V, values: &[f32; ELEMENTS]) -> Vectors<V::Floats> {
    let mut vectors = [lanes.floats(0.0); 4];
    for (vector, values) in vectors.iter_mut().zip(values.chunks_exact(V::COUNT)) {
        *vector = lanes.load(values);
    }
    vectors
}

/// `extremes::largest_magnitude`.
#[inline(always)]
pub fn largest_magnitude<V: Lanes>(lanes: V, block: &Vectors<V::Floats>) -> f32 {
    let mut most = lanes.floats(0.0);
    for vector in &block[..ELEMENTS / V::COUNT] {
        most = vector.abs().max(most);
    }
    most.greatest()
}

/// `extremes::widest`.
#[inline(always)]
pub fn widest<V: Lanes>(lanes: V, values: &[f32; ELEMENTS], block: &Vectors<V::Floats>) -> f32 {
    let most = largest_magnitude(lanes, block);
    if most == 0.0 {
        return 0.0;
    }
    let most = lanes.floats(most);
    let mut found = 0;
    for (at, vector) in block[..ELEMENTS / V::COUNT].iter().enumerate() {
        found |= vector.abs().equals(most).bits() << (at * V::COUNT);
    }
    // None only where an element is no number.
    values.get(found.trailing_zeros() as usize).copied().unwrap_or(0.0)
}

/// `extremes::range`.
#[inline(always)]
pub fn range<V: Lanes>(values: &[f32; ELEMENTS], block: &Vectors<V::Floats>) -> (f32, f32) {
    let (mut least, mut most) = (block[0], block[0]);
    for vector in &block[1..ELEMENTS / V::COUNT] {
        (least, most) = (vector.min(least), vector.max(most));
    }
    let (least, most) = (least.least(), most.greatest());
    // Of zeros the first one counts, for its sign.
    if least == 0.0 || most == 0.0 { crate::extremes::range(values) } else { (least, most) }
}

/// `super::pack` of codes below 16.
#[inline(always)]
pub fn pack<V: Lanes>(codes: &Vectors<V::Ints>, out: &mut [u8; 16]) {
    let half = ELEMENTS / V::COUNT / 2;
    for (at, out) in out.chunks_exact_mut(V::COUNT).enumerate() {
        (codes[at] | codes[at + half].shift_left(4)).store_bytes(out);
    }
}

/// `super::unpack`.
#[inline(always)]
pub fn unpack<V: Lanes>(lanes: V, bytes: &[u8; 16]) -> Vectors<V::Ints> {
    let half = ELEMENTS / V::COUNT / 2;
    let mut codes = [lanes.ints(0); 4];
    for (at, bytes) in bytes.chunks_exact(V::COUNT).enumerate() {
        let both = lanes.load_bytes(bytes);
        (codes[at], codes[at + half]) = (both & lanes.ints(15), both.shift_right(4));
    }
    codes
}

/// The values of sixteen that codes mean, times `d`.
#[inline(always)]
pub fn looked_up<V: Lanes>(
    lanes: V,
    values: &[f32; 16],
    d: f32,
    bytes: &[u8; 16],
    out: &mut [f32; ELEMENTS],
) {
    let (table, d) = (lanes.table(values), lanes.floats(d));
    for (code, out) in unpack(lanes, bytes).into_iter().zip(out.chunks_exact_mut(V::COUNT)) {
        (lanes.look_up(table, code) * d).store(out);
    }
}

/// `super::pack_five` of codes below 32.
#[inline(always)]
pub fn pack_five<V: Lanes>(lanes: V, codes: &Vectors<V::Ints>, out: &mut [u8; 16]) -> [u8; 4] {
    let (mut low, mut fifth) = (*codes, 0);
    for (at, code) in codes[..ELEMENTS / V::COUNT].iter().enumerate() {
        fifth |= code.more(lanes.ints(15)).bits() << (at * V::COUNT);
        low[at] = *code & lanes.ints(15);
    }
    pack::<V>(&low, out);
    fifth.to_le_bytes()
}

/// `(element - from) * inverse + shift`, cut to integers, and of these the low bytes, at most `most`.
#[inline(always)]
pub fn codes<V: Lanes>(
    lanes: V,
    block: &Vectors<V::Floats>,
    (from, inverse, shift): (f32, f32, f32),
    most: i32,
) -> Vectors<V::Ints> {
    let mut codes = [lanes.ints(0); 4];
    for (code, vector) in codes.iter_mut().zip(&block[..ELEMENTS / V::COUNT]) {
        let place = (*vector - lanes.floats(from)) * lanes.floats(inverse) + lanes.floats(shift);
        *code = (place.truncated() & lanes.ints(255)).min(lanes.ints(most));
    }
    codes
}

/// The integers next to `element * inverse`, halves away from zero.
#[inline(always)]
pub fn rounded<V: Lanes>(lanes: V, block: &Vectors<V::Floats>, inverse: f32) -> Vectors<V::Ints> {
    let mut codes = [lanes.ints(0); 4];
    // The last float below 0.5: adding 0.5 would take what lies below a half up to the next integer.
    let half = lanes.floats(f32::from_bits(0x3eff_ffff)).bits();
    for (code, vector) in codes.iter_mut().zip(&block[..ELEMENTS / V::COUNT]) {
        let place = *vector * lanes.floats(inverse);
        let sign = place.bits() & lanes.ints(i32::MIN);
        *code = (place + (half | sign).as_bits()).truncated();
    }
    codes
}
