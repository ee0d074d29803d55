//! Distances of weights.

/// Euclidean distance of two lists of elements. Elements that are both NaN are equal.
pub(super) fn distance(suspect: &[f32], reference: &[f32]) -> f64 {
    let mut square = 0.0f64;
    for (a, b) in suspect.iter().zip(reference) {
        if a != b && !(a.is_nan() && b.is_nan()) {
            square += (f64::from(*a) - f64::from(*b)).powi(2);
        }
    }
    if square.is_nan() { f64::INFINITY } else { square.sqrt() }
}

/// Euclidean length of a list of elements.
pub(super) fn size(elements: &[f32]) -> f64 {
    elements.iter().map(|element| f64::from(*element).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_near_nan_and_far_from_all_else() {
        assert_eq!(distance(&[3.0, f32::NAN], &[0.0, f32::NAN]), 3.0);
        assert_eq!(distance(&[f32::NAN], &[0.0]), f64::INFINITY);
        assert_eq!(size(&[3.0, 4.0]), 5.0);
    }
}
