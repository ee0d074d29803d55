//! The largest and smallest of a block. The order does not matter to these, so that they work on whole vectors: magnitudes
//! are compared as the integers that their bits are.

/// The bits of a magnitude.
#[inline(always)]
fn magnitude(value: f32) -> u32 {
    value.to_bits() & 0x7fff_ffff
}

/// The largest magnitude.
#[inline(always)]
pub fn largest_magnitude(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |most, value| most.max(magnitude(*value))))
}

/// The element of the largest magnitude; of several, the first. 0 if all are.
#[inline(always)]
pub fn widest(values: &[f32]) -> f32 {
    let most = largest_magnitude(values);
    // From the back: the first one is what stays.
    let of =
        |most| values.iter().rev().fold(0.0, |found, value| if value.abs() == most { *value } else { found });
    if most == 0.0 { 0.0 } else { of(most) }
}

/// The smallest and the largest element; of equal ones, the first.
#[inline(always)]
pub fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::MAX, -f32::MAX), |(least, most), value| {
        (if *value < least { *value } else { least }, if *value > most { *value } else { most })
    })
}
