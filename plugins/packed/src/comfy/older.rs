//! Files from before layers said how they are packed: a tensor called `scaled_fp8` says that floats of 8 bits have a scale each.

use super::IS_MARK;
use crate::model::{Found, Model};
use crate::scaled::Grid;
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};

/// The tensor that says so.
const MARK: &str = "scaled_fp8";

/// The ending of a weight's scale.
const SCALE: &str = ".scale_weight";

/// Types of codes.
const CODES: [DType; 2] = [DType::F8_E4M3, DType::F8_E5M2];

/// Adds the weights of such a file, if it is one. Returns whether it is.
///
/// # Errors
/// Malformed for scales that do not fit; Unsupported for a scale beside a weight that is no float of 8 bits.
pub(super) fn understand(model: &Model<'_>, found: &mut Found) -> Result<bool> {
    let is_mark = |name: &str| name.rsplit('.').next() == Some(MARK);
    let marks: Vec<usize> =
        model.tensors().filter(|(_, tensor)| is_mark(&tensor.name)).map(|(number, _)| number).collect();
    if marks.is_empty() {
        return Ok(false);
    }
    for (at, scale, name) in model.ending(SCALE) {
        let number = model.find(&format!("{name}.weight")).filter(|number| found.is_free(*number));
        let Some(number) = number else {
            let message = format!("its codes are missing: expected `{name}.weight`");
            return Err(Error::malformed(message).tensor(&scale.name));
        };
        let codes = model.tensor(number);
        if scale.dtype != DType::F32 || scale.shape.iter().any(|size| *size != 1) {
            let message = format!("it is {:?} of {}, expected one F32", scale.shape, scale.dtype);
            return Err(Error::malformed(message).tensor(&scale.name));
        }
        match CODES.contains(&codes.dtype) {
            true => found.add(model, weight(model, (number, codes), at)?)?,
            // A scale of 1 changes nothing.
            false => match found.contents(model, at) {
                Some(bytes) if bytes == 1.0f32.to_le_bytes() => found.unused(model, at, "a scale of 1")?,
                Some(_) => {
                    let message = format!(
                        "it scales `{}`, which is of type {}: such weights are not supported",
                        codes.name, codes.dtype
                    );
                    return Err(Error::unsupported(message).tensor(&scale.name));
                }
                None => {}
            },
        }
    }
    marks.into_iter().try_for_each(|mark| found.unused(model, mark, IS_MARK))?;
    Ok(true)
}

fn weight(model: &Model<'_>, (number, codes): (usize, &StoredTensor), at: usize) -> Result<PackedTensor> {
    let (row_len, lead) = codes.shape.split_last().unwrap_or((&1, &[]));
    let rows = lead.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
    let rows =
        rows.filter(|rows| rows.checked_mul((*row_len).max(1)).is_some_and(|n| n.checked_mul(8).is_some()));
    let rows = rows.ok_or_else(|| Error::malformed("its shape is too large").tensor(&codes.name))?;
    let grid = Grid::new(codes.dtype, DType::F32, (rows, *row_len), (rows, rows, *row_len));
    Ok(PackedTensor {
        name: codes.name.clone(),
        shape: codes.shape.clone(),
        strides: Vec::new(),
        dtype: model.dtype(DType::BF16),
        about: format!("ComfyUI, scaled {}, one scale", codes.dtype),
        exact: grid.exact(),
        rows: grid.packed(),
        parts: vec![(number, "codes".to_owned()), (at, "scale".to_owned())],
        panel: 1,
    })
}
