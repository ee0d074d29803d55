//! Decodes blocks to F32 with their quantizer, in whole rows.

use super::Expression;
use super::evaluate::{Buffers, Evaluation};
use crate::values::cast::Changes;
use apr_sdk::Result;

/// The values of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decode {
    /// The blocks.
    pub of: Expression,
    /// Elements per row.
    pub row_len: u64,
}

impl Expression {
    /// The blocks in F32, in rows of `row_len`.
    pub(super) fn decoded(self, row_len: u64) -> Expression {
        self.each_part(|of, _| Expression::Decode(Box::new(Decode { of, row_len })))
    }
}

impl Decode {
    /// Computes the values; returns the changes, and whether these count the non-finite ones.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        let dtype = self.of.dtype();
        of.registry.quantizer_of(dtype)?.decode(dtype, of.leaf, of.row_len, &mut buffers.values)?;
        Ok((Changes::default(), false))
    }
}
