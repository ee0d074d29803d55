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
        let size = |expression: &Expression| {
            let size = expression.size(self.scope)?;
            if size % divisor != 0 {
                return Err(Error::unsupported(format!(
                    "{size} elements are not a multiple of the block size {divisor}"
                ))
                .hint("dequantize it first: --dequantize f32"));
            }
            Ok(size / divisor)
        };
        sizes.iter().map(size).collect()
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
    if view.block > 1 && operation.needs_values() {
        let message = format!("quantized values cannot be changed by `{}`", operation.word());
        return Err(Error::unsupported(message).hint(
            "dequantize it in its own format first (apr convert MODEL FLOATS --dequantize f32), then \
             convert FLOATS",
        ));
    }
    let each = |step: &dyn Fn(&Array) -> Result<Array>| items.iter().map(step).collect();
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            each(&|array| turn_rows(array, heads, true))
        }
        Operation::Transpose => each(&transpose),
        Operation::Permute(axes) => each(&|array| permuted(array, axes)),
        Operation::Add(c) => each(&|array| array.changed(Change::adds(*c))),
        Operation::NegExp => each(&|array| array.changed(Change::maps(Map::NegExp))),
        Operation::Exp => each(&|array| array.changed(Change::maps(Map::Exp))),
        Operation::Multiply(by, then) => {
            let times = times(by, then.as_ref(), view, Map::Times)?;
            each(&|array| array.changed(times))
        }
        Operation::Parts(axis, join, sizes, operations) => {
            let one = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, one.shape().len())?;
            let mut parts = Vec::new();
            for (part, operations) in cut(one, *axis, &sizes)?.into_iter().zip(operations) {
                parts.extend(forwards(operations, vec![part], view)?.0);
            }
            Ok(vec![Array::join(*join, parts)?])
        }
        Operation::Split(axis, sizes) => {
            let one = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, one.shape().len())?;
            cut(one, *axis, &sizes)
        }
        Operation::Concat(axis) => Ok(vec![Array::join(*axis, items.to_vec())?]),
        Operation::Stack => {
            let stacked = items.iter().map(with_first).collect::<Result<Vec<_>>>()?;
            Ok(vec![Array::join(0, stacked)?])
        }
        Operation::Regroup(groups, queries) => {
            let (groups, queries) = (groups.size(view.scope)?, queries.size(view.scope)?);
            each(&|array| regroup(array, groups, queries))
        }
        Operation::SliceRows(from, to) => {
            let (from, to) = (from.size(view.scope)?, to.size(view.scope)?);
            each(&|array| array.slice(0, from, to))
        }
        Operation::PadRows(to) => {
            let to = to.size(view.scope)?;
            each(&|array| padded(array, 0, to))
        }
        Operation::As(shape) => {
            let shape = view.shape(shape)?;
            each(&|array| array.reshape(&shape))
        }
    }
}

fn backward(operation: &Operation, items: &[Array], met: &[Vec<u64>], view: View<'_>) -> Result<Vec<Array>> {
    let before = |n: usize| met.get(n).cloned().unwrap_or_default();
    let each = |step: &dyn Fn(&Array) -> Result<Array>| items.iter().map(step).collect();
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            each(&|array| turn_rows(array, heads, false))
        }
        Operation::Transpose => forward(operation, items, view),
        Operation::Permute(axes) => {
            let mut back = vec![0; axes.len()];
            axes.iter().enumerate().for_each(|(to, &from)| back[from] = to);
            each(&|array| permuted(array, &back))
        }
        Operation::Add(c) => forward(&Operation::Add(-c), items, view),
        Operation::NegExp => each(&|array| array.changed(Change::maps(Map::LnNeg))),
        Operation::Exp => each(&|array| array.changed(Change::maps(Map::Ln))),
        Operation::Multiply(by, then) => {
            let over = times(by, then.as_ref(), view, Map::Over)?;
            each(&|array| array.changed(over))
        }
        Operation::Parts(axis, join, sizes, operations) => {
            let one = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, before(0).len())?;
            // Run forwards with empty arrays, to learn the shapes along the way.
            let blank = cut(&Array::zeros(&before(0)), *axis, &sizes)?;
            let mut ways = Vec::new();
            for (blank, operations) in blank.into_iter().zip(operations) {
                ways.push(forwards(operations, vec![blank], view)?);
            }
            let made = ways.iter().flat_map(|(made, _)| made);
            let made: Vec<u64> = made.filter_map(|array| array.shape().get(*join).copied()).collect();
            let mut parts = Vec::new();
            for ((part, operations), (_, met)) in
                cut(one, *join, &made)?.into_iter().zip(operations).zip(&ways)
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
            let one = alone(items, operation)?;
            let pieces = cut(one, 0, &vec![1; met.len()])?;
            pieces.iter().zip(met).map(|(array, shape)| array.reshape(shape)).collect()
        }
        Operation::Regroup(groups, queries) => {
            let (groups, queries) = (groups.size(view.scope)?, queries.size(view.scope)?);
            each(&|array| ungroup(array, groups, queries))
        }
        Operation::SliceRows(from, _) => {
            let from = from.size(view.scope)?;
            let rows = before(0).first().copied().unwrap_or(0);
            each(&|array| padded(array, from, rows))
        }
        Operation::PadRows(_) => {
            let rows = before(0).first().copied().unwrap_or(0);
            each(&|array| array.slice(0, 0, rows))
        }
        Operation::As(_) => {
            let shape = before(0);
            each(&|array| array.reshape(&shape))
        }
    }
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
    let wrong = |what: String| Error::invalid_argument(format!("`multiply({by})` {what}"));
    let undone = |x: &f32| x.is_finite() && *x != 0.0;
    match by.value(view.scope)? {
        Some(Scalar::Int(n)) if n != 0 => {
            n.to_string().parse().map_err(|_| wrong("is not a number".to_owned()))
        }
        Some(Scalar::Float(x)) if undone(&(x as f32)) => Ok(x as f32),
        Some(other) => Err(wrong(format!("is {other}, which cannot be inverted"))),
        None => Err(wrong("depends on a value that the configuration does not state".to_owned())),
    }
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
    let part = |size: &u64| {
        let part = array.slice(axis, from, from + size);
        from += size;
        part
    };
    sizes.iter().map(part).collect()
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

