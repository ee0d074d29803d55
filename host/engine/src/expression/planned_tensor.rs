//! A tensor of the planned model, and how its type is changed: the conversion follows from the stored type
//! and the requested one, in a single step between the two, whatever type was planned before.

use super::Expression;
use super::encode::ColumnImportance;
use crate::registry::Registry;
use apr_sdk::{DType, Tensor};

/// A tensor of the planned model.
#[derive(Clone, Debug)]
pub struct PlannedTensor {
    /// The declaration: name, type and shape in the output.
    pub tensor: Tensor,
    /// The expression that computes it; has the tensor's type.
    pub expression: Expression,
    /// A table's operations on it, in words: `rename`, `stack 4`.
    pub words: Vec<String>,
    /// The type it becomes if that holds every value exactly.
    pub narrow_if_exact: Option<DType>,
}

impl PlannedTensor {
    /// A tensor with its expression.
    pub fn new(tensor: Tensor, expression: Expression) -> PlannedTensor {
        PlannedTensor { tensor, expression, words: Vec::new(), narrow_if_exact: None }
    }

    /// Changes its type.
    pub fn retype(&mut self, dtype: DType, registry: &Registry) {
        let row_len = row_len(&self.tensor);
        self.tensor.dtype = dtype;
        self.expression.change(|expression| expression.typed(dtype, row_len, registry, None));
    }
}

/// Elements per row of a tensor.
pub fn row_len(tensor: &Tensor) -> u64 {
    tensor.shape.last().copied().unwrap_or(1)
}

impl Expression {
    /// Replaces it by what `change` makes of it.
    pub fn change(&mut self, change: impl FnOnce(Expression) -> Expression) {
        let nothing = Expression::Concat(Vec::new());
        *self = change(std::mem::replace(self, nothing));
    }

    /// The values as integers with one scale per row.
    pub fn coded(self, dtype: DType, row_len: u64) -> Expression {
        self.untyped().each_part(|part, _| part.floats(row_len)).row_codes(dtype, row_len)
    }

    /// The values as `to`, in rows of `row_len`.
    pub fn typed(
        self,
        to: DType,
        row_len: u64,
        registry: &Registry,
        importance: Option<&ColumnImportance>,
    ) -> Expression {
        let base = self.untyped();
        let from = base.dtype();
        match (from.is_block(), to.is_block()) {
            _ if from == to => base,
            (true, true)
                if base.parts().iter().all(Expression::is_leaf)
                    && registry.repacker((from, to)).is_some() =>
            {
                base.repacked(to, row_len)
            }
            (_, true) => base.each_part(|part, _| part.floats(row_len)).encoded(to, row_len, importance),
            (true, false) => base.decoded(row_len).cast(to),
            (false, false) => base.cast(to),
        }
    }

    /// Returns whether its bytes are stored in this type, and its values only undergo changes of type.
    pub fn is_stored_as(&self, dtype: DType) -> bool {
        self.parts().iter().all(|part| match part {
            Expression::Affine(_) => false,
            leaf if leaf.is_leaf() => leaf.dtype() == dtype,
            changed => changed.operand().is_some_and(|of| of.is_stored_as(dtype)),
        })
    }

    /// The values before conversion to the type that is written.
    pub(super) fn untyped(self) -> Expression {
        self.each_part(|mut part, _| {
            loop {
                part = match part {
                    Expression::Cast(cast) => cast.of,
                    Expression::Decode(decode) => decode.of,
                    Expression::Encode(encode) => encode.of,
                    Expression::Repack(repack) => repack.of,
                    Expression::RowCodes(codes) => codes.of,
                    other => return other,
                }
            }
        })
    }
}
