//! The search of the IQ2 and IQ3 types, as published: several scales are tried; each rounds the magnitudes to levels, takes
//! the nearest point of the codebook, and is judged by the scale that then fits best.

use super::{Codebook, no_point};
use crate::number::nearest_int;
use apr_sdk::Result;

/// The groups of a block that take their points once more from the scale that was chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// All.
    All,
    /// Those that were off the codebook; none if no try was better than nothing.
    Off,
    /// All if one was off, or if no try was better than nothing.
    AllIfOff,
}

/// What is tried for a block.
pub struct Search<const D: usize> {
    /// The codebook.
    pub codebook: &'static Codebook<D>,
    /// The scales tried are `(highest + try * step) / max`, try from `-tries` to `tries`.
    pub tries: i32,
    /// See `tries`.
    pub step: f32,
    /// What is done after the tries.
    pub again: Again,
}

/// What was found for a block of `G` groups.
pub struct Fitted<const G: usize> {
    /// Its scale, as it is left by the sums: may be negative.
    pub scale: f32,
    /// The point of each group.
    pub points: [u16; G],
}

impl<const D: usize> Search<D> {
    /// The value of the highest level.
    pub fn highest(&self) -> f32 {
        f32::from(2 * self.codebook.top() + 1)
    }

    /// Searches the points and the scale of a block: magnitudes (the odd one may be negative) and their weights.
    /// `max` is what the highest level stands for, `scale` what holds if no try is better than nothing.
    ///
    /// # Errors
    /// Where ggml ends the process: no point is nearer than infinitely far.
    #[allow(clippy::cast_precision_loss, reason = "small integers")]
    pub fn fit<const G: usize>(
        &self,
        values: &[[f32; D]; G],
        weights: &[[f32; D]; G],
        max: f32,
        scale: f32,
    ) -> Result<Fitted<G>> {
        let roots = weights.map(|group| group.map(f32::sqrt));
        let mut fitted = Fitted { scale, points: [0; G] };
        let mut best = 0.0;
        let mut off = [self.again == Again::AllIfOff; G];
        for attempt in -self.tries..=self.tries {
            let inverse = (self.highest() + attempt as f32 * self.step) / max;
            let (mut points, mut are_off) = ([0; G], [false; G]);
            for group in 0..G {
                (points[group], are_off[group]) =
                    self.nearest(&values[group], &roots[group], inverse, 1.0 / inverse)?;
            }
            let (products, squares) = self.sums(values, weights, &points);
            if squares > 0.0 && products * products > best * squares {
                fitted = Fitted { scale: products / squares, points };
                best = fitted.scale * products;
                off = are_off;
            }
        }
        let once_more = match self.again {
            Again::All => [true; G],
            Again::Off => off,
            Again::AllIfOff => [off.contains(&true); G],
        };
        if once_more.contains(&true) && fitted.scale > 0.0 {
            for group in (0..G).filter(|group| once_more[*group]) {
                (fitted.points[group], _) =
                    self.nearest(&values[group], &roots[group], 1.0 / fitted.scale, fitted.scale)?;
            }
            let (products, squares) = self.sums(values, weights, &fitted.points);
            if squares > 0.0 {
                fitted.scale = products / squares;
            }
        }
        if fitted.scale.is_nan() { Err(no_point()) } else { Ok(fitted) }
    }

    /// The point for a group at a scale, and whether the place that it was rounded to was off the codebook.
    pub fn nearest(
        &self,
        values: &[f32; D],
        roots: &[f32; D],
        inverse: f32,
        scale: f32,
    ) -> Result<(u16, bool)> {
        let top = i32::from(self.codebook.top());
        // Between 0 and 7.
        let level = |value: &f32| nearest_int(0.5 * (inverse * value - 1.0)).clamp(0, top).to_le_bytes()[0];
        let levels: [u8; D] = std::array::from_fn(|i| level(&values[i]));
        let near = self.codebook.near(self.codebook.place(&levels));
        if *self.codebook.point(near[0]) == levels {
            return Ok((near[0], false));
        }
        let mut best = (f32::MAX, None);
        for index in near {
            let mut distance = 0.0;
            for ((level, value), root) in self.codebook.point(*index).iter().zip(values).zip(roots) {
                let difference = scale * f32::from(2 * level + 1) - value;
                distance += root * difference * difference;
            }
            if distance < best.0 {
                best = (distance, Some(*index));
            }
        }
        best.1.map(|index| (index, true)).ok_or_else(no_point)
    }

    /// The weighted sums of values times points, and of points squared.
    fn sums<const G: usize>(
        &self,
        values: &[[f32; D]; G],
        weights: &[[f32; D]; G],
        points: &[u16; G],
    ) -> (f32, f32) {
        let (mut products, mut squares) = (0.0, 0.0);
        for group in 0..G {
            let point = self.codebook.point(points[group]);
            for ((level, value), weight) in point.iter().zip(&values[group]).zip(&weights[group]) {
                let q = f32::from(2 * level + 1);
                products += weight * value * q;
                squares += weight * q * q;
            }
        }
        (products, squares)
    }
}
