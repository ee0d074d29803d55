//! Operations on values: casts, integers with scales, any type as floats, byte swapping, exact sums, losses,
//! slices.

pub mod cast;
pub mod double_double;
pub mod exact_sum;
pub mod integers;
pub mod loss;
pub mod moments;
pub mod numbers;
pub mod rule_codes;
pub mod slice;
pub mod spread;
pub mod swap;

/// A number of bytes or elements in memory; one that no memory holds becomes the greatest, which no slice has.
pub(crate) fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
