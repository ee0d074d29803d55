//! The values of a program: rows of floats on the device, kept from one step to the next so that they can be read.

use super::step::index;
use crate::driver::{Buffer, Driver, Queue};
use apr_sdk::{Result, RowsOf, ValueSpec};
use std::sync::Arc;

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
    pub(crate) fn new(specs: &[ValueSpec]) -> Values {
        let rows = |spec: &ValueSpec| Rows { width: index(spec.width), of: spec.rows, buffer: None };
        Values(specs.iter().map(rows).collect())
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
