//! Differences between two rotations, in words.

use super::digits::short;

/// Relative error up to which angles are the same.
const NEAR: f64 = 1e-4;

/// The difference between the angles of two rotations; `None` if there is none.
pub(super) fn difference(suspect: &[f32], reference: &[f32]) -> Option<String> {
    let moving = |angles: &[f32]| angles.iter().filter(|angle| **angle != 0.0).count();
    let (n_suspect, n_reference) = (moving(suspect), moving(reference));
    if n_suspect != n_reference {
        return Some(format!("RoPE rotates {n_suspect} pairs of each head, not {n_reference}"));
    }
    let pairs = suspect.iter().zip(reference).filter(|(_, b)| **b != 0.0);
    let ratios: Vec<f64> = pairs.map(|(a, b)| f64::from(*a) / f64::from(*b)).collect();
    if ratios.iter().all(|ratio| (ratio - 1.0).abs() <= NEAR) {
        return None;
    }
    let first = ratios[0];
    if ratios.iter().all(|ratio| (ratio / first - 1.0).abs() <= NEAR) {
        #[allow(clippy::cast_possible_truncation, reason = "a number for people")]
        let factor = first as f32;
        return Some(format!(
            "RoPE rotates by {} times the angle (a scaling of positions by {})",
            short(factor),
            short(1.0 / factor)
        ));
    }
    if let (Some(a), Some(b)) = (theta(suspect), theta(reference)) {
        return Some(format!("theta of RoPE is {}, not {}", short(a), short(b)));
    }
    let same = ratios.iter().filter(|ratio| (*ratio - 1.0).abs() <= NEAR).count();
    let all = ratios.len();
    Some(format!("RoPE scales angles in another way: {same} of {all} pairs rotate alike"))
}

/// θ of angles that are θ^(−i/n).
fn theta(angles: &[f32]) -> Option<f32> {
    let n = angles.len() as f64;
    let first = f64::from(*angles.first()?);
    let last = f64::from(*angles.last()?);
    if angles.len() < 2 || first <= 0.0 || last <= 0.0 {
        return None;
    }
    let step = (last / first).ln() / (n - 1.0);
    for (number, angle) in angles.iter().enumerate() {
        let expected = first * (step * number as f64).exp();
        if (f64::from(*angle) / expected - 1.0).abs() > 1e-3 {
            return None;
        }
    }
    #[allow(clippy::cast_possible_truncation, reason = "a number for people")]
    Some((-step * n).exp() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn angles(theta: f64, n: u32, factor: f64) -> Vec<f32> {
        #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
        (0..n).map(|i| (factor * theta.powf(-f64::from(i) / f64::from(n))) as f32).collect()
    }

    #[test]
    fn each_difference_has_its_words() {
        let base = angles(10_000.0, 32, 1.0);
        assert_eq!(difference(&base, &base), None);
        let other = difference(&angles(100_000.0, 32, 1.0), &base).unwrap();
        assert_eq!(other, "theta of RoPE is 100000, not 10000");
        let scaled = difference(&angles(10_000.0, 32, 0.125), &base).unwrap();
        assert!(scaled.contains("0.125 times") && scaled.contains("by 8"), "{scaled}");
        let mut half = base.clone();
        half.truncate(16);
        assert_eq!(difference(&half, &base).unwrap(), "RoPE rotates 16 pairs of each head, not 32");
        let mut bent = base.clone();
        bent[31] /= 8.0;
        assert!(difference(&bent, &base).unwrap().contains("31 of 32"));
    }
}
