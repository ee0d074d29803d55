//! The scales of rows that become integers: the greatest magnitude of a row is the greatest integer.

use super::Expression;
use super::evaluate::{Buffers, Evaluation, Outcome};
use super::row_codes::{RowCodes, bits};
use crate::values::integers;
use apr_sdk::Result;

/// An F32 for each row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowScales {
    /// The values, as F32.
    pub of: Expression,
    /// Bits of the integers.
    pub bits: u32,
    /// Elements of a row.
    pub row_len: u64,
}

impl Expression {
    /// The scales that go with its integers; `None` if it makes none.
    pub fn row_scales(&self) -> Option<Expression> {
        let of_part = |part: &Expression| match part {
            Expression::RowCodes(codes) => {
                let RowCodes { of, to, row_len } = &**codes;
                let scales = RowScales { of: of.clone(), bits: bits(*to), row_len: *row_len };
                Some(Expression::RowScales(Box::new(scales)))
            }
            _ => None,
        };
        match self {
            Expression::Concat(parts) => {
                parts.iter().map(of_part).collect::<Option<_>>().map(Expression::Concat)
            }
            one => of_part(one),
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

    /// The scales of the rows whose values are at hand: those that were just made integers.
    pub fn of_values(&self, of: &Evaluation<'_>, buffers: &Buffers, out: &mut [u8]) {
        let most = f32::from(integers::most(self.bits));
        integers::scales(most, &buffers.values, of.row_elements(), out);
    }
}
