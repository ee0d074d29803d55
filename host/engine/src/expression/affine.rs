//! Multiplies floats and adds to them, in F32: applies a dialect's offset to norms, its functions of values, and row
//! scales to integers.

use super::Expression;
use super::cast::{integer_bits, stored_floats};
use super::evaluate::{Buffers, Evaluation};
use super::row_codes::whole_bytes;
use super::spool::Spool;
use crate::values::cast::{self, Changes};
use apr_sdk::{DType, Error, Result};
use std::fmt;

/// A multiplication, an addition, or both in that order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Affine {
    /// The values, in F32.
    pub of: Expression,
    /// The factors for the rows, one F32 each.
    pub factor: Option<Factor>,
    /// A function of each value afterwards.
    pub map: Option<Map>,
    /// A constant to add to each value at last.
    pub add: Option<Constant>,
}

/// One F32 factor per row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// The factors, which must be readable at any offset.
    pub of: Expression,
    /// Elements per row.
    pub row_len: u64,
    /// Index of the first row's factor.
    pub first: u64,
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
            Expression::Affine(Box::new(Affine { of, factor: None, map, add }))
        })
    }

    /// The values in F32, with each row of `row_len` multiplied by its own factor from `factors`.
    ///
    /// # Errors
    /// Plugin for fewer factors than rows; Unsupported for an unknown dtype.
    pub fn times_rows(self, factors: Expression, row_len: u64) -> Result<Expression> {
        let base = self.untyped();
        let rows: u64 = base.parts().iter().map(Expression::elements).sum::<u64>() / row_len.max(1);
        let factors = factors.untyped().cast(DType::F32);
        if factors.byte_len()? / 4 < rows {
            return Err(Error::plugin(format!("{rows} rows have fewer factors")));
        }
        // Factors are read with their rows, which are computed in any order.
        let is_random = |one: &Expression| Ok::<_, Error>(one.is_leaf() && one.access()?.is_random());
        let factors = match factors {
            Expression::Concat(_) => Spool::of(factors),
            one if is_random(&one)? => one,
            one => Spool::of(one),
        };
        Ok(base.each_part(|part, before| {
            let factor = Some(Factor { of: factors.clone(), row_len, first: before / row_len.max(1) });
            Expression::Affine(Box::new(Affine { of: part.floats(row_len), factor, map: None, add: None }))
        }))
    }
}

impl Affine {
    /// Fails if the values cannot be computed.
    pub(super) fn check(&self) -> Result<()> {
        if let Expression::Cast(cast) = &self.of
            && let (Some(_), Some(factor)) = (integer_bits(cast.of.dtype()), &self.factor)
        {
            whole_bytes(factor.row_len, cast.of.dtype())?;
        }
        self.at_once(DType::F32).map(drop)
    }

    /// The kernel that adds to stored floats and casts the sums to `to`; `None` if more is involved.
    ///
    /// # Errors
    /// Unsupported for types that cannot be cast.
    pub(super) fn at_once(&self, to: DType) -> Result<Option<cast::CastKernel>> {
        match (stored_floats(&self.of), self.factor.is_none() && self.map.is_none(), self.add) {
            (Some(from), true, Some(c)) => cast::CastKernel::new(from, to, Some(c.get())),
            _ => Ok(None),
        }
    }

    /// Computes the values; returns the changes, and whether these count the non-finite ones.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        if let Some(cast) = self.at_once(DType::F32)? {
            return Ok((cast.apply(of.leaf, bytemuck::cast_slice_mut(&mut buffers.values)), true));
        }
        let (changes, _) = self.of.values(of, buffers)?;
        if let Some(factor) = &self.factor {
            factor.multiply(of, buffers)?;
        }
        if let Some(map) = self.map {
            buffers.values.iter_mut().for_each(|value| *value = map.of(*value));
        }
        if let Some(c) = self.add {
            buffers.values.iter_mut().for_each(|value| *value += c.get());
        }
        Ok((changes, false))
    }
}

impl Factor {
    fn multiply(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<()> {
        let row_len = usize::try_from(self.row_len).unwrap_or(usize::MAX).max(1);
        let rows = buffers.values.chunks_mut(row_len);
        buffers.factors.resize(rows.len(), 0.0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut buffers.factors);
        self.of.access()?.fill(of.read, (self.first + of.row) * 4, bytes)?;
        for (row, factor) in rows.zip(&buffers.factors) {
            let factor = f32::from_bits(u32::from_le(factor.to_bits()));
            row.iter_mut().for_each(|value| *value *= factor);
        }
        Ok(())
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
    use super::Map;

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
    fn products_are_rounded_once() {
        let third = (1.0f64 / 3.0).to_bits();
        assert_eq!(Map::Times(third).of(3.0), 1.0);
        assert_eq!(Map::Over(third).of(1.0), 3.0);
        assert_eq!(Map::Times(0.1f64.to_bits()).of(10.0), 1.0);
    }
}
