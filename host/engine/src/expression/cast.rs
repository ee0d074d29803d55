//! Converts each element to another float type, rounding once.

use super::Expression;
use super::evaluate::{Buffers, Evaluation, Outcome};
use crate::values::cast::{self, Changes};
use apr_sdk::{DType, Error, Result};

/// A conversion of each element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    /// Floats.
    pub of: Expression,
    /// The target type.
    pub to: DType,
}

/// The stored float type, if `of` is stored floats or those in F32.
pub(super) fn stored_floats(of: &Expression) -> Option<DType> {
    let stored = match of {
        Expression::Cast(cast) if cast.to == DType::F32 => &cast.of,
        other => other,
    };
    let dtype = Some(stored).filter(|stored| stored.is_leaf())?.dtype();
    Some(dtype).filter(|dtype| !dtype.is_block())
}

/// The kernel that casts stored floats to `to` by way of `of`, including an addition; `None` if more is
/// involved.
///
/// # Errors
/// Unsupported for types that cannot be cast.
fn at_once(of: &Expression, to: DType) -> Result<Option<cast::CastKernel>> {
    match of {
        Expression::Affine(affine) => affine.at_once(to),
        leaf if leaf.is_leaf() => {
            stored_floats(leaf).map_or(Ok(None), |from| cast::CastKernel::new(from, to, None))
        }
        _ => Ok(None),
    }
}

impl Expression {
    /// The kernel that computes it from its leaf in one step, element by element; `None` if more is involved.
    ///
    /// # Errors
    /// Unsupported for types that cannot be cast.
    pub(super) fn at_once(&self) -> Result<Option<cast::CastKernel>> {
        match self {
            Expression::Cast(cast) => at_once(&cast.of, cast.to),
            Expression::Affine(affine) => affine.at_once(DType::F32),
            _ => Ok(None),
        }
    }

    /// The elements in F32; if they are blocks, in rows of `row_len`.
    pub(super) fn floats(self, row_len: u64) -> Expression {
        match self.dtype().is_block() {
            true => self.decoded(row_len),
            false => self.cast(DType::F32),
        }
    }

    /// The elements as floats of another type; unchanged if they already are.
    pub(super) fn cast(self, to: DType) -> Expression {
        if self.dtype() == to {
            return self;
        }
        self.each_part(|of, _| Expression::Cast(Box::new(Cast { of, to })))
    }
}

impl Cast {
    /// Fails if there is no such cast. Integers are not weights: what scales them is known to schemes.
    pub(super) fn check(&self) -> Result<()> {
        if matches!(self.of, Expression::Cast(_)) {
            return Err(Error::plugin("a cast of a cast"));
        }
        if at_once(&self.of, self.to)?.is_none() {
            cast::CastKernel::new(self.of.dtype(), self.to, None)?;
        }
        Ok(())
    }

    pub(super) fn bytes(
        &self,
        of: &Evaluation<'_>,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<Outcome> {
        let mut changes = self.of.operand_values(of, buffers)?;
        match cast::CastKernel::new(DType::F32, self.to, None)? {
            Some(cast) => {
                let cast = cast.apply(bytemuck::cast_slice(&buffers.values), out);
                // What is not finite by now is counted by the operand.
                changes += Changes { nonfinite: 0, ..cast };
            }
            None => out.copy_from_slice(bytemuck::cast_slice(&buffers.values)),
        }
        Ok(Outcome { changes, loss: None })
    }

    /// Computes the elements in F32; returns the changes, and whether these count the non-finite ones.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        let cast = at_once(&self.of, DType::F32)?.ok_or_else(|| not_of_floats(self.of.dtype()))?;
        Ok((cast.apply(of.leaf, bytemuck::cast_slice_mut(&mut buffers.values)), true))
    }
}

fn not_of_floats(dtype: DType) -> Error {
    Error::plugin(format!("{dtype} is not a floating-point type"))
}
