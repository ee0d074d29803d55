//! Whether importance can be used at all: what it is, and whether sums over a row that are weighted by it stay within F32.

use apr_sdk::{DType, Error, Result};

/// The most that a row's search makes of a product of importance and magnitude, beside both: 256 weights of at most
/// sqrt(3) times the greatest magnitude, times codes of at most 64, and all that squared where two sums are compared.
const SEARCH: f64 = (256.0 * 1.75 * 64.0) * (256.0 * 1.75 * 64.0);

/// Checks the importance of the columns of `rows`.
///
/// # Errors
/// InvalidArgument, with the column, for what is negative or not finite; Failed for a row whose weighted sums F32 may not
/// hold: its blocks would be zeros or no numbers.
pub fn check(dtype: DType, importance: &[f32], rows: &[f32], row_len: usize) -> Result<()> {
    if let Some(column) = importance.iter().position(|value| !value.is_finite() || *value < 0.0) {
        let message = format!("the importance of column {column} is {}", importance[column]);
        return Err(Error::invalid_argument(message).hint("make the importance matrix again"));
    }
    let most = f64::from(importance.iter().fold(0.0f32, |most, value| most.max(*value)));
    let limit = (f64::from(f32::MAX) / SEARCH).sqrt();
    for (number, row) in rows.chunks_exact(row_len.max(1)).enumerate() {
        // What is not finite is the caller's matter.
        let widest = f64::from(row.iter().fold(0.0f32, |most, value| most.max(value.abs())));
        if widest.is_finite() && most * widest * widest.max(1.0) > limit {
            let message = format!(
                "importance up to {most:e} and values up to {widest:e} are too large for {dtype}: the \
                 weighted sums in row {number} would overflow F32"
            );
            return Err(Error::failed(message).hint(
                "scale the importance matrix down, or make it again: only the ratios of its values matter",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_weigh_anything_is_refused() {
        let row = [0.5f32, -0.25, 0.0, 1.0];
        let try_it = |importance: &[f32]| check(DType::Q4_K, importance, &row, 4);
        for good in [[0.0, 0.0, 0.0, 1.0], [1e-30; 4], [1e12; 4]] {
            try_it(&good).unwrap();
        }
        for bad in [[1.0, -1.0, 1.0, 1.0], [1.0, f32::NAN, 1.0, 1.0], [1.0, f32::INFINITY, 1.0, 1.0]] {
            assert!(try_it(&bad).unwrap_err().message().contains("column 1"));
        }
        assert!(try_it(&[3e38; 4]).unwrap_err().message().contains("overflow F32"));
        check(DType::Q4_K, &[1e8; 4], &[100.0; 4], 4).unwrap();
    }
}
