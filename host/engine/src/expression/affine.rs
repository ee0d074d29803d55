//! Changes floats in F32: applies a dialect's offset to norms, and its functions of values.

use super::Expression;
use super::cast::stored_floats;
use super::evaluate::{Buffers, Evaluation};
use crate::values::cast::{self, Changes};
use apr_sdk::{DType, Error, Result};
use std::fmt;

/// A function of each value, an addition, or both in that order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Affine {
    /// The values, in F32.
    pub of: Expression,
    /// A function of each value.
    pub map: Option<Map>,
    /// A constant to add to each value at last.
    pub add: Option<Constant>,
}

/// A number, stored by its bits so that it can be hashed and compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Constant(u32);

impl Constant {
    /// The number.
    pub fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Constant {
    fn from(value: f32) -> Constant {
        Constant(value.to_bits())
    }
}

impl std::fmt::Debug for Constant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl Expression {
    /// The values in F32, a function of each, and a constant added, in rows of `row_len`.
    pub fn changed(self, map: Option<Map>, add: f32, row_len: u64) -> Expression {
        let add = (add != 0.0).then(|| add.into());
        self.untyped().each_part(|part, _| {
            let of = part.floats(row_len);
            Expression::Affine(Box::new(Affine { of, map, add }))
        })
    }
}

impl Affine {
    /// Fails if the values cannot be computed.
    pub(super) fn check(&self) -> Result<()> {
        self.at_once(DType::F32).map(drop)
    }

    /// The kernel that adds to stored floats and casts the sums to `to`; `None` if more is involved.
    ///
    /// # Errors
    /// Unsupported for types that cannot be cast.
    pub(super) fn at_once(&self, to: DType) -> Result<Option<cast::CastKernel>> {
        match (stored_floats(&self.of), self.map.is_none(), self.add) {
            (Some(from), true, Some(c)) => cast::CastKernel::new(from, to, Some(c.get())),
            _ => Ok(None),
        }
    }

    /// Computes the values; returns the changes, and whether these count the non-finite ones.
    ///
    /// # Errors
    /// Plugin if its function depends on all values, which nobody measured; any error from computing the operand.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        if self.map == Some(Map::Ternary(None)) {
            return Err(Error::plugin("the mean of the values has not been measured"));
        }
        if let Some(cast) = self.at_once(DType::F32)? {
            return Ok((cast.apply(of.leaf, bytemuck::cast_slice_mut(&mut buffers.values)), true));
        }
        let (mut changes, _) = self.of.values(of, buffers)?;
        if !of.counts_undone && matches!(self.map, Some(Map::Times(..) | Map::Over(..) | Map::Ternary(_))) {
            // Matrices: the search for a value's factor takes longer than everything else.
            buffers.values.iter_mut().for_each(|value| *value = self.change(*value));
            return Ok((changes, false));
        }
        for value in &mut buffers.values {
            let changed = self.change(*value);
            changes.not_undone += u64::from(self.undo(changed).to_bits() != value.to_bits());
            *value = changed;
        }
        Ok((changes, false))
    }

    fn change(&self, value: f32) -> f32 {
        let mapped = self.map.map_or(value, |map| map.of(value));
        self.add.map_or(mapped, |c| mapped + c.get())
    }

    fn undo(&self, value: f32) -> f32 {
        let mapped = self.add.map_or(value, |c| value - c.get());
        self.map.map_or(mapped, |map| map.inverse().of(mapped))
    }
}

/// A function of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Map {
    /// −exp(x), as state-space models keep the logarithm of a decay (Mamba, section 3.6 of its paper: `A_log`).
    NegExp,
    /// ln(−x), its inverse.
    LnNeg,
    /// exp(x).
    Exp,
    /// ln(x), its inverse.
    Ln,
    /// x times a number, and the product times another, each in F32 as converters have it.
    Times(Constant, Constant),
    /// Its inverse: the value whose product is x.
    Over(Constant, Constant),
    /// −m, 0 or m, whichever is nearest, where m is the mean distance of all values to zero (BitNet b1.58); `None` until that
    /// is measured. What is such a value stays.
    Ternary(Option<Levels>),
}

/// The values that a ternary matrix has besides zero, and what decides between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    /// The factor by which values become multiples of the mean distance to zero.
    scale: Constant,
    /// The distance to zero of those that are not zero.
    magnitude: Constant,
}

impl Levels {
    /// The least mean distance to zero: smaller values become zeros.
    const LEAST: f32 = 1e-5;

