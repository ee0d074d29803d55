//! Arithmetic on rows of floats. Each function is one plain loop without branches, compiled once for each level, so that
//! every level gives the same bits: no fused multiply-add, and sums in lanes whose number is fixed.

#[cfg(test)]
use crate::level::Level;
use crate::level::versions;

/// How many partial sums a sum is made of.
pub(crate) const LANES: usize = 16;

/// Adds up lanes in a fixed order.
#[inline(always)]
pub(crate) fn total<T: Copy + std::ops::AddAssign>(mut lanes: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            let upper = lanes[lane + half];
            lanes[lane] += upper;
        }
        half /= 2;
    }
    lanes[0]
}

/// A sum of `term(x)` in double precision.
#[inline(always)]
pub(crate) fn sum_by(x: &[f32], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0f64; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += term(f64::from(*x));
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += term(f64::from(*x));
    }
    total(lanes)
}

versions! {
    /// x += y · factor.
    add_scaled(x: &mut [f32], y: &[f32], factor: f32) -> () {
        for (x, y) in x.iter_mut().zip(y) {
            *x += *y * factor;
        }
    }

    /// x = x · factor.
    scale(x: &mut [f32], factor: f32) -> () {
        for x in x {
            *x *= factor;
        }
    }

    /// x = a · x + b · y.
    blend(x: &mut [f32], a: f32, y: &[f32], b: f32) -> () {
        for (x, y) in x.iter_mut().zip(y) {
            *x = *x * a + *y * b;
        }
    }

    /// The largest element; NaN counts as smallest, and −∞ stands for none.
    largest(x: &[f32]) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let chunks = x.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = if *x > *lane { *x } else { *lane };
            }
        }
        for x in rest {
            lanes[0] = if *x > lanes[0] { *x } else { lanes[0] };
        }
        lanes.iter().fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most })
    }

    /// Replaces each score by e^(score − most) and gives their sum.
    exponentials(scores: &mut [f32], most: f32) -> f32 {
        let mut lanes = [0f32; LANES];
        let mut chunks = scores.chunks_exact_mut(LANES);
        for chunk in &mut chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *x = super::functions::exp(*x - most);
                *lane += *x;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(chunks.into_remainder()) {
            *x = super::functions::exp(*x - most);
            *lane += *x;
        }
        total(lanes)
    }

    /// Whether any element is NaN.
    has_nan(x: &[f32]) -> bool {
        x.iter().fold(false, |any, x| any | x.is_nan())
    }

    /// The Euclidean norm squared.
    squares(x: &[f32]) -> f64 {
        sum_by(x, |x| x * x)
    }
}

/// Every level that this processor has, for tests.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Level> {
    ["scalar", "avx2", "avx512"].into_iter().filter_map(|name| Level::named(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gives_the_same_bits() {
        let x: Vec<f32> = (0..103u16).map(|i| (f32::from(i) * 0.37).sin()).collect();
        let run = |level| {
            let mut y = x.clone();
            let sum = exponentials(level, &mut y, 0.5);
            add_scaled(level, &mut y, &x, 0.3);
            blend(level, &mut y, 0.1, &x, 0.7);
            scale(level, &mut y, 1.7);
            (sum.to_bits(), squares(level, &y).to_bits(), largest(level, &y), y)
        };
        let plain = run(Level::Scalar);
        assert!(levels().into_iter().all(|level| run(level) == plain));
        let nan = [1.0, f32::NAN, 3.0];
        assert!(levels().into_iter().all(|level| largest(level, &nan) == 3.0 && has_nan(level, &nan)));
    }
}
