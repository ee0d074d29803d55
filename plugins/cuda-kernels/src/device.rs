//! An open device: its matrices, and the programs over them.

use crate::driver::{Buffer, Driver};
use crate::layout::Layout;
use crate::session::Session;
use apr_sdk::{
    Error, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Result, Rows, RowsSink, SessionLimits,
    Weight, WeightShape,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are brought to the device at a time.
const TILE: usize = 4 << 20;

/// A matrix on the device.
pub(crate) struct Matrix {
    /// How it lies there.
    pub(crate) layout: Layout,
    buffer: Buffer,
}

impl Matrix {
    /// Its address.
    pub(crate) fn at(&self) -> u64 {
        self.buffer.at()
    }

    /// Its dimensions.
    pub(crate) fn shape(&self) -> WeightShape {
        WeightShape { rows: self.layout.rows, columns: self.layout.columns }
    }
}

/// An open device.
pub(crate) struct Device {
    driver: Arc<dyn Driver>,
    is_timed: bool,
    weights: Mutex<Vec<Arc<Matrix>>>,
}

/// Locks; what a thread that panicked left behind is as whole as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// A device without matrices. If it is timed, each operation of a step is timed for itself.
    pub(crate) fn new(driver: Arc<dyn Driver>, is_timed: bool) -> Device {
        Device { driver, is_timed, weights: Mutex::default() }
    }

    fn add(&self, matrix: Matrix) -> Weight {
        let mut weights = lock(&self.weights);
        weights.push(Arc::new(matrix));
        Weight(weights.len() as u64 - 1)
    }

    fn weight(&self, weight: Weight) -> Result<Arc<Matrix>> {
        let number = usize::try_from(weight.0).unwrap_or(usize::MAX);
        let found = lock(&self.weights).get(number).cloned();
        found.ok_or_else(|| Error::invalid_argument(format!("the device has no weight {}", weight.0)))
    }

    /// Room on the device for a matrix, and what fills it tile by tile.
    fn fill(
        &self,
        matrix: &MatrixSpec,
        mut tile: impl FnMut(u64, &Layout, &mut [u8]) -> Result<()>,
    ) -> Result<Weight> {
        let layout = Layout::new(matrix)?;
        let buffer = Buffer::new(&self.driver, layout.bytes())?;
        let rows = (TILE / layout.row).clamp(1, layout.rows);
        let mut packed = vec![0; rows * layout.row];
        for first in (0..layout.rows).step_by(rows) {
            let packed = &mut packed[..rows.min(layout.rows - first) * layout.row];
            tile(first as u64, &layout, packed)?;
            // SAFETY: the buffer holds all rows, and no kernel knows it yet.
            unsafe { self.driver.upload(buffer.at() + (first * layout.row) as u64, packed)? };
        }
        Ok(self.add(Matrix { layout, buffer }))
    }
}

impl apr_sdk::Device for Device {
    fn memory(&self) -> Result<Memory> {
        self.driver.memory()
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        Ok(Layout::new(matrix)?.image())
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, _: &mut dyn ImageSink) -> Result<Weight> {
        let mut plain = Vec::new();
        self.fill(matrix, |first, layout, packed| {
            plain.resize(packed.len() / layout.row * layout.plain, 0);
            rows.read(first, &mut plain)?;
            layout.pack(&plain, packed);
            Ok(())
        })
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        let (all, wanted) = (image.bytes(), Layout::new(matrix)?.bytes());
        if all.len() != wanted {
            let is = all.len();
            return Err(Error::invalid_argument(format!("an image has {is} bytes, expected {wanted}")));
        }
        self.fill(matrix, |first, layout, packed| {
            let at = usize::try_from(first).unwrap_or(usize::MAX) * layout.row;
            packed.copy_from_slice(&all[at..at + packed.len()]);
            Ok(())
        })
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        let matrix = self.weight(weight)?;
        let layout = &matrix.layout;
        let rows = (TILE / layout.row).clamp(1, layout.rows);
        let (mut packed, mut plain) = (vec![0; rows * layout.row], vec![0; rows * layout.plain]);
        for first in (0..layout.rows).step_by(rows) {
            let count = rows.min(layout.rows - first);
            let packed = &mut packed[..count * layout.row];
            // SAFETY: the rows are the matrix's, which nothing writes.
            unsafe { self.driver.download(matrix.at() + (first * layout.row) as u64, packed)? };
            layout.unpack(packed, &mut plain[..count * layout.plain]);
            out.rows(&plain[..count * layout.plain])?;
        }
        Ok(())
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn apr_sdk::Session>> {
        let weights = weights.iter().map(|weight| self.weight(*weight)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Session::new(&self.driver, program, &weights, limits, self.is_timed)?))
    }
}
