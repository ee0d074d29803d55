//! Some elements of another expression, in any order: a permutation, a transpose, a split, a slice. Regions
//! are composed and pushed down to the stored bytes on construction.

use super::concat::concat;
use super::source::{Source, Storage, unit};
use super::spool::Spool;
use super::{Expression, Fill, Granule};
use crate::values::usize_of;
use apr_sdk::{DType, Error, Extent, Result, Tensor};

/// A box of stored elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// A source in a byte range of a file, or a spool.
    pub of: Expression,
    /// Index of the first unit ([`unit()`]).
    pub start: u64,
    /// Size and stride of each dimension, outermost first, in units; empty for a single unit.
    pub dims: Vec<(u64, u64)>,
}

/// The same box with as few dimensions as possible: merges neighbours that form one run.
pub fn merged(dims: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for &(size, stride) in dims.iter().filter(|(size, _)| *size != 1) {
        match out.last_mut() {
            Some(last) if Some(last.1) == stride.checked_mul(size) => {
                *last = (last.0.saturating_mul(size), stride)
            }
            _ => out.push((size, stride)),
        }
    }
    out
}

/// The place of element number `number` of a box that begins at `start`, counted in row-major order.
pub(super) fn place_in(start: u64, dims: &[(u64, u64)], mut number: u64) -> u64 {
    let mut at = start;
    for (size, stride) in dims.iter().rev() {
        at += number % size * stride;
        number /= size;
    }
    at
}

/// Returns whether a box is within so many units.
fn fits(start: u64, dims: &[(u64, u64)], units: u64) -> bool {
    let steps = dims
        .iter()
        .try_fold(start, |at, &(size, stride)| at.checked_add(size.saturating_sub(1).checked_mul(stride)?));
    dims.iter().any(|(size, _)| *size == 0) || steps.is_some_and(|last| last < units)
}

impl Region {
    /// A box of a contiguous source, or of a spool: its normal form.
    pub(super) fn over(of: Expression, start: u64, dims: &[(u64, u64)]) -> Result<Expression> {
        let dims = merged(dims);
        let each = u64::from(unit(of.dtype())?.block_bytes);
        if dims.iter().any(|(size, _)| *size == 0) {
            return Ok(emptied(of));
        }
        let run = match dims[..] {
            [] => Some(1),
            [(size, 1)] => Some(size),
            _ => None,
        };
        match (&of, run) {
            (
                Expression::Source(Source {
                    tensor, dtype, storage: Storage::Extent { extent, endian }, ..
                }),
                Some(run),
            ) => {
                let len = run.saturating_mul(each);
                let at = extent.offset.saturating_add(start.saturating_mul(each));
                let extent = Extent::new(extent.file, at, len);
                let storage = Storage::Extent { extent, endian: *endian };
                Ok(Expression::Source(Source { tensor: *tensor, dtype: *dtype, len, storage }))
            }
            _ => Ok(Expression::Region(Box::new(Region { of, start, dims }))),
        }
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn byte_len(&self) -> Result<u64> {
        let each = u64::from(unit(self.of.dtype())?.block_bytes);
        Ok(self.dims.iter().fold(each, |len, (size, _)| len.saturating_mul(*size)))
    }
}

impl Expression {
    /// Some elements of tensor number `number` of the source, declared as `tensor`: a box that begins at unit
    /// `start` of its row-major payload, with these sizes and strides in units, outermost first.
    ///
    /// # Errors
    /// Plugin for a box outside of the tensor; as [`Expression::of`].
    pub fn boxed(number: usize, tensor: &Tensor, start: u64, dims: &[(u64, u64)]) -> Result<Expression> {
        let units = units(tensor.payload_len()?, tensor.dtype)?;
        if !fits(start, dims, units) {
            return Err(Error::plugin(format!("its region extends past the end of `{}`", tensor.name)));
        }
        Expression::of(number, tensor)?.region(start, dims)
    }

