//! Means with their errors.

/// A mean, and the error of it that the spread of what was averaged implies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; 0 where too little was averaged to tell.
    pub error: f64,
}

impl Estimate {
    /// e to the power of it.
    #[must_use]
    pub fn exp(self) -> Estimate {
        let mean = self.mean.exp();
        Estimate { mean, error: mean * self.error }
    }
}

/// Sums for the mean of a quantity, and for its error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Sums {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 of none.
    pub fn estimate(&self) -> Estimate {
        if self.count == 0 {
            return Estimate::default();
        }
        let count = float(self.count);
        let mean = self.sum / count;
        let variance = self.squares / count - mean * mean;
        let error = if variance > 0.0 && self.count > 1 { (variance / (count - 1.0)).sqrt() } else { 0.0 };
        Estimate { mean, error }
    }

    /// The covariance of the means of this quantity and another; `products` sums their products, value by value.
    pub fn covariance(&self, other: &Sums, products: f64) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = float(self.count);
        let of_values = products / count - (self.sum / count) * (other.sum / count);
        of_values / (count - 1.0)
    }
}

/// A count as a float; counts of tokens are far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(values: &[f64]) -> Sums {
        let mut sums = Sums::default();
        values.iter().for_each(|value| sums.add(*value));
        sums
    }

    #[test]
    fn the_error_of_a_mean_is_that_of_statistics() {
        let found = sums(&[1.0, 2.0, 3.0, 4.0]).estimate();
        // The variance of the sample is 5/3, of the mean a fourth of it.
        assert_eq!(found.mean, 2.5);
        assert!((found.error - (5.0f64 / 12.0).sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!(sums(&[7.0]).estimate(), Estimate { mean: 7.0, error: 0.0 });
        assert_eq!(sums(&[]).estimate(), Estimate::default());
        assert_eq!(sums(&[2.0, 2.0]).estimate().error, 0.0);
    }

    #[test]
    fn the_covariance_with_itself_is_the_square_of_the_error() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let one = sums(&values);
        let products = values.iter().map(|value| value * value).sum();
        let error = one.estimate().error;
        assert!((one.covariance(&one, products) - error * error).abs() < 1e-12);
    }
}
