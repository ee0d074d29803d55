//! What each element counts in a search, where importance is known.

/// The weights of a block's elements: their importance, times how large they are beside the mean of squares that `variance`
/// is made of.
#[inline(always)]
pub fn weights(values: &[f32; 32], importance: &[f32; 32], variance: f32) -> [f32; 32] {
    std::array::from_fn(|at| importance[at] * (variance + values[at] * values[at]).sqrt())
}

/// The sum of squares, one after the other.
#[inline(always)]
pub fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// The mean square of a row.
#[inline(always)]
#[allow(clippy::cast_precision_loss, reason = "as ggml has it")]
pub fn mean_square(row: &[f32]) -> f32 {
    sum_of_squares(row) / row.len() as f32
}
