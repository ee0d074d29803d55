//! Runs operations on lists of arrays, forwards and backwards.

use super::Operation;
use crate::architecture::language::array::Array;
use crate::architecture::language::change::Change;
use crate::architecture::language::expression::{Expression, Scalar, Scope};
use crate::expression::{Constant, Map};
use apr_sdk::{Error, Result};

/// How to interpret the table's numbers: the configuration, and elements per block along the last axis.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The configuration.
    pub scope: &'a dyn Scope,
    /// Elements per unit along the last axis: 1, or those of a block.
    pub block: u64,
}

impl View<'_> {
    /// Converts a shape from elements to units.
    ///
    /// # Errors
    /// Unsupported for a row that is not whole blocks.
    pub fn units(&self, shape: &[u64]) -> Result<Vec<u64>> {
        let mut units = shape.to_vec();
        if let Some(last) = units.last_mut() {
            if *last % self.block != 0 {
                let message =
                    format!("rows of {last} elements are not a multiple of the block size {}", self.block);
                return Err(Error::unsupported(message).hint("dequantize it first: --dequantize f32"));
            }
            *last /= self.block;
        }
        Ok(units)
    }

    /// Sizes along `axis` of `n` axes, in units.
    fn sizes(&self, sizes: &[Expression], axis: usize, n: usize) -> Result<Vec<u64>> {
        let divisor = if axis + 1 == n { self.block } else { 1 };
        let mut units = Vec::with_capacity(sizes.len());
        for size in sizes {
            let size = size.size(self.scope)?;
            if size % divisor != 0 {
                return Err(Error::unsupported(format!(
                    "{size} elements are not a multiple of the block size {divisor}"
                ))
                .hint("dequantize it first: --dequantize f32"));
            }
            units.push(size / divisor);
        }
        Ok(units)
    }

    fn shape(&self, shape: &[Expression]) -> Result<Vec<u64>> {
        let sizes: Vec<u64> = shape.iter().map(|size| size.size(self.scope)).collect::<Result<_>>()?;
        self.units(&sizes)
    }
}

/// Shapes of a list of arrays, in units.
pub type Shapes = Vec<Vec<u64>>;

/// Applies `operations` in order. Returns the shapes that each one got, which undoing it requires.
///
/// # Errors
/// An error if something does not fit the arrays; Unsupported for steps that blocks do not allow.
pub fn forwards(
    operations: &[Operation],
    mut items: Vec<Array>,
    view: View<'_>,
) -> Result<(Vec<Array>, Vec<Shapes>)> {
    let mut met = Vec::with_capacity(operations.len());
    for operation in operations {
        met.push(items.iter().map(Array::shape).collect());
        items = forward(operation, &items, view)?;
    }
    Ok((items, met))
}

/// Undoes `operations`, which got these shapes on their way forwards.
///
/// # Errors
/// As [`forwards`].
pub fn backwards(
    operations: &[Operation],
    mut items: Vec<Array>,
    met: &[Shapes],
    view: View<'_>,
) -> Result<Vec<Array>> {
    for (operation, met) in operations.iter().zip(met).rev() {
        items = backward(operation, &items, met, view)?;
    }
    Ok(items)
}

