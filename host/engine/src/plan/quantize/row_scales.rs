//! Integers whose rows have scales: `NAME` and `NAME.scale` (design section 7).

use crate::engine::Engine;
use crate::expression::making::{Making, Piece, RowScale};
use crate::expression::payload;
use crate::open::OpenedModel;
use crate::plan::planned::{Planned, PlannedTensor};
use crate::registry::Format;
use crate::values::integers::most;
use apr_sdk::{DType, Error, Result, Tensor, checked_payload_len};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most bytes of a tensor of scales that is held: four million rows.
const MOST: u64 = 16 << 20;

/// What the name of a tensor's scales has behind the tensor's own.
const SUFFIX: &str = ".scale";

/// The name of the scales of a tensor.
fn name_of(tensor: &str) -> String {
    format!("{tensor}{SUFFIX}")
}

/// Adds the scales of every tensor that becomes integers behind it.
///
/// # Errors
/// Unsupported if the target has no place for them, or if a tensor has no rows; InvalidArgument if one of that name exists.
pub fn add(target: &Format, planned: &mut Planned) -> Result<()> {
    let of_codes = |one: &PlannedTensor| one.making.row_scale == Some(RowScale::Codes);
    if !planned.tensors.iter().any(of_codes) {
        return Ok(());
    }
    let names: HashSet<&str> = planned.tensors.iter().map(|one| one.tensor.name.as_str()).collect();
    let mut added = Vec::new();
    for (number, one) in planned.tensors.iter().enumerate().filter(|(_, one)| of_codes(one)) {
        let scales = scales_for(target, &one.tensor, &one.making, &names);
        added.push((number, scales.map_err(|error| error.tensor(&one.tensor.name))?));
    }
    drop(names);
    let n_tensors = planned.tensors.len() + added.len();
    let before = std::mem::replace(&mut planned.tensors, Vec::with_capacity(n_tensors));
    let mut added = added.into_iter().peekable();
    for (number, one) in before.into_iter().enumerate() {
        planned.tensors.push(one);
        planned.tensors.extend(added.next_if(|(of, _)| *of == number).map(|(_, scales)| scales));
    }
    Ok(())
}

/// The scales of a tensor that becomes integers, and how they are made.
fn scales_for(
    target: &Format,
    tensor: &Tensor,
    making: &Making,
    names: &HashSet<&str>,
) -> Result<PlannedTensor> {
    if !target.manifest.carries.row_scales {
        let message = format!("{} cannot hold the scales of integer rows", target.manifest.name);
        return Err(Error::unsupported(message).hint("write an .apr file, or choose a block type"));
    }
    let name = name_of(&tensor.name);
    if names.contains(name.as_str()) {
        let message = format!("its scales would be called `{name}`, which already exists");
        return Err(Error::invalid_argument(message));
    }
    let Some((&row_len, rows)) = tensor.shape.split_last().filter(|(_, rows)| !rows.is_empty()) else {
        return Err(Error::unsupported("it has no rows"));
    };
    if row_len == 0 {
        return Err(Error::unsupported("its rows are empty, and have no scale"));
    }
    let bits = if tensor.dtype == DType::I4 { 4 } else { 8 };
    let scales = RowScale::Scales { row_len, most: most(bits) };
    let making = Making { row_scale: Some(scales), ..making.clone() };
    let (shape, payload) = (rows.to_vec(), tensor.payload.clone());
    Ok(PlannedTensor::new(Tensor { name, dtype: DType::F32, shape, payload }, making))
}

/// Makes integers whose scales are there floats of `dtype` again, and leaves out the scales.
///
/// # Errors
/// LimitExceeded for more rows than are held; what reading the scales raises.
pub fn undo(engine: &Engine, source: &OpenedModel, dtype: DType, planned: &mut Planned) -> Result<()> {
    let is_scales = |tensor: &Tensor| tensor.dtype == DType::F32 && tensor.name.ends_with(SUFFIX);
    let tensors = &planned.tensors;
    let numbered = tensors.iter().enumerate().filter(|(_, one)| is_scales(&one.tensor));
    let scales: HashMap<&str, usize> =
        numbered.map(|(number, one)| (one.tensor.name.as_str(), number)).collect();
    let mut found = Vec::new();
    for (number, one) in tensors.iter().enumerate().filter(|(_, one)| is_whole(&one.making)) {
        if let Some((at, from)) = scales_of(&scales, tensors, &one.tensor) {
            found.push((number, at, from));
        }
    }
    drop(scales);
    let mut is_left_out = vec![false; tensors.len()];
    for (number, at, from) in found {
        let one = &mut planned.tensors[number];
        let scales = read(engine, source, from).map_err(|e| e.tensor(&one.tensor.name))?;
        one.making.row_scale = Some(RowScale::Undone { tensor: from, scales });
        one.tensor.dtype = dtype;
        is_left_out[at] = true;
    }
    let mut is_left_out = is_left_out.into_iter();
    planned.tensors.retain(|_| is_left_out.next() != Some(true));
    Ok(())
}

/// Where a tensor's scales are in the planned model, and in the source.
fn scales_of(
    scales: &HashMap<&str, usize>,
    tensors: &[PlannedTensor],
    tensor: &Tensor,
) -> Option<(usize, usize)> {
    let (_, rows) = tensor.shape.split_last()?;
    if ![DType::I8, DType::I4].contains(&tensor.dtype) || rows.is_empty() {
        return None;
    }
    let at = *scales.get(name_of(&tensor.name).as_str())?;
    let PlannedTensor { tensor: scales, making, .. } = &tensors[at];
    if scales.shape != rows {
        return None;
    }
    match making.pieces[..] {
        [Piece::Box { tensor, .. }] if is_whole(making) => Some((at, tensor)),
        _ => None,
    }
}

/// Whether a tensor is one of the source as it is.
fn is_whole(making: &Making) -> bool {
    matches!(&making.pieces[..], [Piece::Box { start: 0, dims, .. }] if dims.len() < 2)
        && making.row_scale.is_none()
}

fn read(engine: &Engine, source: &OpenedModel, tensor: usize) -> Result<Arc<[f32]>> {
    let decl = &source.model.tensors[tensor];
    let len = checked_payload_len(decl.dtype, &decl.shape)?;
    if len > MOST {
        return Err(Error::limit(format!("its scales have {len} bytes, at most {MOST} are held")));
    }
    let mut bytes = Vec::new();
    payload::stream(engine, source, tensor, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
