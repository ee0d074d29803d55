//! The values of a loaded model's weights, read from its files again.

use super::rows::{TensorRows, matrix};
use super::translated::Translated;
use apr_inference::tapped::Values;
use apr_sdk::{DType, Error, MatrixSpec, Result, Rows};

/// The values of a model's weights, in the rows and names in which it is computed.
pub struct WeightValues<'a> {
    model: Translated<'a>,
}

impl<'a> WeightValues<'a> {
    pub(super) fn new(model: Translated<'a>) -> WeightValues<'a> {
        WeightValues { model }
    }
}

impl Values for WeightValues<'_> {
    fn matrix(&self, tensor: &str) -> Result<MatrixSpec> {
        matrix(&self.model.find(tensor)?.tensor)
    }

    fn rows(&self, tensor: &str, first: u64, count: u64) -> Result<Vec<f32>> {
        let mut floats = self.model.find(tensor)?.clone();
        floats.retype(DType::F32, &self.model.host.registry);
        let rows = TensorRows::new(self.model.host, self.model.opened, &floats)?;
        let bytes = matrix(&floats.tensor)?.row_bytes().checked_mul(count);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes =
            bytes.ok_or_else(|| Error::limit("the weight does not fit into memory").tensor(tensor))?;
        let mut held = Vec::new();
        held.try_reserve_exact(bytes)
            .map_err(|_| Error::io(format!("cannot allocate {bytes} bytes")).tensor(tensor))?;
        held.resize(bytes, 0);
        rows.read(first, &mut held)?;
        let (elements, _) = held.as_chunks::<4>();
        Ok(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
