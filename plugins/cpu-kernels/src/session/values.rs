//! The values of a program: rows of floats, kept from one step to the next so that they can be read afterwards.

use super::shared::Shared;
use apr_sdk::{Error, Result, RowsOf, ValueSpec};
use std::ops::Range;

/// A checked part of each row of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The value's number.
    pub(crate) value: usize,
    /// The first element.
    pub(crate) first: usize,
    /// How many elements.
    pub(crate) width: usize,
    /// Which rows the value has.
    pub(crate) rows: RowsOf,
}

impl Place {
    /// Whether both have an element in common.
    pub(crate) fn meets(&self, other: &Place) -> bool {
        self.value == other.value
            && self.first < other.first + other.width
            && other.first < self.first + self.width
    }

    /// `width` elements of this place from `first` on, which the caller knows to lie within it.
    pub(crate) fn part(&self, first: usize, width: usize) -> Place {
        Place { first: self.first + first, width, ..*self }
    }
}

/// The most elements that the rows of all values have together: 1 GiB for each row of a step. No model comes near, and
/// below it no product of a width and a number of rows is beyond what can be counted.
const MOST_ELEMENTS: usize = 1 << 28;

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
    /// InvalidArgument for a value without elements; Unsupported for rows of an unknown kind; LimitExceeded if a row of
    /// all values is larger than any that a model has.
    pub(crate) fn new(specs: &[ValueSpec]) -> Result<Values> {
        let mut all = 0usize;
        let rows = specs.iter().enumerate().map(|(number, spec)| {
            if ![RowsOf::BATCH, RowsOf::OUTPUTS].contains(&spec.rows) {
                let of = spec.rows.name();
                return Err(Error::unsupported(format!("value {number} has rows of `{of}`, unknown here")));
            }
            let width = usize::try_from(spec.width).unwrap_or(usize::MAX);
            if width == 0 {
                return Err(Error::invalid_argument(format!("value {number} has no elements")));
            }
            all = all.saturating_add(width);
            if all > MOST_ELEMENTS {
                return Err(Error::limit(format!(
                    "a row of values 0 to {number} has {all} elements in total; the limit is {MOST_ELEMENTS}"
                )));
            }
            Ok(Rows { width, of: spec.rows, cells: Shared::zeroed(0)? })
        });
        Ok(Values(rows.collect::<Result<_>>()?))
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
    fn range(&self, place: &Place, row: usize) -> (&Shared<f32>, Range<usize>) {
        let rows = &self.0[place.value];
        let first = row * rows.width + place.first;
        (&rows.cells, first..first + place.width)
    }

    /// A row of a place, to be read.
    ///
    /// # Safety
    /// Nothing may write these elements while the slice lives.
    pub(crate) unsafe fn read(&self, place: &Place, row: usize) -> &[f32] {
        let (cells, range) = self.range(place, row);
        // SAFETY: as the caller vouches.
        unsafe { cells.read(range) }
    }

    /// A row of a place, to be written.
    ///
    /// # Safety
    /// Nothing else may read or write these elements while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "as `Shared::write`")]
    pub(crate) unsafe fn write(&self, place: &Place, row: usize) -> &mut [f32] {
        let (cells, range) = self.range(place, row);
        // SAFETY: as the caller vouches.
        unsafe { cells.write(range) }
    }
}
