//! The scales of rows that become integers: a row's greatest magnitude maps to the greatest integer.

use super::Expression;
use super::evaluate::{Buffers, Evaluation, Outcome};
use super::row_codes::{RowCodes, bits};
use crate::values::integers;
use apr_sdk::{DType, Result, checked_payload_len};

/// One F32 scale per row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowScales {
    /// The values, in F32.
    pub of: Expression,
    /// Bits per integer.
    pub bits: u32,
    /// Elements per row.
    pub row_len: u64,
}

/// Bytes of the scales of a tensor of this shape: one for each row.
///
/// # Errors
/// LimitExceeded for more bytes than can be counted.
pub fn scales_len(shape: &[u64]) -> Result<u64> {
    checked_payload_len(DType::F32, shape.split_last().map_or(shape, |(_, rows)| rows))
}

impl Expression {
    /// The scales that belong to these integers; `None` if they are something else.
    pub fn row_scales(&self) -> Option<Expression> {
        match self {
            Expression::Concat(parts) => {
                parts.iter().map(Expression::row_scales).collect::<Option<_>>().map(Expression::Concat)
            }
            Expression::RowCodes(codes) => {
                let RowCodes { of, to, row_len } = &**codes;
                let scales = RowScales { of: of.clone(), bits: bits(*to), row_len: *row_len };
                Some(Expression::RowScales(Box::new(scales)))
            }
            _ => None,
        }
    }
}

impl RowScales {
    pub(super) fn bytes(
        &self,
        of: &Evaluation<'_>,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<Outcome> {
        let changes = self.of.operand_values(of, buffers)?;
        self.of_values(of, buffers, out);
        Ok(Outcome { changes, loss: None })
    }

    /// The scales of the rows whose values are in `buffers`, because they were just encoded.
    pub fn of_values(&self, of: &Evaluation<'_>, buffers: &Buffers, out: &mut [u8]) {
        let most = f32::from(integers::most(self.bits));
        integers::scales(most, &buffers.values, of.row_elements(), out);
    }
}