fn forward(operation: &Operation, items: &[Array], view: View<'_>) -> Result<Vec<Array>> {
    if let Operation::Ternary(Some(when)) = operation
        && !when.holds(view.scope)?
    {
        return Ok(items.to_vec());
    }
    if view.block > 1 && operation.needs_values() {
        let message = format!("quantized values cannot be changed by `{}`", operation.word());
        return Err(Error::unsupported(message).hint(
            "dequantize it in its own format first (apr convert MODEL FLOATS --dequantize f32), then \
             convert FLOATS",
        ));
    }
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            items.iter().map(|array| turn_rows(array, heads, true)).collect()
        }
        Operation::Transpose => items.iter().map(transpose).collect(),
        Operation::Permute(axes) => items.iter().map(|array| permuted(array, axes)).collect(),
        Operation::Add(c) => changed(items, Change::adds(*c)),
        Operation::NegExp => changed(items, Change::maps(Map::NegExp)),
        Operation::Exp => changed(items, Change::maps(Map::Exp)),
        // The levels are measured once it is known which values they are of.
        Operation::Ternary(_) => changed(items, Change::maps(Map::Ternary(None))),
        Operation::Multiply(by, then) => changed(items, times(by, then.as_ref(), view, Map::Times)?),
        Operation::Parts(axis, join, sizes, operations) => {
            let array = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, array.shape().len())?;
            let mut parts = Vec::new();
            for (part, operations) in cut(array, *axis, &sizes)?.into_iter().zip(operations) {
                parts.extend(forwards(operations, vec![part], view)?.0);
            }
            Ok(vec![Array::join(*join, parts)?])
        }
        Operation::Split(axis, sizes) => {
            let array = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, array.shape().len())?;
            cut(array, *axis, &sizes)
        }
        Operation::Concat(axis) => Ok(vec![Array::join(*axis, items.to_vec())?]),
        Operation::Stack => {
            let stacked = items.iter().map(with_first).collect::<Result<Vec<_>>>()?;
            Ok(vec![Array::join(0, stacked)?])
        }
        Operation::Regroup(groups, queries) => {
            let groups = groups.size(view.scope)?;
            let queries = queries.size(view.scope)?;
            items.iter().map(|array| regroup(array, groups, queries)).collect()
        }
        Operation::SliceRows(from, to) => {
            let from = from.size(view.scope)?;
            let to = to.size(view.scope)?;
            items.iter().map(|array| array.slice(0, from, to)).collect()
        }
        Operation::PadRows(to) => {
            let to = to.size(view.scope)?;
            items.iter().map(|array| padded(array, 0, to)).collect()
        }
        Operation::As(shape) => {
            let shape = view.shape(shape)?;
            items.iter().map(|array| array.reshape(&shape)).collect()
        }
    }
}

fn backward(operation: &Operation, items: &[Array], met: &[Vec<u64>], view: View<'_>) -> Result<Vec<Array>> {
    let before = met.first().map_or(&[][..], Vec::as_slice);
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            items.iter().map(|array| turn_rows(array, heads, false)).collect()
        }
        Operation::Transpose => forward(operation, items, view),
        Operation::Permute(axes) => {
            let mut back = vec![0; axes.len()];
            for (to, &from) in axes.iter().enumerate() {
                back[from] = to;
            }
            items.iter().map(|array| permuted(array, &back)).collect()
        }
        Operation::Add(c) => forward(&Operation::Add(-c), items, view),
        Operation::NegExp => changed(items, Change::maps(Map::LnNeg)),
        Operation::Exp => changed(items, Change::maps(Map::Ln)),
        Operation::Ternary(_) => Ok(items.to_vec()),
        Operation::Multiply(by, then) => changed(items, times(by, then.as_ref(), view, Map::Over)?),
        Operation::Parts(axis, join, sizes, operations) => {
            let array = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, before.len())?;
            // Run forwards with empty arrays, to learn the shapes along the way.
            let blank = cut(&Array::zeros(before), *axis, &sizes)?;
            let mut ways = Vec::new();
            for (blank, operations) in blank.into_iter().zip(operations) {
                ways.push(forwards(operations, vec![blank], view)?);
            }
            let made = ways.iter().flat_map(|(made, _)| made);
            let made: Vec<u64> = made.filter_map(|array| array.shape().get(*join).copied()).collect();
            let mut parts = Vec::new();
            for ((part, operations), (_, met)) in
                cut(array, *join, &made)?.into_iter().zip(operations).zip(&ways)
            {
                parts.extend(backwards(operations, vec![part], met, view)?);
            }
            Ok(vec![Array::join(*axis, parts)?])
        }
        Operation::Split(axis, _) => Ok(vec![Array::join(*axis, items.to_vec())?]),
        Operation::Concat(axis) => {
            let sizes: Vec<u64> = met.iter().filter_map(|shape| shape.get(*axis).copied()).collect();
            cut(alone(items, operation)?, *axis, &sizes)
        }
        Operation::Stack => {
            let array = alone(items, operation)?;
            let pieces = cut(array, 0, &vec![1; met.len()])?;
            pieces.iter().zip(met).map(|(array, shape)| array.reshape(shape)).collect()
        }
        Operation::Regroup(groups, queries) => {
            let groups = groups.size(view.scope)?;
            let queries = queries.size(view.scope)?;
            items.iter().map(|array| ungroup(array, groups, queries)).collect()
        }
        Operation::SliceRows(from, _) => {
            let from = from.size(view.scope)?;
            let rows = before.first().copied().unwrap_or(0);
            items.iter().map(|array| padded(array, from, rows)).collect()
        }
        Operation::PadRows(_) => {
            let rows = before.first().copied().unwrap_or(0);
            items.iter().map(|array| array.slice(0, 0, rows)).collect()
        }
        Operation::As(_) => items.iter().map(|array| array.reshape(before)).collect(),
    }
}

