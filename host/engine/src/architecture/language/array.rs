//! Arrays that are described rather than stored: which boxes of which source tensors make up a tensor, in
//! row-major order. Every reordering in a table consists of four steps on these: permute axes, slice, join,
//! reshape. Sizes are in units of the dtype: elements, or blocks along the last axis.

use crate::architecture::language::change::Change;
use crate::expression::merged;
use apr_sdk::{Error, Result};

/// A box of a source tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Box_ {
    /// Index of the tensor in the source; `None` for zeros.
    pub tensor: Option<usize>,
    /// Index of its first unit.
    pub start: u64,
    /// Sizes and strides, outermost first, in units.
    pub dims: Vec<(u64, u64)>,
    /// What is done to each value.
    pub change: Change,
}

/// An array made of boxes.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// One box, whose axes are groups of the box's dimensions.
    Leaf {
        /// Index of the source tensor; `None` for zeros.
        tensor: Option<usize>,
        /// Index of the first unit.
        start: u64,
        /// The dimensions of each axis: size and stride.
        axes: Vec<Vec<(u64, u64)>>,
        /// What is done to each value.
        change: Change,
    },
    /// Arrays joined along an axis.
    Joined {
        /// The axis along which they are joined.
        axis: usize,
        /// The arrays, whose other axes agree.
        parts: Vec<Array>,
    },
    /// Boxes in row-major order, with only the total shape known.
    Flat {
        /// The boxes, in row-major order.
        boxes: Vec<Box_>,
        /// The shape of them all together.
        shape: Vec<u64>,
    },
}

/// Boxes of one tensor: 256 heads of 4 parts in 1000 experts.
const MOST_BOXES: u64 = 1 << 20;

fn product(sizes: impl IntoIterator<Item = u64>) -> Option<u64> {
    sizes.into_iter().try_fold(1u64, u64::checked_mul)
}

impl Array {
    /// All of a tensor with `shape` units.
    pub fn whole(tensor: usize, shape: &[u64]) -> Array {
        Array::dense(Some(tensor), shape)
    }

    /// Zeros, with `shape` units.
    pub fn zeros(shape: &[u64]) -> Array {
        Array::dense(None, shape)
    }

    fn dense(tensor: Option<usize>, shape: &[u64]) -> Array {
        let mut stride = 1u64;
        let mut axes: Vec<Vec<(u64, u64)>> = Vec::with_capacity(shape.len());
        for &size in shape.iter().rev() {
            axes.push(vec![(size, stride)]);
            stride = stride.saturating_mul(size);
        }
        axes.reverse();
        Array::Leaf { tensor, start: 0, axes, change: Change::default() }
    }

    /// Joins arrays along `axis`.
    ///
    /// # Errors
    /// InvalidArgument if their other axes differ, or there are no arrays.
    pub fn join(axis: usize, parts: Vec<Array>) -> Result<Array> {
        let first = parts.first().and_then(|part| part.shape_without(axis));
        if first.is_none() || parts.iter().any(|part| part.shape_without(axis) != first) {
            let shapes: Vec<_> = parts.iter().map(Array::shape).collect();
            return Err(Error::invalid_argument(format!(
                "{shapes:?} cannot be concatenated along axis {axis}"
            )));
        }
        Ok(match <[Array; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => Array::Joined { axis, parts },
        })
    }

    /// The shape in units.
    pub fn shape(&self) -> Vec<u64> {
        match self {
            Array::Leaf { axes, .. } => {
                axes.iter().map(|axis| axis.iter().map(|(size, _)| size).product()).collect()
            }
            Array::Joined { axis, parts } => {
                let mut shape = parts[0].shape();
                shape[*axis] = parts.iter().map(|part| part.shape()[*axis]).sum();
                shape
            }
            Array::Flat { shape, .. } => shape.clone(),
        }
    }

    /// The shape without an axis; `None` if there is no such axis.
    fn shape_without(&self, axis: usize) -> Option<Vec<u64>> {
        let mut shape = self.shape();
        if axis >= shape.len() {
            return None;
        }
        shape.remove(axis);
        Some(shape)
    }

    /// Permutes the axes: axis `n` of the result is axis `order[n]`.
    ///
    /// # Errors
    /// Unsupported after a reshape that no axis survived.
    pub fn permute(&self, order: &[usize]) -> Result<Array> {
        match self {
            Array::Leaf { tensor, start, axes, change } => Ok(Array::Leaf {
                tensor: *tensor,
                start: *start,
                axes: order.iter().map(|&axis| axes[axis].clone()).collect(),
                change: *change,
            }),
            Array::Joined { axis, parts } => Ok(Array::Joined {
                axis: order.iter().position(|a| a == axis).unwrap_or(0),
                parts: parts.iter().map(|part| part.permute(order)).collect::<Result<_>>()?,
            }),
            Array::Flat { .. } => Err(flat()),
        }
    }