    /// Some of its elements: a box that begins at unit `start`, with these sizes and strides in units of its
    /// type, outermost first. Spools what cannot be read that way.
    ///
    /// # Errors
    /// Plugin for a box outside; Unsupported for an unknown dtype.
    pub fn region(self, start: u64, dims: &[(u64, u64)]) -> Result<Expression> {
        let units = units(self.byte_len()?, self.dtype())?;
        let dims = merged(dims);
        if !fits(start, &dims, units) {
            return Err(Error::plugin(format!("the region extends past the end ({units} units)")));
        }
        if start == 0 && merged(&[(units, 1)]) == dims {
            return Ok(self);
        }
        if dims.iter().any(|(size, _)| *size == 0) {
            return Ok(emptied(self));
        }
        match self {
            Expression::Source(Source {
                storage: Storage::Extent { .. } | Storage::Blocks(_) | Storage::Packed(_),
                ..
            })
            | Expression::Spool(_) => Region::over(self, start, &dims),
            Expression::Region(inner) => match through(&inner, start, &dims) {
                Some((start, dims)) => Region::over(inner.of, start, &dims),
                None => Region::over(Spool::of(Expression::Region(inner)), start, &dims),
            },
            Expression::Fill(fill) => picked(&fill, start, &dims),
            Expression::Concat(parts) => of_parts(parts, start, &dims),
            Expression::Source(_) => Region::over(Spool::of(self), start, &dims),
            mut changed => match pushed(&changed, start, &dims)? {
                Some(leaf) => {
                    changed.set_leaf(leaf);
                    Ok(changed)
                }
                None => Region::over(Spool::of(changed), start, &dims),
            },
        }
    }
}

/// Units of a type in so many bytes.
fn units(bytes: u64, dtype: DType) -> Result<u64> {
    Ok(bytes / u64::from(unit(dtype)?.block_bytes))
}

/// A box of changed values as a box of its leaf: possible if elements are changed independently, or the box
/// has whole rows.
fn pushed(changed: &Expression, start: u64, dims: &[(u64, u64)]) -> Result<Option<Expression>> {
    let granule = Granule::of(changed)?;
    let leaf = changed.leaf();
    // After a move, a row could no longer be matched with its own importance.
    if changed.any(&|node| matches!(node, Expression::Encode(encode) if encode.importance.is_some())) {
        return Ok(None);
    }
    if !granule.is_row {
        return leaf.clone().region(start, dims).map(Some);
    }
    let before = units(granule.before, leaf.dtype())?;
    let after = units(granule.after, changed.dtype())?;
    // One unit is a row of its own if each row becomes a single value.
    let (outer, run) = match dims.split_last() {
        Some((&(size, 1), outer)) => (outer, size),
        _ => (dims, 1),
    };
    let strides = outer.iter().map(|(_, stride)| *stride);
    if !strides.chain([start, run]).all(|units| units.is_multiple_of(after)) {
        return Ok(None);
    }
    let mut dims: Vec<_> = outer.iter().map(|&(size, stride)| (size, stride / after * before)).collect();
    dims.push((run / after * before, 1));
    leaf.clone().region(start / after * before, &dims).map(Some)
}

/// None of its elements, but still of the same source.
fn emptied(of: Expression) -> Expression {
    let dtype = of.dtype();
    match of {
        empty if empty.byte_len().is_ok_and(|len| len == 0) => empty,
        Expression::Source(Source { tensor, storage: Storage::Extent { extent, endian }, .. }) => {
            let extent = Extent::new(extent.file, extent.offset, 0);
            Expression::Source(Source { tensor, dtype, len: 0, storage: Storage::Extent { extent, endian } })
        }
        _ => Expression::Fill(Fill { dtype, bytes: [].into() }),
    }
}

/// The selected units of computed bytes.
fn picked(fill: &Fill, start: u64, dims: &[(u64, u64)]) -> Result<Expression> {
    let each = usize::try_from(unit(fill.dtype)?.block_bytes).unwrap_or(1);
    let count: u64 = dims.iter().map(|(size, _)| size).product();
    let mut bytes = Vec::new();
    for number in 0..count {
        let at = usize_of(place_in(start, dims, number)).saturating_mul(each);
        bytes.extend_from_slice(fill.bytes.get(at..at.saturating_add(each)).unwrap_or_default());
    }
    Ok(Expression::Fill(Fill { dtype: fill.dtype, bytes: bytes.into() }))
}

/// A box across several parts: cut along its outermost dimension where one part ends and the next begins.
fn of_parts(parts: Vec<Expression>, start: u64, dims: &[(u64, u64)]) -> Result<Expression> {
    let each = u64::from(unit(parts.first().map_or(DType::U8, Expression::dtype))?.block_bytes);
    let ends: Vec<u64> = parts
        .iter()
        .scan(0, |end, part| {
            *end += part.byte_len().unwrap_or(0) / each;
            Some(*end)
        })
        .collect();
    let (&(size, stride), inner) = dims.split_first().unwrap_or((&(1, 1), &[]));
    let reach: u64 = inner.iter().map(|(size, stride)| (size - 1) * stride).sum();
    // Runs of outermost indices whose boxes are in one part.
    let mut runs: Vec<(usize, u64, u64)> = Vec::new();
    let mut index = 0;
    while index < size {
        let first = start + index * stride;
        let part = ends.partition_point(|end| *end <= first);
        if first + reach >= ends[part] {
            return Region::over(Spool::of(Expression::Concat(parts)), start, dims);
        }
        let left = ends[part] - 1 - reach - first;
        let here = left.checked_div(stride).map_or(size, |more| more + 1).min(size - index);
        runs.push((part, first, here));
        index += here;
    }
    let mut boxes = Vec::with_capacity(runs.len());
    for (part, first, here) in runs {
        let begin = part.checked_sub(1).map_or(0, |before| ends[before]);
        let dims = [&[(here, stride)], inner].concat();
        boxes.push(parts[part].clone().region(first - begin, &dims)?);
    }
    Ok(concat(boxes))
}

/// An axis of a box.
struct Axis {
    /// Number of indices.
    size: u64,
    /// Distance between indices in row-major order, in units.
    step: u64,
    /// Distance between indices in the underlying expression, in units.
    stride: u64,
    /// Remaining room of the inner box along this axis, in indices.
    room: u64,
}

/// A box of a region's units in row-major order, as a box of the underlying expression. `None` if a step of
/// the box would carry from one axis of the region into the next.
fn through(region: &Region, start: u64, dims: &[(u64, u64)]) -> Option<(u64, Vec<(u64, u64)>)> {
    let joined = merged(&region.dims);
    let mut axes: Vec<Axis> = Vec::with_capacity(joined.len());
    let mut step = 1u64;
    for &(size, stride) in joined.iter().rev() {
        axes.push(Axis { size, step, stride, room: 0 });
        step = step.checked_mul(size)?;
    }
    let mut begin = region.start;
    for axis in &mut axes {
        let digit = start / axis.step % axis.size.max(1);
        begin += digit * axis.stride;
        axis.room = axis.size.checked_sub(1 + digit)?;
    }
    let mut out = Vec::new();
    // Innermost first; what exceeds an axis continues along the next outer one.
    for &(mut size, mut stride) in dims.iter().rev() {
        while size > 1 {
            if stride == 0 {
                out.push((size, 0));
                break;
            }
            let axis = axes.iter_mut().find(|axis| stride / axis.step < axis.size)?;
            let hop = (stride % axis.step == 0).then_some(stride / axis.step)?;
            // All of the axis, if the box continues beyond it.
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
