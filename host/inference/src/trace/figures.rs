//! Figures of the elements of a row, or of many rows.

use apr_sdk::MEASURE_FIGURES;

/// Elements of what a backend gives for a row.
pub(super) const GIVEN: usize = MEASURE_FIGURES as usize;

/// Figures of some elements. Those that are not finite are counted, and are in nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Number of elements.
    pub elements: u64,
    /// The least; +∞ if none is finite.
    pub least: f32,
    /// The greatest; −∞ if none is finite.
    pub greatest: f32,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of elements that are not finite.
    pub not_finite: u64,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            elements: 0,
            least: f32::INFINITY,
            greatest: f32::NEG_INFINITY,
            sum: 0.0,
            squares: 0.0,
            zeros: 0,
            not_finite: 0,
        }
    }
}

impl Figures {
    /// Of the result of a measure of a row of so many elements.
    pub(super) fn given(given: &[f32; GIVEN], elements: u64) -> Figures {
        let [least, greatest, sum, squares, zeros, not_finite] = *given;
        Figures {
            elements,
            least,
            greatest,
            sum: sum.into(),
            squares: squares.into(),
            zeros: whole(zeros),
            not_finite: whole(not_finite),
        }
    }

    /// Of the elements themselves.
    pub fn of(row: &[f32]) -> Figures {
        let mut figures = Figures { elements: row.len() as u64, ..Figures::default() };
        for x in row {
            if !x.is_finite() {
                figures.not_finite += 1;
                continue;
            }
            figures.least = figures.least.min(*x);
            figures.greatest = figures.greatest.max(*x);
            figures.sum += f64::from(*x);
            figures.squares += f64::from(*x).powi(2);
            figures.zeros += u64::from(*x == 0.0);
        }
        figures
    }

    /// Adds those of other elements.
    pub fn add(&mut self, other: &Figures) {
        self.elements += other.elements;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        self.sum += other.sum;
        self.squares += other.squares;
        self.zeros += other.zeros;
        self.not_finite += other.not_finite;
    }

    /// Number of finite elements.
    pub fn finite(&self) -> u64 {
        self.elements.saturating_sub(self.not_finite)
    }

    /// The mean of the finite elements; `None` if there is none.
    pub fn mean(&self) -> Option<f64> {
        (self.finite() > 0).then(|| self.sum / float(self.finite()))
    }

    /// The root of their mean square.
    pub fn rms(&self) -> Option<f64> {
        (self.finite() > 0).then(|| (self.squares / float(self.finite())).sqrt())
    }

    /// The share of zeros among all elements.
    pub fn share_of_zeros(&self) -> f64 {
        float(self.zeros) / float(self.elements.max(1))
    }

    /// The largest magnitude of a finite element; 0 if there is none.
    pub fn peak(&self) -> f32 {
        if self.finite() == 0 { 0.0 } else { self.least.abs().max(self.greatest.abs()) }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

/// A count that a backend gave as a float.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of a row's elements")]
fn whole(count: f32) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_only_counted() {
        let mut figures = Figures::of(&[1.0, f32::NAN, -3.0, 0.0, f32::INFINITY]);
        assert_eq!((figures.least, figures.greatest, figures.peak()), (-3.0, 1.0, 3.0));
        assert_eq!((figures.zeros, figures.not_finite, figures.finite()), (1, 2, 3));
        assert_eq!(figures.mean(), Some(-2.0 / 3.0));
        figures.add(&Figures::of(&[7.0]));
        assert_eq!((figures.greatest, figures.elements, figures.squares), (7.0, 6, 59.0));
        assert_eq!(figures.rms(), Some((59.0f64 / 4.0).sqrt()));
    }

    #[test]
    fn of_nothing_there_is_no_mean() {
        let figures = Figures::of(&[f32::NAN]);
        assert_eq!((figures.mean(), figures.rms(), figures.peak()), (None, None, 0.0));
        assert_eq!(Figures::default().share_of_zeros(), 0.0);
    }

    #[test]
    fn a_backends_figures_are_read_in_their_order() {
        let figures = Figures::given(&[-1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 20);
        let wanted = Figures {
            elements: 20,
            least: -1.0,
            greatest: 2.0,
            sum: 3.0,
            squares: 4.0,
            zeros: 5,
            not_finite: 6,
        };
        assert_eq!(figures, wanted);
    }
}
