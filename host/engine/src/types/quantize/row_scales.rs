//! Integers with one scale per row: `NAME` and `NAME.scale`.

use crate::expression::{Expression, PlannedTensor};
use crate::planned::PlannedModel;
use crate::registry::Format;
use apr_sdk::{DType, Error, Result, Tensor};
use std::collections::HashSet;

/// The suffix for the name of a tensor's scales.
const SUFFIX: &str = ".scale";

/// The name of a tensor's scales.
fn name_of(tensor: &str) -> String {
    format!("{tensor}{SUFFIX}")
}

/// Adds a tensor of scales after every tensor that becomes integers.
///
/// # Errors
/// Unsupported if the target cannot hold them, or if a tensor has no rows; InvalidArgument if the name is
/// taken.
pub fn add(target: &Format, planned: &mut PlannedModel) -> Result<()> {
    let names: HashSet<&str> = planned.model().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut added = Vec::new();
    for (handle, tensor, computation) in planned.tensors() {
        let Some(scales) = computation.expression.row_scales() else { continue };
        let scales = scales_for(target, tensor, scales, &names);
        added.push((handle, scales.map_err(|error| error.tensor(&tensor.name))?));
    }
    planned.insert_behind(added);
    Ok(())
}

/// The scales of a tensor that becomes integers, with their expression.
fn scales_for(
    target: &Format,
    tensor: &Tensor,
    scales: Expression,
    names: &HashSet<&str>,
) -> Result<PlannedTensor> {
    if !target.manifest.carries.row_scales {
        let message = format!("{} cannot hold the scales of integer rows", target.manifest.name);
        return Err(Error::unsupported(message).hint("write an .apr file, or choose a block type"));
    }
    let name = name_of(&tensor.name);
    if names.contains(name.as_str()) {
        let message = format!("its scales would be named `{name}`, which already exists");
        return Err(Error::invalid_argument(message));
    }
    let Some((&row_len, rows)) = tensor.shape.split_last().filter(|(_, rows)| !rows.is_empty()) else {
        return Err(Error::unsupported("it has no rows"));
    };
    if row_len == 0 {
        return Err(Error::unsupported("its rows are empty and have no scale"));
    }
    let payload = tensor.payload.clone();
    Ok(PlannedTensor::new(Tensor { name, dtype: DType::F32, shape: rows.to_vec(), payload }, scales))
}
