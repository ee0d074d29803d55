//! Changes floats in F32: applies a dialect's offset to norms, and its functions of values.

use super::Expression;
use super::cast::stored_floats;
use super::evaluate::{Buffers, Evaluation};
use crate::values::cast::{self, Changes};
use apr_sdk::{DType, Result};
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
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        if let Some(cast) = self.at_once(DType::F32)? {
            return Ok((cast.apply(of.leaf, bytemuck::cast_slice_mut(&mut buffers.values)), true));
        }
        let (mut changes, _) = self.of.values(of, buffers)?;
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
    /// x times a number, given by its bits.
    Times(u64),
    /// x divided by a number, given by its bits.
    Over(u64),
}

/// How far from the rounded logarithm the value may lie that the exponential of gives the stored one.
const NEIGHBOURS: u32 = 8;

/// The F32 whose exponential, rounded, is `x`.
#[allow(clippy::cast_possible_truncation, reason = "values are F32: this is the one rounding")]
fn logarithm(x: f32) -> f32 {
    let near = f64::from(x).ln() as f32;
    // Several values have the same exponential, and the nearest logarithm need not be one of them.
    let gives_back = |y: &f32| Map::Exp.of(*y).to_bits() == x.to_bits();
    let steps =
        (1..=NEIGHBOURS).flat_map(|n| [near.to_bits().wrapping_add(n), near.to_bits().wrapping_sub(n)]);
    let tried = std::iter::once(near).chain(steps.map(f32::from_bits));
    tried.filter(|y| y.is_finite()).find(gives_back).unwrap_or(near)
}

impl Map {
    /// The function that undoes it, but for rounding.
    pub fn inverse(self) -> Map {
        match self {
            Map::NegExp => Map::LnNeg,
            Map::LnNeg => Map::NegExp,
            Map::Exp => Map::Ln,
            Map::Ln => Map::Exp,
            Map::Times(bits) => Map::Over(bits),
            Map::Over(bits) => Map::Times(bits),
        }
    }

    /// The function of a value.
    #[allow(clippy::cast_possible_truncation, reason = "values are F32: this is the one rounding")]
    pub fn of(self, x: f32) -> f32 {
        let wide = f64::from(x);
        match self {
            Map::NegExp => -(wide.exp()) as f32,
            Map::Exp => wide.exp() as f32,
            Map::LnNeg => logarithm(-x),
            Map::Ln => logarithm(x),
            Map::Times(bits) => (wide * f64::from_bits(bits)) as f32,
            Map::Over(bits) => (wide / f64::from_bits(bits)) as f32,
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
            Map::Times(bits) => write!(f, "times {}", f64::from_bits(*bits)),
            Map::Over(bits) => write!(f, "over {}", f64::from_bits(*bits)),
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
    use super::{Affine, Constant, Expression, Map};
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

    #[test]
    fn what_the_inverse_does_not_restore_is_counted() {
        let change = |map, add: Option<f32>| {
            let of = Expression::fill(DType::F32, &[]);
            Affine { of, map, add: add.map(Constant::from) }
        };
        let restores =
            |affine: &Affine, value: f32| affine.undo(affine.change(value)).to_bits() == value.to_bits();
        // Logarithms above 1 are too coarse to tell all stored values apart.
        let decay = change(Some(Map::LnNeg), None);
        assert!(restores(&decay, -1.0) && restores(&decay, -0.25));
        let lost = (0..64u32).filter(|n| !restores(&decay, f32::from_bits((-16.0f32).to_bits() + n)));
        assert!(lost.count() > 8);
        let norm = change(None, Some(-1.0));
        assert!(restores(&norm, 1.25));
        assert!(!restores(&norm, 1e-9) && !restores(&norm, -0.0));
        let scaled = |by: f64| change(Some(Map::Times(by.to_bits())), None);
        assert!(restores(&scaled(0.25), 3.7) && !restores(&scaled(0.25), f32::from_bits(3)));
    }

    #[test]
    fn products_are_rounded_once() {
        let third = (1.0f64 / 3.0).to_bits();
        assert_eq!(Map::Times(third).of(3.0), 1.0);
        assert_eq!(Map::Over(third).of(1.0), 3.0);
        assert_eq!(Map::Times(0.1f64.to_bits()).of(10.0), 1.0);
    }
}
