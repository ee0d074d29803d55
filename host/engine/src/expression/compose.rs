//! A box of a tensor, as work on the bytes of the file: the box says which elements, the payload says where each lies.

use crate::expression::gather::Gather;
use crate::expression::making::unit;
use crate::expression::work::Work;
use apr_sdk::{Endian, Extent, Payload, Result, Tensor, View};

/// The same box with as few dimensions as can be: neighbours that make one run are one dimension.
pub fn merged(dims: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for &(size, stride) in dims.iter().filter(|(size, _)| *size != 1) {
        match out.last_mut() {
            Some(last) if Some(last.1) == stride.checked_mul(size) => *last = (last.0 * size, stride),
            _ => out.push((size, stride)),
        }
    }
    out
}

/// What must be done for a box, its dimensions merged, of tensor number `number` of the source; `None` if its payload
/// cannot be read that way.
///
/// # Errors
/// Unsupported for a dtype that is unknown, or a payload of an unknown kind.
pub fn compose(tensor: &Tensor, number: usize, start: u64, dims: &[(u64, u64)]) -> Result<Option<Work>> {
    let each = u64::from(unit(tensor.dtype)?.block_bytes);
    let units = tensor.payload_len()? / each;
    if start == 0 && merged(&[(units, 1)]) == dims {
        return Work::new(tensor, number).map(Some);
    }
    if dims.iter().any(|(size, _)| *size == 0) {
        return Ok(Some(Work::Made(Vec::new())));
    }
    match &tensor.payload {
        Payload::Extent { extent, view: None } => {
            boxed(tensor, *extent, Endian::Little, start, dims).map(Some)
        }
        Payload::Extent { extent, view: Some(view) } if view.strides.is_empty() => {
            boxed(tensor, *extent, view.endian, start, dims).map(Some)
        }
        Payload::Extent { extent, view: Some(view) } => match through(view, &tensor.shape, start, dims) {
            Some((start, dims)) => boxed(tensor, *extent, view.endian, start, &merged(&dims)).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// A box of what lies in an extent, row-major.
///
/// # Errors
/// Unsupported for a dtype that is unknown.
pub fn boxed(
    tensor: &Tensor,
    extent: Extent,
    endian: Endian,
    start: u64,
    dims: &[(u64, u64)],
) -> Result<Work> {
    let info = unit(tensor.dtype)?;
    let each = u64::from(info.block_bytes);
    let run = match dims {
        [] => Some(1),
        [(size, 1)] => Some(*size),
        _ => None,
    };
    if let Some(run) = run {
        let piece = Extent::new(extent.file, extent.offset + start * each, run * each);
        let little = endian == Endian::Little || info.swap.is_empty();
        return Ok(if little { Work::Copy(piece) } else { Work::Swap(piece, info) });
    }
    let (shape, strides): (Vec<u64>, Vec<u64>) = dims.iter().copied().unzip();
    let view = View { strides, start, endian };
    Ok(Work::Gather(Box::new(Gather::new(extent, &view, info, &shape))))
}

/// An axis of a strided view.
struct Axis {
    /// Its size.
    size: u64,
    /// From one index to the next in row-major order.
    step: u64,
    /// The same in the file.
    stride: u64,
    /// How many more indices the box may go.
    room: u64,
}

/// A box of a view's elements in row-major order, as a box of the elements in the file. `None` where a step of the box
/// would carry from one axis of the view into the next.
fn through(view: &View, shape: &[u64], start: u64, dims: &[(u64, u64)]) -> Option<(u64, Vec<(u64, u64)>)> {
    let joined = merged(&shape.iter().copied().zip(view.strides.iter().copied()).collect::<Vec<_>>());
    let mut axes: Vec<Axis> = Vec::with_capacity(joined.len());
    let mut step = 1u64;
    for &(size, stride) in joined.iter().rev() {
        axes.push(Axis { size, step, stride, room: 0 });
        step = step.checked_mul(size)?;
    }
    let mut begin = view.start;
    for axis in &mut axes {
        let digit = start / axis.step % axis.size.max(1);
        begin += digit * axis.stride;
        axis.room = axis.size.checked_sub(1 + digit)?;
    }
    let mut out = Vec::new();
    // Innermost first; what goes over an axis's end goes on along the one outside it.
    for &(mut size, mut stride) in dims.iter().rev() {
        while size > 1 {
            if stride == 0 {
                out.push((size, 0));
                break;
            }
            let axis = axes.iter_mut().find(|axis| stride / axis.step < axis.size)?;
            let hop = (stride % axis.step == 0).then_some(stride / axis.step)?;
            // All of the axis, if the box goes on beyond it.
            let within = if (size - 1).checked_mul(hop)? <= axis.room { size } else { axis.size / hop };
            let whole = within == size || (axis.size % hop == 0 && size % within == 0);
            axis.room = axis.room.checked_sub((within - 1) * hop).filter(|_| whole)?;
            out.push((within, hop * axis.stride));
            size /= within;
            stride = stride.checked_mul(within)?;
        }
    }
    out.reverse();
    Some((begin, out))
}
