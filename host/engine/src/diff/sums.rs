//! Sums that the figures of a distance are made of, and that those of several tensors add up to.

use crate::values::double_double::DoubleDouble;

/// Sums over pairs of finite values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Of the squares of a, and of b.
    pub squares: [DoubleDouble; 2],
    /// Of the products of both.
    pub product: DoubleDouble,
    /// Of the squares of differences.
    pub errors: DoubleDouble,
}

impl Sums {
    /// Adds those of other pairs.
    pub fn add(&mut self, more: &Sums) {
        self.squares = [0, 1].map(|side| self.squares[side] + more.squares[side]);
        self.product += more.product;
        self.errors += more.errors;
    }

    /// The cosine of the angle between a and b; `None` if one of them is zero.
    pub fn cosine(&self) -> Option<f64> {
        let [a, b] = self.squares;
        let norms = a.sqrt() * b.sqrt();
        (!norms.is_zero()).then(|| (self.product / norms).value().clamp(-1.0, 1.0))
    }
}
