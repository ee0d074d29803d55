//! The plain rows of a weight, read from the model as a backend asks for them.

use apr_engine::Engine;
use apr_engine::expression::PlannedTensor;
use apr_engine::open::OpenedModel;
use apr_engine::progress::Progress;
use apr_sdk::{Error, Extent, MatrixSpec, Result, Rows};
use std::sync::atomic::{AtomicU64, Ordering};

/// A tensor of the model as a matrix: its last axis are columns, all others rows. A vector is one row.
///
/// # Errors
/// As [`MatrixSpec::new`], with the tensor.
pub fn matrix(tensor: &apr_sdk::Tensor) -> Result<MatrixSpec> {
    let (columns, rows) = match tensor.shape.split_last() {
        None => (1, 1),
        Some((columns, rest)) => {
            (*columns, rest.iter().try_fold(1u64, |all, n| all.checked_mul(*n)).unwrap_or(0))
        }
    };
    MatrixSpec::new(tensor.dtype, rows, columns).map_err(|error| error.tensor(&tensor.name))
}

/// A tensor's rows, computed from what the model stores.
pub struct TensorRows<'a> {
    engine: &'a Engine,
    opened: &'a OpenedModel,
    planned: &'a PlannedTensor,
    row_bytes: u64,
}

impl<'a> TensorRows<'a> {
    /// The rows of a tensor.
    ///
    /// # Errors
    /// Unsupported if its payload only comes in order; as [`matrix`].
    pub fn new(
        engine: &'a Engine,
        opened: &'a OpenedModel,
        planned: &'a PlannedTensor,
    ) -> Result<TensorRows<'a>> {
        let tensor = &planned.tensor;
        planned.expression.check(tensor, &engine.registry)?;
        if !planned.expression.is_random()? {
            let message = "its payload can only be read sequentially";
            let hint = "convert the model to an uncompressed file and run that";
            return Err(Error::unsupported(message).tensor(&tensor.name).hint(hint));
        }
        Ok(TensorRows { engine, opened, planned, row_bytes: matrix(tensor)?.row_bytes() })
    }
}

impl Rows for TensorRows<'_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        self.engine.check_cancelled()?;
        let read = |extent: Extent, out: &mut [u8]| self.opened.read_at(self.engine, extent, out);
        let at = first.checked_mul(self.row_bytes);
        let at = at.ok_or_else(|| Error::invalid_argument("row index out of range"))?;
        let filled = self.planned.expression.fill_at(&self.engine.registry, &read, at, out);
        filled.map_err(|error| self.opened.files.show(error.tensor(&self.planned.tensor.name)))
    }
}

/// How much of all weights has been read.
pub struct Reading<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

impl<'a> Reading<'a> {
    /// Nothing yet of so many bytes.
    pub fn new(progress: &'a dyn Progress, total: u64) -> Reading<'a> {
        Reading { progress, done: AtomicU64::new(0), total }
    }
}

/// Rows that are counted as they are read.
pub struct CountedRows<'a> {
    /// The rows.
    pub rows: &'a dyn Rows,
    /// The count.
    pub reading: &'a Reading<'a>,
    /// The tensor's name.
    pub name: &'a str,
}

impl Rows for CountedRows<'_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        self.rows.read(first, out)?;
        let Reading { progress, done, total } = self.reading;
        let all = done.fetch_add(out.len() as u64, Ordering::Relaxed).saturating_add(out.len() as u64);
        // A device may read rows again.
        progress.bytes(all.min(*total), *total, self.name);
        Ok(())
    }
}

/// Rows that are in memory.
pub struct HeldRows {
    bytes: Vec<u8>,
    row_bytes: u64,
}

impl HeldRows {
    /// A vector of F32 elements as one row.
    pub fn vector(values: &[f32]) -> HeldRows {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        HeldRows { row_bytes: bytes.len() as u64, bytes }
    }
}

impl Rows for HeldRows {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let start = first.checked_mul(self.row_bytes).and_then(|at| usize::try_from(at).ok());
        let held = start.and_then(|start| self.bytes.get(start..)?.get(..out.len()));
        out.copy_from_slice(held.ok_or_else(|| Error::invalid_argument("row index out of range"))?);
        Ok(())
    }
}