    /// Selects the indices `from..to` of an axis.
    ///
    /// # Errors
    /// InvalidArgument for indices out of range, or inside of what an earlier step merged.
    pub fn slice(&self, axis: usize, from: u64, to: u64) -> Result<Array> {
        let shape = self.shape();
        if axis >= shape.len() || from > to || to > shape[axis] {
            return Err(Error::invalid_argument(format!(
                "{from}..{to} is out of range for axis {axis} of {shape:?}"
            )));
        }
        if to - from == shape[axis] {
            return Ok(self.clone());
        }
        match self {
            Array::Leaf { tensor, start, axes, change } => {
                let mut axes = axes.clone();
                let inner: u64 = axes[axis].iter().skip(1).map(|(size, _)| size).product();
                if inner == 0 || !from.is_multiple_of(inner) || !to.is_multiple_of(inner) {
                    let message = format!("{from}..{to} splits rows of {inner} that belong together");
                    return Err(Error::invalid_argument(message));
                }
                let Some(outer) = axes[axis].first_mut() else { return Ok(self.clone()) };
                let start = start + from / inner * outer.1;
                outer.0 = (to - from) / inner;
                Ok(Array::Leaf { tensor: *tensor, start, axes, change: *change })
            }
            Array::Joined { axis: along, parts } if *along == axis => {
                let mut begin = 0;
                let mut inside = Vec::new();
                for part in parts {
                    let end = begin + part.shape()[axis];
                    let first = from.max(begin);
                    let last = to.min(end);
                    if first < last {
                        inside.push(part.slice(axis, first - begin, last - begin)?);
                    }
                    begin = end;
                }
                match inside.is_empty() {
                    true => parts[0].slice(axis, 0, 0),
                    false => Array::join(axis, inside),
                }
            }
            Array::Joined { axis: along, parts } => Ok(Array::Joined {
                axis: *along,
                parts: parts.iter().map(|part| part.slice(axis, from, to)).collect::<Result<_>>()?,
            }),
            Array::Flat { .. } => Err(flat()),
        }
    }

    /// Gives the same units in row-major order another shape.
    ///
    /// # Errors
    /// InvalidArgument for a different number of units, or sizes that cut across each other.
    pub fn reshape(&self, shape: &[u64]) -> Result<Array> {
        let have = self.shape();
        if have == shape {
            return Ok(self.clone());
        }
        if product(have.iter().copied()) != product(shape.iter().copied()) {
            return Err(Error::invalid_argument(format!("{have:?} cannot be reshaped to {shape:?}")));
        }
        match self {
            Array::Leaf { tensor, start, axes, change } => match regroup(axes, shape) {
                Some(axes) => Ok(Array::Leaf { tensor: *tensor, start: *start, axes, change: *change }),
                None => Err(Error::invalid_argument(format!("{have:?} cannot be reshaped to {shape:?}"))),
            },
            Array::Joined { axis, parts } => match joined_axis(&have, *axis, shape) {
                Some((new_axis, rows)) => {
                    let sizes: Vec<u64> = parts.iter().map(|part| part.shape()[*axis]).collect();
                    if sizes.iter().any(|size| size % rows != 0) {
                        return self.flat(shape);
                    }
                    let mut reshaped = Vec::with_capacity(parts.len());
                    for (part, size) in parts.iter().zip(sizes) {
                        let mut shape = shape.to_vec();
                        shape[new_axis] = size / rows;
                        reshaped.push(part.reshape(&shape)?);
                    }
                    Ok(Array::Joined { axis: new_axis, parts: reshaped })
                }
                None => self.flat(shape),
            },
            Array::Flat { boxes, .. } => Ok(Array::Flat { boxes: boxes.clone(), shape: shape.to_vec() }),
        }
    }

    /// Changes every value, after what is done to it already.
    ///
    /// # Errors
    /// Unsupported for changes that are more than one function and a sum.
    pub fn changed(&self, next: Change) -> Result<Array> {
        Ok(match self {
            Array::Leaf { tensor, start, axes, change } => {
                let change = change.then(next)?;
                Array::Leaf { tensor: *tensor, start: *start, axes: axes.clone(), change }
            }
            Array::Joined { axis, parts } => Array::Joined {
                axis: *axis,
                parts: parts.iter().map(|part| part.changed(next)).collect::<Result<_>>()?,
            },
            Array::Flat { boxes, shape } => {
                let mut boxes = boxes.clone();
                for one in &mut boxes {
                    one.change = one.change.then(next)?;
                }
                Array::Flat { boxes, shape: shape.clone() }
            }
        })
    }

