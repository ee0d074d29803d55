//! Matrices as the device keeps them: here, as their plain rows.

use crate::session::Steps;
use apr_sdk::{
    CheckedProgram, DType, Device, Error, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Result, Rows, RowsSink,
    Session, SessionLimits, Weight, WeightShape,
};
use std::sync::{Arc, Mutex, PoisonError};

/// A matrix and its image.
pub struct Matrix {
    pub shape: WeightShape,
    image: Box<dyn ImageMemory>,
}

impl Matrix {
    /// A row's elements.
    pub fn row(&self, row: usize) -> impl Iterator<Item = f32> + '_ {
        let bytes = &self.image.bytes()[row * self.shape.columns * 4..][..self.shape.columns * 4];
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// The device: its matrices, by number.
#[derive(Default)]
pub struct Plain(Mutex<Vec<Arc<Matrix>>>);

impl Plain {
    fn keep(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        if image.bytes().len() as u64 != self.image(matrix)?.bytes {
            return Err(Error::invalid_argument("the image has another length"));
        }
        let too_large = |_| Error::limit("the matrix is too large for this machine");
        let rows = usize::try_from(matrix.rows()).map_err(too_large)?;
        let columns = usize::try_from(matrix.columns()).map_err(too_large)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Arc::new(Matrix { shape: WeightShape { rows, columns }, image }));
        Ok(Weight(kept.len() as u64 - 1))
    }

    fn get(&self, weight: Weight) -> Result<Arc<Matrix>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(weight.0).ok().and_then(|at| kept.get(at).cloned());
        found.ok_or_else(|| Error::invalid_argument(format!("there is no weight {}", weight.0)))
    }
}

impl Device for Plain {
    fn memory(&self) -> Result<Memory> {
        Ok(Memory::default())
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        match matrix.dtype() {
            DType::F32 => Ok(ImageSpec { bytes: matrix.bytes(), layout: "rows-1".to_owned() }),
            other => Err(Error::unsupported(format!("matrices of {other} are not supported, only F32"))),
        }
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        let mut memory = image.memory(self.image(matrix)?.bytes)?;
        rows.read(0, memory.bytes_mut()?)?;
        self.keep(matrix, memory)
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        self.keep(matrix, image)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        out.rows(self.get(weight)?.image.bytes())
    }

    fn compile(&self, program: &[u8], weights: &[Weight], limits: &SessionLimits) -> Result<Box<dyn Session>> {
        let matrices = weights.iter().map(|weight| self.get(*weight)).collect::<Result<Vec<_>>>()?;
        let shapes: Vec<_> = matrices.iter().map(|matrix| matrix.shape).collect();
        // Whatever the program names is there, and fits.
        let program = CheckedProgram::from_bytes(program, &shapes)?;
        Ok(Box::new(Steps::new(program, matrices, limits.clone())?))
    }
}