/// Rearranges the rows of each head from halves to neighbours, or back.
fn turn_rows(array: &Array, heads: u64, to_neighbours: bool) -> Result<Array> {
    let shape = array.shape();
    let rows = shape.first().copied().unwrap_or(0);
    if heads == 0 || rows % heads != 0 || !(rows / heads).is_multiple_of(2) {
        let message = format!("{rows} rows cannot be split into {heads} heads of two halves");
        return Err(Error::invalid_argument(message));
    }
    let half = rows / heads / 2;
    let (a, b) = if to_neighbours { (2, half) } else { (half, 2) };
    let mut seen = vec![heads, a, b];
    seen.extend(&shape[1..]);
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..seen.len()).collect();
    array.reshape(&seen)?.permute(&order)?.reshape(&shape)
}

/// Rearranges rows of `[groups, queries + 2, d]` to all queries, keys, values.
fn regroup(array: &Array, groups: u64, queries: u64) -> Result<Array> {
    let shape = array.shape();
    let (rows, each) = (shape.first().copied().unwrap_or(0), queries + 2);
    if groups == 0 || rows % (groups * each) != 0 {
        let message = format!(
            "{rows} rows cannot be split into {groups} groups of {queries} queries, a key and a value"
        );
        return Err(Error::invalid_argument(message));
    }
    let d = rows / (groups * each);
    let seen: Vec<u64> = [groups, each, d].into_iter().chain(shape[1..].iter().copied()).collect();
    let seen = array.reshape(&seen)?;
    let part = |from: u64, to: u64| {
        let part = seen.slice(1, from, to)?;
        let rows = groups * (to - from) * d;
        part.reshape(&[rows].into_iter().chain(shape[1..].iter().copied()).collect::<Vec<_>>())
    };
    Array::join(0, vec![part(0, queries)?, part(queries, queries + 1)?, part(queries + 1, each)?])
}

/// Rearranges all queries, keys, values to rows of `[groups, queries + 2, d]`.
fn ungroup(array: &Array, groups: u64, queries: u64) -> Result<Array> {
    let shape = array.shape();
    let (rows, each) = (shape.first().copied().unwrap_or(0), queries + 2);
    if groups == 0 || rows % (groups * each) != 0 {
        let message = format!(
            "{rows} rows cannot be split into {groups} groups of {queries} queries, a key and a value"
        );
        return Err(Error::invalid_argument(message));
    }
    let d = rows / (groups * each);
    let part = |from: u64, n: u64| {
        let part = array.slice(0, from * groups * d, (from + n) * groups * d)?;
        part.reshape(&[groups, n, d].into_iter().chain(shape[1..].iter().copied()).collect::<Vec<_>>())
    };
    Array::join(1, vec![part(0, queries)?, part(queries, 1)?, part(queries + 1, 1)?])?.reshape(&shape)
}

/// The array with zeros before and after: `rows` in total, the array's beginning at `from`.
fn padded(array: &Array, from: u64, rows: u64) -> Result<Array> {
    let shape = array.shape();
    let have = shape.first().copied().unwrap_or(0);
    let behind = rows.checked_sub(have).and_then(|n| n.checked_sub(from));
    let behind = behind.ok_or_else(|| {
        Error::invalid_argument(format!("expected {rows} rows from row {from}, found {have}"))
    })?;
    let zeros = |n: u64| Array::zeros(&[n].into_iter().chain(shape[1..].iter().copied()).collect::<Vec<_>>());
    let mut parts = Vec::new();
    if from > 0 {
        parts.push(zeros(from));
    }
    parts.push(array.clone());
    if behind > 0 {
        parts.push(zeros(behind));
    }
    Array::join(0, parts)
}