    fn flat(&self, shape: &[u64]) -> Result<Array> {
        Ok(Array::Flat { boxes: self.boxes()?, shape: shape.to_vec() })
    }

    /// The boxes it consists of, in row-major order.
    ///
    /// # Errors
    /// LimitExceeded for more than a million.
    pub fn boxes(&self) -> Result<Vec<Box_>> {
        let mut boxes: Vec<Box_> = Vec::new();
        self.push_boxes(&mut boxes)?;
        Ok(boxes)
    }

    fn push_boxes(&self, into: &mut Vec<Box_>) -> Result<()> {
        match self {
            Array::Leaf { tensor, start, axes, change } => {
                let dims = merged(&axes.concat());
                push(into, Box_ { tensor: *tensor, start: *start, dims, change: *change })
            }
            Array::Flat { boxes, .. } => boxes.iter().try_for_each(|one| push(into, one.clone())),
            Array::Joined { axis: 0, parts } => parts.iter().try_for_each(|part| part.push_boxes(into)),
            // Whatever is outside of the joined axis varies slowest.
            Array::Joined { parts, .. } => {
                let outer = parts[0].shape()[0];
                (0..outer).try_for_each(|at| self.slice(0, at, at + 1)?.without_first()?.push_boxes(into))
            }
        }
    }

    /// Removes the first axis, whose size is 1.
    fn without_first(&self) -> Result<Array> {
        match self {
            Array::Leaf { tensor, start, axes, change } => {
                Ok(Array::Leaf { tensor: *tensor, start: *start, axes: axes[1..].to_vec(), change: *change })
            }
            Array::Joined { axis, parts } if *axis > 0 => Ok(Array::Joined {
                axis: axis - 1,
                parts: parts.iter().map(Array::without_first).collect::<Result<_>>()?,
            }),
            // If parts are joined along an axis of size 1, exactly one of them has it.
            Array::Joined { parts, .. } => match parts.iter().find(|part| part.shape()[0] == 1) {
                Some(part) => part.without_first(),
                None => Err(flat()),
            },
            Array::Flat { .. } => Err(flat()),
        }
    }
}

fn flat() -> Error {
    Error::unsupported("the table has more operations after one that removes all axes")
}

/// Adds a box; merges it with the previous one if they are consecutive in the source.
fn push(into: &mut Vec<Box_>, one: Box_) -> Result<()> {
    let plain_len = |of: &Box_| match of.dims[..] {
        [(len, 1)] => Some(len),
        _ => None,
    };
    if let (Some(last), Some(more)) = (into.last_mut(), plain_len(&one))
        && let Some(len) = plain_len(last)
        && last.tensor == one.tensor
        && last.change == one.change
        && (last.tensor.is_none() || last.start + len == one.start)
    {
        last.dims[0].0 += more;
        return Ok(());
    }
    if into.len() as u64 >= MOST_BOXES {
        return Err(Error::limit(format!("a tensor would consist of more than {MOST_BOXES} pieces")));
    }
    into.push(one);
    Ok(())
}

/// Regroups the dimensions of `axes` to the sizes of `shape`; splits a dimension where a group ends inside
/// it.
fn regroup(axes: &[Vec<(u64, u64)>], shape: &[u64]) -> Option<Vec<Vec<(u64, u64)>>> {
    let mut rest = merged(&axes.concat());
    rest.reverse();
    let mut groups = Vec::with_capacity(shape.len());
    for &size in shape {
        let mut left = size;
        let mut group = Vec::new();
        while left != 1 {
            let (have, stride) = rest.pop()?;
            if have != 0 && left % have == 0 {
                group.push((have, stride));
                left /= have;
            } else if left != 0 && have % left == 0 {
                let inner = have / left;
                group.push((left, stride.checked_mul(inner)?));
                rest.push((inner, stride));
                left = 1;
            } else {
                return None;
            }
        }
        groups.push(group);
    }
    rest.is_empty().then_some(groups)
}

