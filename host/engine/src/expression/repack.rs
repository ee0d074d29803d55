//! Converts blocks to another block type that holds the same values, without going through floats.

use super::Expression;
use super::encode::{again, became_infinite};
use super::evaluate::{Buffers, Evaluation, Outcome, not_finite};
use crate::registry::Registry;
use crate::values::cast::Changes;
use apr_sdk::{DType, Error, Result};

/// Blocks of another type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repack {
    /// The original blocks.
    pub of: Expression,
    /// The target type.
    pub to: DType,
    /// Elements per row.
    pub row_len: u64,
}

impl Expression {
    /// The blocks as blocks of `to`, in rows of `row_len`.
    pub(super) fn repacked(self, to: DType, row_len: u64) -> Expression {
        self.each_part(|of, _| Expression::Repack(Box::new(Repack { of, to, row_len })))
    }
}

impl Repack {
    /// Fails if no plugin can do this.
    pub(super) fn check(&self, registry: &Registry) -> Result<()> {
        let from = self.of.dtype();
        registry.repacker((from, self.to)).map(drop).ok_or_else(|| no_way(from, self.to))
    }

    pub(super) fn bytes(
        &self,
        of: &Evaluation<'_>,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<Outcome> {
        let from = self.of.dtype();
        let to = self.to;
        buffers.values.resize(of.elements, 0.0);
        // The meaning of the blocks is examined as if they had been quantized.
        of.registry.quantizer_of(from)?.decode(from, of.leaf, of.row_len, &mut buffers.values)?;
        let mut changes = Changes { nonfinite: not_finite(&buffers.values), ..Changes::default() };
        let repacker = of.registry.repacker((from, to)).ok_or_else(|| no_way(from, to))?;
        repacker.repack(from, to, of.leaf, out)?;
        let loss = again(of.registry.quantizer_of(to)?.as_ref(), to, of.row_len, out, buffers)?;
        changes.overflowed += became_infinite(buffers);
        Ok(Outcome { changes, loss: Some(loss) })
    }
}

fn no_way(from: DType, to: DType) -> Error {
    Error::unsupported(format!("no quantizer plugin repacks {from} as {to}"))
}
