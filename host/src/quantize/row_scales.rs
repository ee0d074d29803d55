//! Integers whose rows have scales: `NAME` and `NAME.scale` (design section 7).

use super::is_integer;
use crate::host::Host;
use crate::integers::most;
use crate::making::{Making, Piece, RowScale};
use crate::open::OpenedModel;
use crate::payload;
use crate::registry::Format;
use apr_sdk::{DType, Error, Model, Result, Tensor, checked_payload_len};
use std::sync::Arc;

/// The most bytes of a tensor of scales that is held: four million rows.
const MOST: u64 = 16 << 20;

/// The name of the scales of a tensor.
fn name_of(tensor: &str) -> String {
    format!("{tensor}.scale")
}

/// Adds the scales of every tensor that becomes integers behind it.
///
/// # Errors
/// Unsupported if the target has no place for them, or if a tensor has no rows; InvalidArgument if one of that name exists.
pub fn add(target: &Format, model: &mut Model, makings: &mut Vec<Making>) -> Result<()> {
    let mut number = 0;
    while number < model.tensors.len() {
        if makings[number].row_scale == Some(RowScale::Codes) {
            let tensor = &model.tensors[number];
            let refuse = |error: Error| Err(error.tensor(&tensor.name));
            if !target.manifest.carries.row_scales {
                let message = format!("{} cannot hold the scales of integer rows", target.manifest.name);
                return refuse(
                    Error::unsupported(message).hint("write an .apr file, or choose a block type"),
                );
            }
            let name = name_of(&tensor.name);
            if model.tensors.iter().any(|other| other.name == name) {
                return refuse(Error::invalid_argument(format!(
                    "its scales would be called `{name}`, which already exists"
                )));
            }
            let Some((&row_len, rows)) = tensor.shape.split_last().filter(|(_, rows)| !rows.is_empty())
            else {
                return refuse(Error::unsupported("it has no rows"));
            };
            if row_len == 0 {
                return refuse(Error::unsupported("its rows are empty, and have no scale"));
            }
            let bits = if tensor.dtype == DType::I4 { 4 } else { 8 };
            let scales = RowScale::Scales { row_len, most: most(bits) };
            let making = Making { row_scale: Some(scales), ..makings[number].clone() };
            let (shape, payload) = (rows.to_vec(), tensor.payload.clone());
            model.tensors.insert(number + 1, Tensor { name, dtype: DType::F32, shape, payload });
            makings.insert(number + 1, making);
            number += 1;
        }
        number += 1;
    }
    Ok(())
}

/// Makes integers whose scales are there floats of `dtype` again, and leaves out the scales.
///
/// # Errors
/// LimitExceeded for more rows than are held; what reading the scales raises.
pub fn undo(
    host: &Host,
    source: &OpenedModel,
    dtype: DType,
    model: &mut Model,
    makings: &mut Vec<Making>,
) -> Result<()> {
    let mut number = 0;
    while number < model.tensors.len() {
        let tensor = &model.tensors[number];
        let scales = scales_of(model, makings, tensor).filter(|_| is_whole(&makings[number]));
        if let Some((at, from)) = scales {
            let read = read(host, source, from).map_err(|e| e.tensor(&tensor.name))?;
            makings[number].row_scale = Some(RowScale::Undone { tensor: from, scales: read });
            model.tensors[number].dtype = dtype;
            model.tensors.remove(at);
            makings.remove(at);
            // What lies behind moved up.
            number = if at < number { number - 1 } else { number };
        }
        number += 1;
    }
    Ok(())
}

/// Where a tensor's scales are in the planned model, and in the source.
fn scales_of(model: &Model, makings: &[Making], tensor: &Tensor) -> Option<(usize, usize)> {
    let (_, rows) = tensor.shape.split_last()?;
    if !is_integer(tensor.dtype) || ![DType::I8, DType::I4].contains(&tensor.dtype) || rows.is_empty() {
        return None;
    }
    let name = name_of(&tensor.name);
    let is_it = |other: &Tensor| other.name == name && other.dtype == DType::F32 && other.shape == rows;
    let at = model.tensors.iter().position(is_it)?;
    match makings[at].pieces[..] {
        [Piece::Box { tensor, .. }] if is_whole(&makings[at]) => Some((at, tensor)),
        _ => None,
    }
}

/// Whether a tensor is one of the source as it is.
fn is_whole(making: &Making) -> bool {
    matches!(&making.pieces[..], [Piece::Box { start: 0, dims, .. }] if dims.len() < 2)
        && making.row_scale.is_none()
}

fn read(host: &Host, source: &OpenedModel, tensor: usize) -> Result<Arc<[f32]>> {
    let decl = &source.model.tensors[tensor];
    let len = checked_payload_len(decl.dtype, &decl.shape)?;
    if len > MOST {
        return Err(Error::limit(format!("its scales have {len} bytes, at most {MOST} are held")));
    }
    let mut bytes = Vec::new();
    payload::stream(host, source, tensor, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
