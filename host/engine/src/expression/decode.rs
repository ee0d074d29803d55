//! Blocks as F32, by the quantizer that knows them, in whole rows.

use super::Expression;
use super::evaluate::{Buffers, Evaluation};
use crate::values::cast::Changes;
use apr_sdk::Result;

/// Values of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decode {
    /// The blocks.
    pub of: Expression,
    /// Elements of a row.
    pub row_len: u64,
}

impl Expression {
    /// Its blocks as F32, in rows of `row_len`.
    pub(super) fn decoded(self, row_len: u64) -> Expression {
        self.each_part(|of, _| Expression::Decode(Box::new(Decode { of, row_len })))
    }
}

impl Decode {
    /// The values, what that did to them, and whether that says which were not finite.
    pub(super) fn values(&self, of: &Evaluation<'_>, buffers: &mut Buffers) -> Result<(Changes, bool)> {
        let dtype = self.of.dtype();
        of.registry.quantizer_of(dtype)?.decode(dtype, of.leaf, of.row_len, &mut buffers.values)?;
        Ok((Changes::default(), false))
    }
}