fn changed(items: &[Array], change: Change) -> Result<Vec<Array>> {
    items.iter().map(|array| array.changed(change)).collect()
}

fn alone<'a>(items: &'a [Array], operation: &Operation) -> Result<&'a Array> {
    match items {
        [one] => Ok(one),
        _ => Err(Error::invalid_argument(format!(
            "`{}` cannot be applied to {} tensors",
            operation.word(),
            items.len()
        ))),
    }
}

/// A number that `multiply` states, as an F32.
#[allow(clippy::cast_possible_truncation, reason = "the product is one of F32 numbers")]
fn factor(by: &Expression, view: View<'_>) -> Result<f32> {
    let what = match by.value(view.scope)? {
        Some(Scalar::Int(n)) if n != 0 => match n.to_string().parse() {
            Ok(factor) => return Ok(factor),
            Err(_) => "is not a number".to_owned(),
        },
        Some(Scalar::Float(x)) if (x as f32).is_finite() && x as f32 != 0.0 => return Ok(x as f32),
        Some(other) => format!("is {other}, which cannot be inverted"),
        None => "depends on a value that the configuration does not state".to_owned(),
    };
    Err(Error::invalid_argument(format!("`multiply({by})` {what}")))
}

/// A multiplication by one number or two, or nothing: by 1, values keep their bits.
fn times(
    by: &Expression,
    then: Option<&Expression>,
    view: View<'_>,
    map: fn(Constant, Constant) -> Map,
) -> Result<Change> {
    let by = factor(by, view)?;
    let then = then.map_or(Ok(1.0), |then| factor(then, view))?;
    Ok(if by == 1.0 && then == 1.0 { Change::default() } else { Change::maps(map(by.into(), then.into())) })
}

fn permuted(array: &Array, axes: &[usize]) -> Result<Array> {
    let n = array.shape().len();
    match n == axes.len() {
        true => array.permute(axes),
        false => Err(Error::invalid_argument(format!(
            "a tensor of {n} dimensions does not have {} axes",
            axes.len()
        ))),
    }
}

fn cut(array: &Array, axis: usize, sizes: &[u64]) -> Result<Vec<Array>> {
    let shape = array.shape();
    let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
    if total.is_none() || shape.get(axis).copied() != total {
        let message = format!("the sizes {sizes:?} do not add up to axis {axis} of {shape:?}");
        return Err(Error::invalid_argument(message));
    }
    let mut from = 0;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        parts.push(array.slice(axis, from, from + size)?);
        from += size;
    }
    Ok(parts)
}

fn with_first(array: &Array) -> Result<Array> {
    let mut shape = array.shape();
    shape.insert(0, 1);
    array.reshape(&shape)
}

