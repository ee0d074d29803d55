//! Errors of quantization: sums that are collected while values are quantized, and the figures derived from
//! them.

use fearless_simd::{Level, dispatch};
use serde::Serialize;

/// Sums over values `x` and their replacements `y`, for pairs that are both finite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Number of such pairs.
    pub values: u64,
    /// Number of pairs that are left out because one value is not finite.
    pub not_finite: u64,
    /// Sum of x².
    pub square: f64,
    /// Sum of y².
    pub square_after: f64,
    /// Sum of x · y.
    pub product: f64,
    /// Sum of (x - y)².
    pub square_error: f64,
    /// The greatest |x - y|.
    pub greatest: f64,
}

impl Loss {
    /// The sums over two equally long slices.
    pub fn between(before: &[f32], after: &[f32]) -> Loss {
        dispatch!(Level::new(), _ => sums(before, after))
    }

    /// Adds the sums over further values.
    pub fn add(&mut self, more: &Loss) {
        self.values += more.values;
        self.not_finite += more.not_finite;
        self.square += more.square;
        self.square_after += more.square_after;
        self.product += more.product;
        self.square_error += more.square_error;
        self.greatest = self.greatest.max(more.greatest);
    }

    /// The number of pairs, including those left out.
    pub fn pairs(&self) -> u64 {
        self.values + self.not_finite
    }

    /// The derived figures, for weights stored in so many bits each.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn measured(&self, bits_per_weight: f64) -> Measured {
        let lengths = (self.square * self.square_after).sqrt();
        Measured {
            values: self.values,
            not_finite: self.not_finite,
            rmse: (self.square_error / self.values.max(1) as f64).sqrt(),
            max_abs_error: self.greatest,
            snr_db: (self.square_error > 0.0).then(|| 10.0 * (self.square / self.square_error).log10()),
            cosine: (lengths > 0.0).then(|| self.product / lengths),
            bits_per_weight,
        }
    }

    /// Returns whether F32 sums are as good as wider ones: no square overflowed, and none vanished.
    #[inline(always)]
    fn is_sound(&self) -> bool {
        let sums = [self.square, self.square_after, self.product, self.square_error];
        let error_vanished = self.greatest > 0.0 && self.greatest < SMALLEST;
        let values_vanished = self.square.min(self.square_after) < SMALLEST * SMALLEST;
        sums.iter().all(|sum| sum.is_finite())
            && self.greatest.is_finite()
            && !error_vanished
            && !values_vanished
    }
}

/// The smallest magnitude whose square F32 is trusted with: far above 2⁻⁶³, where the square vanishes.
const SMALLEST: f64 = 1e-15;
/// Values summed in F32 side by side before they are added in F64; the rounding error is below 2⁻²⁰ of the
/// sum.
const RUN: usize = 512;
/// Partial sums side by side.
const LANES: usize = 32;

#[inline(always)]
fn sums(before: &[f32], after: &[f32]) -> Loss {
    let mut loss = Loss::default();
    for (before, after) in before.chunks(RUN).zip(after.chunks(RUN)) {
        let narrow = narrow(before, after);
        loss.add(&if narrow.is_sound() { narrow } else { wide(before, after) });
    }
    loss
}

/// The sums of a run, in F32.
#[inline(always)]
fn narrow(before: &[f32], after: &[f32]) -> Loss {
    let mut lanes = [[0f32; LANES]; 5];
    let values = before.len() as u64;
    let (before, rest) = before.as_chunks::<LANES>();
    let (after, rest_after) = after.as_chunks::<LANES>();
    for (x, y) in before.iter().zip(after) {
        add(&mut lanes, x, y);
    }
    if !rest.is_empty() {
        let mut x = [0f32; LANES];
        let mut y = [0f32; LANES];
        x[..rest.len()].copy_from_slice(rest);
        y[..rest.len()].copy_from_slice(rest_after);
        add(&mut lanes, &x, &y);
    }
    let sums = lanes.map(|lanes| lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>());
    Loss {
        values,
        not_finite: 0,
        square: sums[0],
        square_after: sums[1],
        product: sums[2],
        square_error: sums[3],
        greatest: lanes[4].iter().fold(0.0, |most, lane| most.max(f64::from(*lane))),
    }
}

/// The sums of a run, in F64, which holds the square of every F32.
fn wide(before: &[f32], after: &[f32]) -> Loss {
    let mut loss = Loss::default();
    for (x, y) in before.iter().zip(after) {
        if !(x.is_finite() && y.is_finite()) {
            loss.not_finite += 1;
            continue;
        }
        let [x, y] = [*x, *y].map(f64::from);
        loss.values += 1;
        loss.square += x * x;
        loss.square_after += y * y;
        loss.product += x * y;
        loss.square_error += (x - y) * (x - y);
        loss.greatest = loss.greatest.max((x - y).abs());
    }
    loss
}

