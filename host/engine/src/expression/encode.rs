//! Encodes F32 as blocks with their quantizer, in whole rows; the loss is measured by decoding them again.

use super::Expression;
use super::evaluate::{Buffers, Evaluation, Outcome};
use crate::values::loss::Loss;
use crate::values::usize_of;
use apr_sdk::{DType, Quantizer, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Quantized values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encode {
    /// The values, in F32.
    pub of: Expression,
    /// The target block type.
    pub to: DType,
    /// Elements per row.
    pub row_len: u64,
    /// Importance of each column, if known.
    pub importance: Option<ColumnImportance>,
}

/// The importance of the columns of each matrix in a tensor.
#[derive(Clone, Debug)]
pub struct ColumnImportance {
    values: Arc<[f32]>,
    /// Rows per matrix.
    rows: u64,
    /// The tensor's row that is row 0 here.
    first: u64,
    /// A hash of the values: a thousand parts of one tensor may share them.
    hash: u64,
}

impl ColumnImportance {
    /// One value per column for each matrix of `rows` rows.
    pub fn new(values: Arc<[f32]>, rows: u64) -> ColumnImportance {
        let mut hasher = DefaultHasher::new();
        values.iter().for_each(|value| value.to_bits().hash(&mut hasher));
        ColumnImportance { values, rows, first: 0, hash: hasher.finish() }
    }
}

impl PartialEq for ColumnImportance {
    fn eq(&self, other: &ColumnImportance) -> bool {
        fn bits(one: &ColumnImportance) -> impl Iterator<Item = u32> + '_ {
            one.values.iter().map(|value| value.to_bits())
        }
        (self.rows, self.first, self.hash) == (other.rows, other.first, other.hash)
            && (Arc::ptr_eq(&self.values, &other.values) || bits(self).eq(bits(other)))
    }
}

impl Eq for ColumnImportance {}

impl Hash for ColumnImportance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.rows, self.first, self.hash).hash(state);
    }
}

/// Returns whether importance carries no information, and counts as missing.
pub fn is_all_zero(importance: &[f32]) -> bool {
    importance.iter().all(|value| *value == 0.0)
}

impl Expression {
    /// The values as blocks of `to`, in rows of `row_len`.
    pub(super) fn encoded(
        self,
        to: DType,
        row_len: u64,
        importance: Option<&ColumnImportance>,
    ) -> Expression {
        self.each_part(|of, before| {
            let first = before / row_len.max(1);
            let importance =
                importance.map(|all| ColumnImportance { first: all.first + first, ..all.clone() });
            Expression::Encode(Box::new(Encode { of, to, row_len, importance }))
        })
    }
}

impl Encode {
    pub(super) fn bytes(
        &self,
        of: &Evaluation<'_>,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<Outcome> {
        let mut changes = self.of.operand_values(of, buffers)?;
        let quantizer = of.registry.quantizer_of(self.to)?;
        self.quantize(quantizer.as_ref(), of, &buffers.values, out)?;
        let loss = again(quantizer.as_ref(), self.to, of.row_len, out, buffers)?;
        changes.overflowed += became_infinite(buffers);
        Ok(Outcome { changes, loss: Some(loss) })
    }

    /// Encodes matrix by matrix, since each has its own importance.
    fn quantize(
        &self,
        quantizer: &dyn Quantizer,
        of: &Evaluation<'_>,
        mut values: &[f32],
        mut out: &mut [u8],
    ) -> Result<()> {
        let Some(importance) = &self.importance else {
            return quantizer.encode(self.to, values, of.row_len, None, out);
        };
        let n_rows = values.len() as u64 / of.row_len;
        let row_bytes = out.len() / usize_of(n_rows).max(1);
        let mut row = importance.first + of.row;
        let end = row + n_rows;
        while row < end {
            let matrix = row / importance.rows.max(1);
            let here = (matrix + 1).saturating_mul(importance.rows.max(1)).min(end) - row;
            let (rows, later_rows) = values.split_at(usize_of(here * of.row_len));
            let (blocks, later_blocks) = out.split_at_mut(row_bytes * usize_of(here));
            let begin = usize_of(matrix * of.row_len);
            let own = importance.values.get(begin..begin.saturating_add(usize_of(of.row_len)));
            quantizer.encode(self.to, rows, of.row_len, own.filter(|own| !is_all_zero(own)), blocks)?;
            values = later_rows;
            out = later_blocks;
            row += here;
        }
        Ok(())
    }
}

/// Decodes blocks that were encoded from `buffers.values`, and measures the difference.
pub(super) fn again(
    quantizer: &dyn Quantizer,
    dtype: DType,
    row_len: u64,
    blocks: &[u8],
    buffers: &mut Buffers,
) -> Result<Loss> {
    buffers.again.resize(buffers.values.len(), 0.0);
    buffers.has_again = true;
    quantizer.decode(dtype, blocks, row_len, &mut buffers.again)?;
    Ok(Loss::between(&buffers.values, &buffers.again))
}

/// Number of finite values that became infinite in their blocks. Values that were not finite are an error in
/// the caller, unless allowed: then they are encoded as they are.
pub(super) fn became_infinite(buffers: &Buffers) -> u64 {
    let pairs = buffers.values.iter().zip(&buffers.again);
    pairs.filter(|(before, after)| before.is_finite() && !after.is_finite()).count() as u64
}
