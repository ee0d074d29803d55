//! Values by themselves: casts, integers with scales, numbers of any type as floats, swapped bytes, exact sums, distances.

pub mod cast;
pub mod exact_sum;
pub mod integers;
pub mod loss;
pub mod numbers;
pub mod rule_codes;
pub mod slice;
pub mod swap;