/// The position of the joined axis in `shape`, and how many of its old indices one new index stands for.
fn joined_axis(have: &[u64], axis: usize, shape: &[u64]) -> Option<(usize, u64)> {
    let before = product(have[..axis].iter().copied())?;
    let at =
        (0..shape.len()).find(|&n| product(shape[..n].iter().copied()) == Some(before) && shape[n] != 1)?;
    let inner_have = product(have[axis + 1..].iter().copied())?;
    let inner_new = product(shape[at + 1..].iter().copied())?;
    // One index of the new axis must be whole indices of the old one.
    (inner_have > 0 && inner_new % inner_have == 0).then(|| (at, inner_new / inner_have))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The units of the array as numbers: 1000 × tensor + index of the unit.
    fn units(array: &Array) -> Vec<u64> {
        let mut out = Vec::new();
        for one in array.boxes().unwrap() {
            let n: u64 = one.dims.iter().map(|(size, _)| size).product();
            for mut index in 0..n {
                let mut at = one.start;
                for (size, stride) in one.dims.iter().rev() {
                    at += index % size * stride;
                    index /= size;
                }
                out.push(one.tensor.map_or(u64::MAX, |t| t as u64 * 1000 + at));
            }
        }
        out
    }

    #[test]
    fn a_permutation_of_rows_and_back() {
        // 2 heads of 4 rows, of 3 columns.
        let rows = Array::whole(0, &[8, 3]);
        let turned = rows.reshape(&[2, 2, 2, 3]).unwrap().permute(&[0, 2, 1, 3]).unwrap();
        let there = turned.reshape(&[8, 3]).unwrap();
        let first: Vec<u64> = units(&there).iter().step_by(3).map(|u| u / 3).collect();
        assert_eq!(first, [0, 2, 1, 3, 4, 6, 5, 7]);
        let back = there.reshape(&[2, 2, 2, 3]).unwrap().permute(&[0, 2, 1, 3]).unwrap();
        assert_eq!(units(&back), (0..24).collect::<Vec<_>>());
        assert_eq!(back.boxes().unwrap().len(), 1, "a whole tensor is one plain box");
        assert_eq!(back.boxes().unwrap()[0].dims, [(24, 1)]);
    }

    #[test]
    fn joined_parts_come_in_row_major_order_whatever_the_axis() {
        let a = Array::whole(0, &[2, 3]);
        let b = Array::whole(1, &[2, 1]);
        let wide = Array::join(1, vec![a.clone(), b.clone()]).unwrap();
        assert_eq!(wide.shape(), [2, 4]);
        assert_eq!(units(&wide), [0, 1, 2, 1000, 3, 4, 5, 1001]);
        // What was joined can be separated again.
        assert_eq!(units(&wide.slice(1, 0, 3).unwrap()), units(&a));
        assert_eq!(units(&wide.slice(1, 3, 4).unwrap()), units(&b));
        assert_eq!(units(&wide.slice(0, 1, 2).unwrap()), [3, 4, 5, 1001]);
        assert_eq!(units(&wide.permute(&[1, 0]).unwrap()), [0, 3, 1, 4, 2, 5, 1000, 1001]);
        // A reshape that keeps no axis still keeps the order.
        assert_eq!(units(&wide.reshape(&[8]).unwrap()), units(&wide));
        // Along a third axis too: rows of both take turns.
        let deep = Array::join(2, vec![Array::whole(0, &[2, 2, 2]), Array::whole(1, &[2, 2, 1])]).unwrap();
        assert_eq!(units(&deep), [0, 1, 1000, 2, 3, 1001, 4, 5, 1002, 6, 7, 1003]);
        // A stack is joined along a new first axis.
        let stacked =
            Array::join(0, vec![a.reshape(&[1, 2, 3]).unwrap(), a.reshape(&[1, 2, 3]).unwrap()]).unwrap();
        assert_eq!(stacked.shape(), [2, 2, 3]);
        assert_eq!(units(&stacked.slice(0, 1, 2).unwrap().reshape(&[2, 3]).unwrap()), units(&a));
        // A joined axis may be cut finer.
        let tall = Array::join(0, vec![Array::whole(0, &[4, 3]), Array::whole(1, &[2, 3])]).unwrap();
        let fine = tall.reshape(&[3, 2, 3]).unwrap();
        assert_eq!(units(&fine.permute(&[1, 0, 2]).unwrap())[..6], [0, 1, 2, 6, 7, 8]);
    }

    #[test]
    fn neighbours_become_one_box() {
        let whole = Array::whole(3, &[6, 5]);
        let parts = vec![whole.slice(0, 0, 2).unwrap(), whole.slice(0, 2, 6).unwrap()];
        assert_eq!(Array::join(0, parts).unwrap().boxes().unwrap().len(), 1);
        let turned = vec![whole.slice(0, 2, 6).unwrap(), whole.slice(0, 0, 2).unwrap()];
        assert_eq!(Array::join(0, turned).unwrap().boxes().unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let a = Array::whole(0, &[6, 4]);
        a.reshape(&[5, 5]).unwrap_err();
        a.reshape(&[4, 6]).unwrap();
        a.permute(&[1, 0]).unwrap().reshape(&[3, 8]).unwrap_err();
        a.slice(0, 2, 7).unwrap_err();
        a.slice(2, 0, 1).unwrap_err();
        a.permute(&[1, 0]).unwrap().reshape(&[24]).unwrap().slice(0, 1, 5).unwrap_err();
        Array::join(0, vec![a.clone(), Array::whole(1, &[6, 5])]).unwrap_err();
        Array::join(0, vec![]).unwrap_err();
    }
}
