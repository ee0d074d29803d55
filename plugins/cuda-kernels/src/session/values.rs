//! The values of a program: rows of floats on the device, kept from one step to the next so that they can be read.

use crate::driver::{Buffer, Driver, Queue};
use apr_sdk::{Error, Result, RowsOf, ValueSpec};
use std::sync::Arc;

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
}

/// The most elements that the rows of all values have together: 1 GiB for each row of a step.
const MOST_ELEMENTS: usize = 1 << 28;

/// One value's rows.
struct Rows {
    width: usize,
    of: RowsOf,
    buffer: Option<Buffer>,
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
            Ok(Rows { width, of: spec.rows, buffer: None })
        });
        Ok(Values(rows.collect::<Result<_>>()?))
    }

    /// Makes room for a step with so many rows; says whether any value moved for it.
    ///
    /// # Errors
    /// Io if the device has no memory left.
    pub(crate) fn reserve(
        &mut self,
        driver: &Arc<dyn Driver>,
        queue: &mut dyn Queue,
        batch: usize,
        outputs: usize,
    ) -> Result<bool> {
        let mut moved = false;
        for rows in &mut self.0 {
            let count = if rows.of == RowsOf::OUTPUTS { outputs } else { batch };
            let wanted = count.saturating_mul(rows.width).saturating_mul(4);
            if rows.buffer.as_ref().map_or(0, Buffer::bytes) < wanted {
                // The old rows go first, so that both never need room at once.
                rows.buffer = None;
                let buffer = Buffer::new(driver, wanted)?;
                // What no operation writes is read as zero.
                // SAFETY: the buffer has as many bytes, and no kernel knows it yet.
                unsafe { queue.zero(buffer.at(), wanted)? };
                rows.buffer = Some(buffer);
                moved = true;
            }
        }
        Ok(moved)
    }

    /// A value's elements per row and the kind of its rows.
    pub(crate) fn shape(&self, value: usize) -> Option<(usize, RowsOf)> {
        self.0.get(value).map(|rows| (rows.width, rows.of))
    }

    /// The address of a value's first row, and its elements per row.
    pub(crate) fn at(&self, value: usize) -> (u64, usize) {
        let rows = &self.0[value];
        (rows.buffer.as_ref().map_or(0, Buffer::at), rows.width)
    }
}