    /// The level of a value.
    fn of(self, x: f32) -> f32 {
        let multiple = x * self.scale.get();
        if multiple.is_nan() {
            return x;
        }
        // Half of it is rounded to zero, which is even.
        let level = if multiple.abs() > 0.5 { self.magnitude.get() } else { 0.0 };
        level.copysign(x)
    }
}

/// The distances of values to zero, as they are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distances {
    sum: f64,
    count: u64,
    /// The distance of the first that is not zero.
    first: Option<f32>,
    /// Whether another is neither zero nor as far from it.
    differ: bool,
}

impl Distances {
    /// Adds those of further values.
    pub fn add(&mut self, values: &[f32]) {
        self.count += values.len() as u64;
        for value in values {
            let distance = value.abs();
            self.sum += f64::from(distance);
            self.differ |= distance != 0.0 && *self.first.get_or_insert(distance) != distance;
        }
    }

    /// The levels of the values: those that they have, if there is one besides zero; otherwise the mean distance, as
    /// `utils_quant.py` of BitNet b1.58 computes it.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the mean is an F32, of fewer values than 2^53"
    )]
    pub fn levels(&self) -> Levels {
        if let (Some(first), false) = (self.first, self.differ) {
            return Levels { scale: (1.0 / first).into(), magnitude: first.into() };
        }
        let mean = (self.sum / self.count.max(1) as f64) as f32;
        let scale = 1.0 / mean.max(Levels::LEAST);
        Levels { scale: scale.into(), magnitude: (1.0 / scale).into() }
    }
}

/// Limit on the distance, in representable values, between the rounded inverse and the value that the
/// function maps to the stored one.
const NEIGHBOURS: u32 = 8;

/// Number of low bits that an F32 leaves unused if it is a BF16, and if it is an F16.
const UNUSED: [u32; 2] = [16, 13];

/// The F32 of which `map` gives `x`, among those near the rounded inverse, which need not be one of them; otherwise that.
/// Several may be: then one that half of the bits can hold, as most files are made of those, or else the nearest.
fn inverse(map: Map, near: f32, x: f32) -> f32 {
    let bits = near.to_bits();
    let short = UNUSED.into_iter().flat_map(|unused| {
        let below = bits >> unused << unused;
        [below, below.wrapping_add(1 << unused)]
    });
    let steps = (1..=NEIGHBOURS).flat_map(|n| [bits.wrapping_add(n), bits.wrapping_sub(n)]);
    let mut tried = short.chain([bits]).chain(steps).map(f32::from_bits);
    tried.find(|y| y.is_finite() && map.of(*y).to_bits() == x.to_bits()).unwrap_or(near)
}

impl Map {
    /// The function that undoes it, but for rounding.
    pub fn inverse(self) -> Map {
        match self {
            Map::NegExp => Map::LnNeg,
            Map::LnNeg => Map::NegExp,
            Map::Exp => Map::Ln,
            Map::Ln => Map::Exp,
            Map::Times(a, b) => Map::Over(a, b),
            Map::Over(a, b) => Map::Times(a, b),
            Map::Ternary(levels) => Map::Ternary(levels),
        }
    }

