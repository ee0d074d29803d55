//! Growth of the error along a chain: fits the exponent in `error = first · hops ^ exponent`. Random errors grow with
//! the square root (0.5), systematic ones linearly (1): specification, section 14.5.

use serde::Serialize;

/// The exponent from which growth counts as linear: halfway between square root and line.
const LINEAR: f64 = 0.75;

/// Points with an error that are needed to fit a growth.
const FEWEST: usize = 3;

/// Growth of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No hop has any error.
    None,
    /// There is an error, but too few hops to tell how it grows.
    TooFew,
    /// Slower than linear.
    Bounded,
    /// Linear or faster: a systematic error.
    Linear,
}

/// A fitted growth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The exponent; `None` if it cannot be fitted.
    pub exponent: Option<f64>,
    /// The interpretation of the exponent.
    pub verdict: Verdict,
}

/// Fits the growth of `errors`, whose first item is the error after one hop, by least squares over the
/// logarithms. Hops without error have no logarithm and are skipped.
pub fn fit(errors: &[f64]) -> Growth {
    if errors.iter().any(|error| !error.is_finite()) {
        return Growth { exponent: None, verdict: Verdict::Linear };
    }
    let points: Vec<(f64, f64)> = (1u32..)
        .zip(errors)
        .filter(|(_, error)| **error > 0.0)
        .map(|(hops, error)| (f64::from(hops).ln(), error.ln()))
        .collect();
    if points.is_empty() {
        return Growth { exponent: None, verdict: Verdict::None };
    }
    if points.len() < FEWEST {
        return Growth { exponent: None, verdict: Verdict::TooFew };
    }
    let n: f64 = points.iter().map(|_| 1.0).sum();
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let exponent = covariance / variance;
    let verdict = if exponent >= LINEAR { Verdict::Linear } else { Verdict::Bounded };
    Growth { exponent: Some(exponent), verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(of: impl Fn(f64) -> f64) -> Vec<f64> {
        (1..=6).map(|hops| of(f64::from(hops))).collect()
    }

    fn exponent(errors: &[f64]) -> f64 {
        fit(errors).exponent.unwrap()
    }

    #[test]
    fn a_line_is_told_from_a_square_root() {
        let line = series(|n| 1e-4 * n);
        let root = series(|n| 1e-4 * n.sqrt());
        let square = series(|n| 1e-4 * n * n);
        let flat = series(|_| 1e-4);
        assert!((exponent(&line) - 1.0).abs() < 1e-9 && fit(&line).verdict == Verdict::Linear);
        assert!((exponent(&root) - 0.5).abs() < 1e-9 && fit(&root).verdict == Verdict::Bounded);
        assert!((exponent(&square) - 2.0).abs() < 1e-9 && fit(&square).verdict == Verdict::Linear);
        assert!(exponent(&flat).abs() < 1e-9 && fit(&flat).verdict == Verdict::Bounded);
    }

    #[test]
    fn noise_does_not_hide_a_line() {
        let noise = [1.1, 0.9, 1.05, 0.95, 1.02, 0.98];
        let noisy: Vec<f64> = series(|n| 2e-3 * n).iter().zip(noise).map(|(e, n)| e * n).collect();
        assert_eq!(fit(&noisy).verdict, Verdict::Linear);
    }

    #[test]
    fn what_cannot_be_fitted_is_said() {
        assert_eq!(fit(&[]).verdict, Verdict::None);
        assert_eq!(fit(&[0.0; 5]), Growth { exponent: None, verdict: Verdict::None });
        assert_eq!(fit(&[0.0, 0.0, 0.1, 0.2]).verdict, Verdict::TooFew);
        assert_eq!(fit(&[0.1, f64::INFINITY]).verdict, Verdict::Linear);
    }
}
