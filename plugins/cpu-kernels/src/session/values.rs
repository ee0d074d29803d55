//! The values of a program: rows of floats, kept from one step to the next so that they can be read afterwards.

use super::shared::Shared;
use super::step::index;
use apr_sdk::{Columns, Result, RowsOf, ValueSpec};
use std::ops::Range;

/// One value's rows.
struct Rows {
    width: usize,
    of: RowsOf,
    cells: Shared<f32>,
}

/// All values.
pub(crate) struct Values(Vec<Rows>);

impl Values {
    /// Values without any rows yet.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub(crate) fn new(specs: &[ValueSpec]) -> Result<Values> {
        let rows = |spec: &ValueSpec| {
            Ok(Rows { width: index(spec.width), of: spec.rows, cells: Shared::zeroed(0)? })
        };
        Ok(Values(specs.iter().map(rows).collect::<Result<_>>()?))
    }

    /// Makes room for a step with so many rows. Memory grows only where a step is larger than all before.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub(crate) fn reserve(&mut self, batch: usize, outputs: usize) -> Result<()> {
        for rows in &mut self.0 {
            let count = if rows.of == RowsOf::OUTPUTS { outputs } else { batch };
            let wanted = count.saturating_mul(rows.width);
            if rows.cells.len() < wanted {
                rows.cells = Shared::zeroed(wanted)?;
            }
        }
        Ok(())
    }

    /// A value's elements per row and the kind of its rows.
    pub(crate) fn shape(&self, value: usize) -> Option<(usize, RowsOf)> {
        self.0.get(value).map(|rows| (rows.width, rows.of))
    }

    /// The first `count` rows of a value, for whoever has all values alone.
    pub(crate) fn rows(&mut self, value: usize, count: usize) -> &[f32] {
        let rows = &mut self.0[value];
        let elements = count * rows.width;
        &rows.cells.all_mut()[..elements]
    }

    /// Where a row of a place lies in its value.
    fn range(&self, place: &Columns, row: usize) -> (&Shared<f32>, Range<usize>) {
        let rows = &self.0[place.value];
        let first = row * rows.width + place.first;
        (&rows.cells, first..first + place.width)
    }

    /// A row of a place, to be read.
    ///
    /// # Safety
    /// Nothing may write these elements while the slice lives.
    pub(crate) unsafe fn read(&self, place: &Columns, row: usize) -> &[f32] {
        let (cells, range) = self.range(place, row);
        // SAFETY: as the caller vouches.
        unsafe { cells.read(range) }
    }

    /// A row of a place, to be written.
    ///
    /// # Safety
    /// Nothing else may read or write these elements while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "as `Shared::write`")]
    pub(crate) unsafe fn write(&self, place: &Columns, row: usize) -> &mut [f32] {
        let (cells, range) = self.range(place, row);
        // SAFETY: as the caller vouches.
        unsafe { cells.write(range) }
    }
}