    /// The function of a value.
    #[allow(clippy::cast_possible_truncation, reason = "values are F32: this is the one rounding")]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        match self {
            Map::NegExp => -(wide.exp()) as f32,
            Map::Exp => wide.exp() as f32,
            Map::LnNeg => inverse(Map::Exp, (-wide).ln() as f32, -x),
            Map::Ln => inverse(Map::Exp, wide.ln() as f32, x),
            Map::Times(a, b) => x * a.get() * b.get(),
            Map::Over(a, b) => {
                let near = (wide / f64::from(a.get()) / f64::from(b.get())) as f32;
                inverse(Map::Times(a, b), near, x)
            }
            Map::Ternary(levels) => levels.map_or(x, |levels| levels.of(x)),
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Map::NegExp => f.write_str("neg_exp"),
            Map::LnNeg => f.write_str("ln_neg"),
            Map::Exp => f.write_str("exp"),
            Map::Ln => f.write_str("ln"),
            Map::Times(a, b) => write!(f, "times {} {}", a.get(), b.get()),
            Map::Over(a, b) => write!(f, "over {} {}", a.get(), b.get()),
            Map::Ternary(None) => f.write_str("ternary"),
            Map::Ternary(Some(levels)) => write!(f, "ternary {}", levels.magnitude.get()),
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Affine, Constant, Distances, Expression, Map};
    use apr_sdk::DType;

    #[test]
    fn a_logarithm_has_the_exponential_that_was_stored() {
        let mut at = -12.0f32;
        while at < 8.0 {
            let stored = Map::NegExp.of(at);
            assert_eq!(Map::NegExp.of(Map::LnNeg.of(stored)).to_bits(), stored.to_bits(), "{at}");
            assert_eq!(Map::Exp.of(Map::Ln.of(-stored)).to_bits(), (-stored).to_bits(), "{at}");
            at += 0.001_7;
        }
        assert!(Map::LnNeg.of(1.0).is_nan() && Map::LnNeg.of(0.0).is_infinite());
        assert_eq!(Map::NegExp.of(0.0).to_bits(), (-1.0f32).to_bits());
    }

    fn affine(map: Option<Map>, add: Option<f32>) -> Affine {
        Affine { of: Expression::fill(DType::F32, &[]), map, add: add.map(Constant::from) }
    }

    fn restores(affine: &Affine, value: f32) -> bool {
        affine.undo(affine.change(value)).to_bits() == value.to_bits()
    }

    #[test]
    fn what_the_inverse_does_not_restore_is_counted() {
        // Logarithms above 1 are too coarse to tell all stored values apart.
        let decay = affine(Some(Map::LnNeg), None);
        assert!(restores(&decay, -1.0) && restores(&decay, -0.25));
        let lost = (0..64u32).filter(|n| !restores(&decay, f32::from_bits((-16.0f32).to_bits() + n)));
        assert!(lost.count() > 8);
        let norm = affine(None, Some(-1.0));
        assert!(restores(&norm, 1.25));
        assert!(!restores(&norm, 1e-9) && !restores(&norm, -0.0));
        let scaled = affine(Some(Map::Times(0.25.into(), 1.0.into())), None);
        assert!(restores(&scaled, 3.7) && !restores(&scaled, f32::from_bits(3)));
    }

    fn levels_of(values: &[f32]) -> Map {
        let mut distances = Distances::default();
        values.chunks(2).for_each(|some| distances.add(some));
        Map::Ternary(Some(distances.levels()))
    }

    #[test]
    fn values_become_the_nearest_of_three_and_then_stay() {
        let values = [0.5, -0.24, 0.26, -1.0, 0.0, 1e-9, -3.0, 0.0];
        let map = levels_of(&values);
        // The mean distance to zero is 0.625; half of it lies between 0.26 and 0.5.
        let three = values.map(|value| map.of(value));
        assert_eq!(three, [0.625, -0.0, 0.0, -0.625, 0.0, 0.0, -0.625, 0.0]);
        assert_eq!(three[1].to_bits(), (-0.0f32).to_bits(), "a zero keeps the sign, as in torch");
        let again = levels_of(&three);
        assert!(three.iter().all(|value| again.of(*value).to_bits() == value.to_bits()));
        // Any value besides zero is kept, not the one that divides twice.
        let odd = [0.3f32, -0.3, 0.0];
        assert_eq!(odd.map(|value| levels_of(&odd).of(value)), odd);
        assert_eq!(levels_of(&[1e-7, -2e-7]).of(1e-7).to_bits(), 0);
        assert!(levels_of(&[1.0, 2.0]).of(f32::NAN).is_nan());
        assert_eq!(levels_of(&[0.0]).of(0.0).to_bits(), 0);
    }

    #[test]
    fn products_are_those_of_f32_one_after_the_other() {
        let a = 0.390_625_3_f32;
        let b = 0.8_f32;
        let times = Map::Times(a.into(), b.into());
        let over = Map::Over(a.into(), b.into());
        let mut at = 0.001_f32;
        while at < 9.0 {
            let stored = times.of(at);
            assert_eq!(stored.to_bits(), ((at * a) * b).to_bits(), "{at}");
            assert_eq!(times.of(over.of(stored)).to_bits(), stored.to_bits(), "{at}");
            at += 0.001_7;
        }
        let rounded_once = f64::from(3.0_f32) * 0.1;
        assert_ne!(f64::from(Map::Times(0.1f32.into(), 1.0f32.into()).of(3.0)), rounded_once);
    }

    #[test]
    fn among_logarithms_of_one_value_the_one_of_half_the_bits_is_taken() {
        for bits in (0x3c00u32..0x3f80).step_by(7) {
            let short = f32::from_bits(bits << 16);
            let back = Map::LnNeg.of(Map::NegExp.of(short));
            assert_eq!(back.to_bits(), short.to_bits(), "{short}");
        }
    }
}