fn transpose(array: &Array) -> Result<Array> {
    let n = array.shape().len();
    if n < 2 {
        return Err(Error::invalid_argument(format!("a tensor of {n} dimensions cannot be transposed")));
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.swap(n - 1, n - 2);
    array.permute(&order)
}

/// The shape with its rows divided into these sizes.
fn with_rows(sizes: &[u64], shape: &[u64]) -> Vec<u64> {
    [sizes, shape.get(1..).unwrap_or_default()].concat()
}

/// Rearranges the rows of each head from halves to neighbours, or back.
fn turn_rows(array: &Array, heads: u64, to_neighbours: bool) -> Result<Array> {
    let shape = array.shape();
    let rows = shape.first().copied().unwrap_or(0);
    if heads == 0 || rows % heads != 0 || !(rows / heads).is_multiple_of(2) {
        let message = format!("{rows} rows cannot be split into {heads} heads of two halves");
        return Err(Error::invalid_argument(message));
    }
    let half = rows / heads / 2;
    let seen = with_rows(&if to_neighbours { [heads, 2, half] } else { [heads, half, 2] }, &shape);
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..seen.len()).collect();
    array.reshape(&seen)?.permute(&order)?.reshape(&shape)
}

/// Rearranges rows of `[groups, queries + 2, d]` to all queries, keys, values.
fn regroup(array: &Array, groups: u64, queries: u64) -> Result<Array> {
    let shape = array.shape();
    let d = rows_of_head(&shape, groups, queries)?;
    let seen = array.reshape(&with_rows(&[groups, queries + 2, d], &shape))?;
    let mut parts = Vec::new();
    for (from, n) in [(0, queries), (queries, 1), (queries + 1, 1)] {
        let part = seen.slice(1, from, from + n)?;
        parts.push(part.reshape(&with_rows(&[groups * n * d], &shape))?);
    }
    Array::join(0, parts)
}

/// Rearranges all queries, keys, values to rows of `[groups, queries + 2, d]`.
fn ungroup(array: &Array, groups: u64, queries: u64) -> Result<Array> {
    let shape = array.shape();
    let d = rows_of_head(&shape, groups, queries)?;
    let mut parts = Vec::new();
    for (from, n) in [(0, queries), (queries, 1), (queries + 1, 1)] {
        let part = array.slice(0, from * groups * d, (from + n) * groups * d)?;
        parts.push(part.reshape(&with_rows(&[groups, n, d], &shape))?);
    }
    Array::join(1, parts)?.reshape(&shape)
}

/// Number of rows of each of the heads in `groups` groups of queries, a key and a value.
fn rows_of_head(shape: &[u64], groups: u64, queries: u64) -> Result<u64> {
    let rows = shape.first().copied().unwrap_or(0);
    let heads = queries.checked_add(2).and_then(|each| groups.checked_mul(each));
    match heads.filter(|heads| *heads > 0 && rows % heads == 0) {
        Some(heads) => Ok(rows / heads),
        None => Err(Error::invalid_argument(format!(
            "{rows} rows cannot be split into {groups} groups of {queries} queries, a key and a value"
        ))),
    }
}

/// The array with zeros before and after: `rows` in total, the array's beginning at `from`.
fn padded(array: &Array, from: u64, rows: u64) -> Result<Array> {
    let shape = array.shape();
    let have = shape.first().copied().unwrap_or(0);
    let behind = rows.checked_sub(have).and_then(|n| n.checked_sub(from));
    let behind = behind.ok_or_else(|| {
        Error::invalid_argument(format!("expected {rows} rows from row {from}, found {have}"))
    })?;
    let mut parts = Vec::new();
    if from > 0 {
        parts.push(Array::zeros(&with_rows(&[from], &shape)));
    }
    parts.push(array.clone());
    if behind > 0 {
        parts.push(Array::zeros(&with_rows(&[behind], &shape)));
    }
    Array::join(0, parts)
}
