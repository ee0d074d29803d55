//! The relations between the columns that an operation reads and writes.

use crate::kernel::columns::Columns;
use crate::kernel::numbers::RowsOf;
use crate::{Error, Result};

/// Checks that all have rows of one kind.
pub(super) fn same_rows(all: &[&Columns]) -> Result<()> {
    if all.windows(2).all(|pair| pair[0].rows == pair[1].rows) {
        return Ok(());
    }
    Err(Error::invalid_argument("its values have different rows"))
}

/// Checks that all have the rows of the batch.
pub(super) fn of_batch(all: &[&Columns]) -> Result<()> {
    same_rows(all)?;
    if all.iter().all(|columns| columns.rows == RowsOf::BATCH) {
        return Ok(());
    }
    Err(Error::invalid_argument("only the rows of a batch have positions"))
}

/// Checks that a result has no element in common with an input.
pub(super) fn apart(out: &Columns, input: &Columns, what: &str) -> Result<()> {
    if out.overlaps(input) {
        return Err(Error::invalid_argument(format!("the result overlaps {what}")));
    }
    Ok(())
}

/// Checks that results have no element in common with each other.
pub(super) fn all_apart(results: &[Columns]) -> Result<()> {
    // In order of where they begin: if any two overlap, so do two neighbours.
    let mut sorted = results.to_vec();
    sorted.sort_unstable_by_key(|columns| (columns.value, columns.first));
    if sorted.is_sorted_by(|a, b| !a.overlaps(b)) {
        return Ok(());
    }
    Err(Error::invalid_argument("the result overlaps another result"))
}

/// Checks that a result is an input itself, or has no element in common with it.
pub(super) fn same_or_apart(out: &Columns, input: &Columns, what: &str) -> Result<()> {
    if out == input { Ok(()) } else { apart(out, input, what) }
}
