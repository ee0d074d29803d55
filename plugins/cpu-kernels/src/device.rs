//! The processor as a device: its matrices, and the programs over them.

use crate::level::Level;
use crate::matrix::Matrix;
use crate::session::Session;
use crate::session::step::lock;
use apr_sdk::{
    Error, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Result, Rows, RowsSink, SessionLimits,
    Weight,
};
use std::sync::{Arc, Mutex};

/// An open device.
pub(crate) struct Device {
    level: Level,
    weights: Mutex<Vec<Arc<Matrix>>>,
}

impl Device {
    /// A device without matrices that uses the instructions of `level`.
    pub(crate) fn new(level: Level) -> Device {
        Device { level, weights: Mutex::default() }
    }

    fn add(&self, matrix: Matrix) -> Weight {
        let mut weights = lock(&self.weights);
        weights.push(Arc::new(matrix));
        // A machine's memory does not hold 2^64 matrices.
        Weight(u64::try_from(weights.len() - 1).unwrap_or(u64::MAX))
    }

    fn weight(&self, weight: Weight) -> Result<Arc<Matrix>> {
        let number = usize::try_from(weight.0).unwrap_or(usize::MAX);
        let found = lock(&self.weights).get(number).cloned();
        found.ok_or_else(|| Error::invalid_argument(format!("the device has no weight {}", weight.0)))
    }
}

impl apr_sdk::Device for Device {
    /// Unknown: a plugin asks the system nothing.
    fn memory(&self) -> Result<Memory> {
        Ok(Memory::default())
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        Matrix::image(matrix)
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        Ok(self.add(Matrix::prepare(matrix, rows, image)?))
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        Ok(self.add(Matrix::adopt(matrix, image)?))
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        self.weight(weight)?.export(out)
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn apr_sdk::Session>> {
        let weights = weights.iter().map(|weight| self.weight(*weight)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Session::new(self.level, program, &weights, limits)?))
    }
}
