//! Errors of rows, each by itself: the first row of a text is often larger than all others together.

use crate::tapped::Rows;

/// The relative errors of the rows of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// Error of the row in the middle.
    pub median: f64,
    /// Error of the worst row; infinite where a value is not a number in one of the models alone.
    pub worst: f64,
    /// The worst row.
    pub worst_row: usize,
    /// Number of rows without any error.
    pub exact: usize,
    /// Number of rows.
    pub count: usize,
}

impl Errors {
    /// The errors of `suspect`; those of what is added to `beside` are relative to what is added.
    pub(super) fn of(suspect: &Rows, reference: &Rows, beside: Option<&Rows>) -> Errors {
        let mut each = Vec::with_capacity(reference.count());
        for (number, (a, b)) in suspect.iter().zip(reference.iter()).enumerate() {
            let beside = beside.and_then(|rows| rows.iter().nth(number));
            each.push(error(a, b, beside));
        }
        let mut errors = Errors { count: each.len(), ..Errors::default() };
        for (number, error) in each.iter().enumerate() {
            errors.exact += usize::from(*error == 0.0);
            if *error > errors.worst {
                (errors.worst, errors.worst_row) = (*error, number);
            }
        }
        each.sort_by(f64::total_cmp);
        errors.median = each.get(each.len() / 2).copied().unwrap_or(0.0);
        errors
    }
}

/// √(Σ(a − b)² / Σb²) of a row. Infinities and NaN that are the same on both sides are equal.
fn error(a: &[f32], b: &[f32], beside: Option<&[f32]>) -> f64 {
    let (mut square, mut size) = (0.0f64, 0.0f64);
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let added = f64::from(*b) - beside.and_then(|row| row.get(at)).map_or(0.0, |x| f64::from(*x));
        if added.is_finite() {
            size += added.powi(2);
        }
        if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let difference = f64::from(*a) - f64::from(*b);
        if !difference.is_finite() {
            return f64::INFINITY;
        }
        square += difference.powi(2);
    }
    if square > 0.0 { (square / size).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(elements: &[f32]) -> Rows {
        Rows { width: 2, elements: elements.to_vec() }
    }

    #[test]
    fn rows_have_errors_of_their_own() {
        let errors =
            Errors::of(&rows(&[3.0, 4.0, 1.0, 1.0, 2.0, 0.0]), &rows(&[3.0, 4.0, 1.0, 0.0, 1.0, 0.0]), None);
        assert_eq!((errors.worst, errors.worst_row, errors.exact, errors.count), (1.0, 1, 1, 3));
        assert_eq!(errors.median, 1.0);
        let nan = Errors::of(&rows(&[f32::NAN, 1.0]), &rows(&[1.0, 1.0]), None);
        assert_eq!(nan.worst, f64::INFINITY);
    }

    #[test]
    fn what_is_added_is_compared_by_itself() {
        let beside = rows(&[100.0, 100.0]);
        let errors = Errors::of(&rows(&[101.0, 100.0]), &rows(&[102.0, 100.0]), Some(&beside));
        assert_eq!(errors.worst, 0.5);
    }
}
