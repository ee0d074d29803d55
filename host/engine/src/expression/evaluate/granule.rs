//! The smallest part of an expression that can be evaluated separately: an element, a block, or a row.

use super::super::{Expression, TILE, unit};
use apr_sdk::{Error, Result, checked_payload_len};

/// Bytes of a row in its widest form, if whole rows are evaluated: each thread holds several forms of one. A
/// thousand times what the widest models have.
const MOST_ROW: u64 = 1 << 30;

/// The smallest part of an expression that can be evaluated separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granule {
    /// Bytes of the leaf.
    pub before: u64,
    /// Bytes of the result.
    pub after: u64,
    /// Number of elements.
    pub elements: u64,
    /// True if it is a whole row.
    pub is_row: bool,
}

impl Granule {
    /// The granule of an expression other than a `Concat`.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype, or rows that are not whole blocks; LimitExceeded for rows that are
    /// too long to be held in memory.
    pub fn of(expression: &Expression) -> Result<Granule> {
        let from = expression.leaf().dtype();
        let to = expression.dtype();
        let Some(row_len) = expression.row_len() else {
            let before = unit(from)?.block_bytes.into();
            let after = unit(to)?.block_bytes.into();
            return Ok(Granule { before, after, elements: 1, is_row: false });
        };
        // Empty rows are cut as if they were blocks: there is no byte to cut.
        let elements = match row_len {
            0 => u64::from(from.require()?.block_elements) * u64::from(to.require()?.block_elements),
            row_len => row_len,
        };
        let elements_after = if matches!(expression, Expression::RowScales(_)) { 1 } else { elements };
        let before = checked_payload_len(from, &[elements])?;
        let after = checked_payload_len(to, &[elements_after])?;
        let granule = Granule { before, after, elements, is_row: true };
        if granule.widest() > MOST_ROW {
            let message = format!(
                "rows of {elements} elements are too long to evaluate: each would take {}",
                granule.widest()
            );
            return Err(Error::limit(message + " bytes of memory"));
        }
        Ok(granule)
    }

    /// Bytes of the leaf for so many bytes of the result, which are whole granules.
    pub fn before(&self, after: u64) -> u64 {
        after / self.after.max(1) * self.before
    }

    /// Bytes of the result for so many bytes of the leaf, which are whole granules.
    pub fn after(&self, before: u64) -> u64 {
        before / self.before.max(1) * self.after
    }

    /// The number of elements in so many bytes of the result.
    pub fn elements(&self, after: u64) -> u64 {
        after / self.after.max(1) * self.elements
    }

    /// Bytes of a row in its widest form.
    fn widest(&self) -> u64 {
        self.elements.saturating_mul(4).max(self.before).max(self.after)
    }

    /// Bytes per tile: whole elements; or whole rows that take up at most a tile in F32, or one row.
    pub fn tile_len(&self) -> u64 {
        match self.is_row {
            false => TILE / self.before.max(self.after) * self.after,
            true => (TILE / self.widest()).max(1) * self.after,
        }
    }

    /// The most memory that a thread needs besides the tile, in bytes.
    pub fn memory(&self) -> u64 {
        match self.is_row {
            false => TILE,
            // Bytes before and after, and the values twice: the originals, and the decoded ones.
            true => TILE.max(self.widest()).saturating_mul(4),
        }
    }
}

impl Expression {
    /// Elements per row, if evaluated in rows.
    fn row_len(&self) -> Option<u64> {
        let own = match self {
            Expression::Decode(decode) => Some(decode.row_len),
            Expression::Encode(encode) => Some(encode.row_len),
            Expression::Repack(repack) => Some(repack.row_len),
            Expression::RowCodes(codes) => Some(codes.row_len),
            Expression::RowScales(scales) => Some(scales.row_len),
            _ => None,
        };
        own.or_else(|| self.operand()?.row_len())
    }

    /// The most memory that `threads` threads need together, in bytes, without large blocks; `more` is what each needs in addition. For an
    /// expression other than a `Concat`.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn memory(&self, threads: usize, more: u64) -> Result<u64> {
        let changing = if self.is_leaf() { 0 } else { Granule::of(self)?.memory() };
        let access = self.access()?;
        let each = access.memory().saturating_add(changing).saturating_add(more);
        Ok(each.saturating_mul(threads as u64).saturating_add(access.shared(threads)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;
    use apr_sdk::{DType, ErrorKind, Payload, Tensor};

    fn quantized(row_len: u64) -> Result<Granule> {
        let payload = Payload::Sequential;
        let tensor = Tensor { name: "t".to_owned(), dtype: DType::F32, shape: vec![1, row_len], payload };
        let codes = Expression::of(0, &tensor).unwrap().row_codes(DType::I8, row_len);
        Granule::of(&codes.parts()[0])
    }

    #[test]
    fn rows_that_no_memory_holds_are_refused() {
        assert!(quantized(MOST_ROW / 4).is_ok());
        let error = quantized(MOST_ROW / 4 + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
}
