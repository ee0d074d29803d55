//! Encodes F32 as integers with one scale per row, which are a tensor of their own: `NAME` and `NAME.scale`.

use super::Expression;
use super::evaluate::{Buffers, Evaluation, Outcome};
use crate::values::integers;
use crate::values::loss::Loss;
use apr_sdk::{DType, Error, Result};

/// Integer codes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowCodes {
    /// The values, in F32.
    pub of: Expression,
    /// The integer type: I8 or I4.
    pub to: DType,
    /// Elements per row.
    pub row_len: u64,
}

/// Bits per integer.
pub(super) fn bits(dtype: DType) -> u32 {
    if dtype == DType::I4 { 4 } else { 8 }
}

/// Fails if rows of integers end inside a byte.
pub(super) fn whole_bytes(row_len: u64, dtype: DType) -> Result<()> {
    match row_len.is_multiple_of(u64::from(dtype.require()?.block_elements)) {
        true => Ok(()),
        false => {
            Err(Error::unsupported(format!("rows of {row_len} elements are not whole bytes of {dtype}")))
        }
    }
}

impl Expression {
    /// The values as integers, in rows of `row_len`.
    pub(super) fn row_codes(self, to: DType, row_len: u64) -> Expression {
        self.each_part(|of, _| Expression::RowCodes(Box::new(RowCodes { of, to, row_len })))
    }
}

impl RowCodes {
    /// Fails for rows that end inside a byte.
    pub(super) fn check(&self) -> Result<()> {
        whole_bytes(self.row_len, self.to)
    }

    pub(super) fn bytes(
        &self,
        of: &Evaluation<'_>,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<Outcome> {
        let changes = self.of.operand_values(of, buffers)?;
        buffers.has_again = true;
        let Buffers { values, again, .. } = buffers;
        again.resize(values.len(), 0.0);
        integers::encode(bits(self.to), values, of.row_elements(), out, again);
        Ok(Outcome { changes, loss: Some(Loss::between(values, again)) })
    }
}
