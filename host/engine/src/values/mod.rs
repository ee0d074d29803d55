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