#[inline(always)]
fn add(lanes: &mut [[f32; LANES]; 5], x: &[f32; LANES], y: &[f32; LANES]) {
    for lane in 0..LANES {
        let x = x[lane];
        let y = y[lane];
        let error = x - y;
        lanes[0][lane] += x * x;
        lanes[1][lane] += y * y;
        lanes[2][lane] += x * y;
        lanes[3][lane] += error * error;
        lanes[4][lane] = lanes[4][lane].max(error.abs());
    }
}

/// The effect of quantization on one tensor, or on all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Number of values compared: those that are finite before and after.
    pub values: u64,
    /// Number of values not compared, because one side is not finite.
    #[serde(skip_serializing_if = "is_none")]
    pub not_finite: u64,
    /// Root mean square error.
    pub rmse: f64,
    /// The greatest absolute error.
    pub max_abs_error: f64,
    /// Signal-to-noise ratio in decibels; `None` if nothing was lost.
    pub snr_db: Option<f64>,
    /// Cosine similarity of the values before and after; `None` if all are zero.
    pub cosine: Option<f64>,
    /// Bits per weight after quantization, with those of the scales of its rows.
    pub bits_per_weight: f64,
}

/// Returns whether a count is zero, for serde.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn is_none<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_definition_for_every_length() {
        for n in [0usize, 1, 31, 32, 33, 511, 513, 2000] {
            let numbers = (0..n).map(|i| u16::try_from(i * 7919 % 1009).unwrap());
            let before: Vec<f32> = numbers.map(|number| f32::from(number) / 500.0 - 1.0).collect();
            let after: Vec<f32> = before.iter().map(|x| (x * 8.0).round() / 8.0).collect();
            let loss = Loss::between(&before, &after);
            let both = before.iter().zip(&after).map(|(x, y)| (f64::from(*x), f64::from(*y)));
            let want = [
                both.clone().map(|(x, _)| x * x).sum::<f64>(),
                both.clone().map(|(_, y)| y * y).sum(),
                both.clone().map(|(x, y)| x * y).sum(),
                both.clone().map(|(x, y)| (x - y) * (x - y)).sum(),
            ];
            let have = [loss.square, loss.square_after, loss.product, loss.square_error];
            for (have, want) in have.into_iter().zip(want) {
                assert!((have - want).abs() <= 1e-5 * want.abs(), "{n}: {have} {want}");
            }
            let greatest = both.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            assert!((loss.greatest - greatest).abs() <= 1e-7 * greatest);
            assert_eq!((loss.values, loss.not_finite), (n as u64, 0));
        }
    }

    #[test]
    fn no_square_overflows_and_none_vanishes() {
        for scale in [1e20f32, 3e38, 1e-25, 1e-38] {
            let before = [scale, -scale, 0.0, scale];
            let after = [0.0, -scale, 0.0, scale / 2.0];
            let loss = Loss::between(&before, &after);
            let scale = f64::from(scale);
            for (have, want) in [
                (loss.square, 3.0 * scale * scale),
                (loss.square_error, 1.25 * scale * scale),
                (loss.greatest, scale),
            ] {
                assert!((have - want).abs() <= 1e-6 * want, "{scale:e}: {loss:?}");
            }
        }
        let apart = Loss::between(&[f32::MAX, f32::NAN, 1.0], &[-f32::MAX, 0.0, f32::INFINITY]);
        assert_eq!((apart.values, apart.not_finite, apart.greatest), (1, 2, 2.0 * f64::from(f32::MAX)));
        assert!(apart.square_error > 1e76);
    }

    #[test]
    fn figures_follow_from_the_sums() {
        let loss = Loss::between(&[1.0, -1.0, 0.0, 0.0], &[1.0, -0.5, 0.0, 0.0]);
        let measured = loss.measured(4.5);
        assert_eq!((measured.rmse, measured.max_abs_error), (0.25, 0.5));
        assert!((measured.snr_db.unwrap() - 10.0 * 8f64.log10()).abs() < 1e-12);
        assert!((measured.cosine.unwrap() - 1.5 / 2.5f64.sqrt()).abs() < 1e-12);
        let nothing = Loss { values: 4, ..Loss::default() }.measured(1.0);
        assert_eq!((nothing.snr_db, nothing.cosine, nothing.rmse), (None, None, 0.0));
    }
}
