//! The operations of architecture tables, on lists of arrays: forwards (from canonical to a dialect) and
//! backwards.

use crate::architecture::table::array::Array;
use crate::architecture::table::expression::{Expression, Scope};
use apr_sdk::{Error, Result, escape};

/// One operation. The set is closed: a new one must be needed by two architectures.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Rows of each head, viewed as `[2, d/2]`, become `[d/2, 2]`: from halves to neighbours.
    PermuteRope(Expression),
    /// Swaps the last two axes.
    Transpose,
    /// Adds a constant to every value.
    Add(f64),
    /// Splits one array along an axis into parts of these sizes.
    Split(usize, Vec<Expression>),
    /// Joins all arrays along an axis.
    Concat(usize),
    /// Joins all arrays along a new first axis.
    Stack,
    /// Rows of `[groups, queries + 2, d]` become all queries, then all keys, then all values.
    Regroup(Expression, Expression),
    /// Keeps these rows; backwards, the others are zeros.
    SliceRows(Expression, Expression),
    /// Pads with zeros to so many rows.
    PadRows(Expression),
    /// Reshapes, keeping the row-major order.
    As(Vec<Expression>),
}

impl Operation {
    /// Parses `name` or `name(argument, ...)`.
    ///
    /// # Errors
    /// InvalidArgument for an unknown operation or wrong arguments.
    pub fn parse(text: &str) -> Result<Operation> {
        let wrong =
            |what: &str| Error::invalid_argument(format!("the operation `{}` {what}", escape(text, 200)));
        let text = text.trim();
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(|| wrong("has no closing parenthesis"))?;
                (name.trim(), arguments(inside)?)
            }
            None => (text, Vec::new()),
        };
        let axis =
            |text: &str| text.trim().parse::<usize>().map_err(|_| wrong("needs the number of an axis"));
        let parse = |text: &&str| Expression::parse(text);
        Ok(match (name, &arguments[..]) {
            ("permute_rope", [heads]) => Operation::PermuteRope(Expression::parse(heads)?),
            ("transpose", []) => Operation::Transpose,
            ("add", [c]) => Operation::Add(c.trim().parse().map_err(|_| wrong("needs a number"))?),
            ("split", [at, sizes @ ..]) if sizes.len() > 1 => {
                Operation::Split(axis(at)?, sizes.iter().map(parse).collect::<Result<_>>()?)
            }
            ("concat", [at]) => Operation::Concat(axis(at)?),
            ("stack", []) => Operation::Stack,
            ("regroup", [groups, queries]) => {
                Operation::Regroup(Expression::parse(groups)?, Expression::parse(queries)?)
            }
            ("slice_rows", [from, to]) => {
                Operation::SliceRows(Expression::parse(from)?, Expression::parse(to)?)
            }
            ("pad_rows", [to]) => Operation::PadRows(Expression::parse(to)?),
            ("as", shape @ [_, ..]) => Operation::As(shape.iter().map(parse).collect::<Result<_>>()?),
            _ => return Err(wrong("is unknown, or has other arguments")),
        })
    }

    /// Its name, for the plan.
    pub fn word(&self) -> &'static str {
        match self {
            Operation::PermuteRope(_) => "permute",
            Operation::Transpose => "transpose",
            Operation::Add(_) => "add",
            Operation::Split(..) => "split",
            Operation::Concat(_) => "concat",
            Operation::Stack => "stack",
            Operation::Regroup(..) => "regroup",
            Operation::SliceRows(..) => "slice",
            Operation::PadRows(_) => "pad",
            Operation::As(_) => "as",
        }
    }

    /// The expressions among its arguments.
    pub fn expressions(&self) -> Vec<&Expression> {
        match self {
            Operation::PermuteRope(one) | Operation::PadRows(one) => vec![one],
            Operation::Regroup(one, other) | Operation::SliceRows(one, other) => vec![one, other],
            Operation::Split(_, sizes) | Operation::As(sizes) => sizes.iter().collect(),
            Operation::Transpose | Operation::Add(_) | Operation::Concat(_) | Operation::Stack => Vec::new(),
        }
    }

    /// Whether it reorders values within a row, or changes them: impossible on blocks.
    pub fn needs_values(&self) -> bool {
        matches!(self, Operation::Transpose | Operation::Add(_))
    }
}

/// The arguments of a call, split at commas outside of parentheses.
fn arguments(inside: &str) -> Result<Vec<&str>> {
    let (mut depth, mut begin, mut out) = (0i32, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    out.push(&inside[begin..]);
    if out.iter().any(|argument| argument.trim().is_empty()) {
        return Err(Error::invalid_argument(format!("`{}` has an empty argument", escape(inside, 200))));
    }
    Ok(out)
}

/// An intermediate array, and the constant added to its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The array, in units of its dtype.
    pub array: Array,
    /// The constant to add.
    pub add: f64,
}

impl Item {
    /// An array without anything added.
    pub fn new(array: Array) -> Item {
        Item { array, add: 0.0 }
    }

    fn map(&self, step: impl FnOnce(&Array) -> Result<Array>) -> Result<Item> {
        Ok(Item { array: step(&self.array)?, add: self.add })
    }
}

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
                let message = format!("rows of {last} elements are not whole blocks of {}", self.block);
                return Err(Error::unsupported(message).hint("make it floats first: --dequantize f32"));
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
                return Err(Error::unsupported(format!("{size} elements are not whole blocks of {divisor}"))
                    .hint("make it floats first: --dequantize f32"));
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
    mut items: Vec<Item>,
    view: View<'_>,
) -> Result<(Vec<Item>, Vec<Shapes>)> {
    let mut met = Vec::with_capacity(operations.len());
    for operation in operations {
        met.push(items.iter().map(|item| item.array.shape()).collect());
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
    mut items: Vec<Item>,
    met: &[Shapes],
    view: View<'_>,
) -> Result<Vec<Item>> {
    for (operation, met) in operations.iter().zip(met).rev() {
        items = backward(operation, &items, met, view)?;
    }
    Ok(items)
}

fn forward(operation: &Operation, items: &[Item], view: View<'_>) -> Result<Vec<Item>> {
    if view.block > 1 && operation.needs_values() {
        let message = format!("quantized values cannot be changed by `{}`", operation.word());
        return Err(Error::unsupported(message).hint(
            "make them floats in the format they have first (apr convert MODEL FLOATS --dequantize f32), then convert FLOATS",
        ));
    }
    let each = |step: &dyn Fn(&Array) -> Result<Array>| items.iter().map(|item| item.map(step)).collect();
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            each(&|array| turn_rows(array, heads, true))
        }
        Operation::Transpose => each(&transpose),
        Operation::Add(c) => {
            Ok(items.iter().map(|i| Item { array: i.array.clone(), add: i.add + c }).collect())
        }
        Operation::Split(axis, sizes) => {
            let one = alone(items, operation)?;
            let sizes = view.sizes(sizes, *axis, one.array.shape().len())?;
            cut(one, *axis, &sizes)
        }
        Operation::Concat(axis) => Ok(vec![joined(*axis, items)?]),
        Operation::Stack => {
            let stacked = items.iter().map(|item| item.map(with_first)).collect::<Result<Vec<_>>>()?;
            Ok(vec![joined(0, &stacked)?])
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

fn backward(operation: &Operation, items: &[Item], met: &[Vec<u64>], view: View<'_>) -> Result<Vec<Item>> {
    let before = |n: usize| met.get(n).cloned().unwrap_or_default();
    let each = |step: &dyn Fn(&Array) -> Result<Array>| items.iter().map(|item| item.map(step)).collect();
    match operation {
        Operation::PermuteRope(heads) => {
            let heads = heads.size(view.scope)?;
            each(&|array| turn_rows(array, heads, false))
        }
        Operation::Transpose => forward(operation, items, view),
        Operation::Add(c) => forward(&Operation::Add(-c), items, view),
        Operation::Split(axis, _) => Ok(vec![joined(*axis, items)?]),
        Operation::Concat(axis) => {
            let sizes: Vec<u64> = met.iter().filter_map(|shape| shape.get(*axis).copied()).collect();
            cut(alone(items, operation)?, *axis, &sizes)
        }
        Operation::Stack => {
            let one = alone(items, operation)?;
            let pieces = cut(one, 0, &vec![1; met.len()])?;
            pieces.iter().zip(met).map(|(item, shape)| item.map(|array| array.reshape(shape))).collect()
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

fn alone<'a>(items: &'a [Item], operation: &Operation) -> Result<&'a Item> {
    match items {
        [one] => Ok(one),
        _ => Err(Error::invalid_argument(format!("`{}` meets {} tensors", operation.word(), items.len()))),
    }
}

fn joined(axis: usize, items: &[Item]) -> Result<Item> {
    let add = items.first().map_or(0.0, |item| item.add);
    if items.iter().any(|item| item.add.total_cmp(&add).is_ne()) {
        return Err(Error::invalid_argument("tensors to which different numbers are added cannot be joined"));
    }
    let array = Array::join(axis, items.iter().map(|item| item.array.clone()).collect())?;
    Ok(Item { array, add })
}

fn cut(item: &Item, axis: usize, sizes: &[u64]) -> Result<Vec<Item>> {
    let shape = item.array.shape();
    let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
    if total.is_none() || shape.get(axis).copied() != total {
        let message = format!("parts of {sizes:?} do not make up axis {axis} of {shape:?}");
        return Err(Error::invalid_argument(message));
    }
    let mut from = 0;
    let part = |size: &u64| {
        let part = item.map(|array| array.slice(axis, from, from + size));
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
        let message = format!("{rows} rows are not {heads} heads of two halves");
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
        let message = format!("{rows} rows are not {groups} groups of {queries} queries, a key and a value");
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
        let message = format!("{rows} rows are not {groups} groups of {queries} queries, a key and a value");
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
    let behind = behind
        .ok_or_else(|| Error::invalid_argument(format!("{have} rows do not fit {rows}, from row {from}")))?;
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

#[cfg(test)]
mod tests {
    use super::super::expression::Scalar;
    use super::*;

    struct Nothing;

    impl Scope for Nothing {
        fn value(&self, _name: &str) -> Result<Option<Scalar>> {
            Ok(None)
        }
        fn stated(&self, _name: &str) -> bool {
            false
        }
    }

    const VIEW: View<'static> = View { scope: &Nothing, block: 1 };

    fn operations(texts: &[&str]) -> Vec<Operation> {
        texts.iter().map(|text| Operation::parse(text).unwrap()).collect()
    }

    /// Runs forwards from whole tensors of `shapes`, then backwards from whole tensors of the result: each
    /// member is then made of boxes of the images, and the composition is the identity.
    fn there_and_back(texts: &[&str], shapes: &[&[u64]], images: &[&[u64]]) {
        let operations = operations(texts);
        let whole = |shapes: &[&[u64]]| {
            shapes.iter().enumerate().map(|(n, s)| Item::new(Array::whole(n, s))).collect()
        };
        let (there, met) = forwards(&operations, whole(shapes), VIEW).unwrap();
        let made: Vec<_> = there.iter().map(|item| item.array.shape()).collect();
        assert_eq!(made, images, "{texts:?}");
        let back = backwards(&operations, whole(images), &met, VIEW).unwrap();
        let sizes: Vec<u64> = shapes.iter().map(|s| s.iter().product()).collect();
        // Values of the members: 10000 × member + index.
        let members: Vec<Vec<u64>> =
            sizes.iter().enumerate().map(|(m, n)| (0..*n).map(|u| m as u64 * 10_000 + u).collect()).collect();
        let gather = |array: &Array, from: &[Vec<u64>]| -> Vec<u64> {
            let mut out = Vec::new();
            for one in array.boxes().unwrap() {
                let n: u64 = one.dims.iter().map(|(size, _)| size).product();
                for mut index in 0..n {
                    let mut at = one.start;
                    for (size, stride) in one.dims.iter().rev() {
                        at += index % size * stride;
                        index /= size;
                    }
                    out.push(one.tensor.map_or(0, |t| from[t][usize::try_from(at).unwrap()]));
                }
            }
            out
        };
        let made: Vec<Vec<u64>> = there.iter().map(|item| gather(&item.array, &members)).collect();
        let again: Vec<Vec<u64>> = back.iter().map(|item| gather(&item.array, &made)).collect();
        assert_eq!(again, members, "{texts:?}");
        assert!(back.iter().all(|item| item.add == 0.0 || texts.iter().any(|t| t.starts_with("add"))));
    }

    #[test]
    fn every_operation_is_undone() {
        there_and_back(&["permute_rope(2)"], &[&[8, 3]], &[&[8, 3]]);
        there_and_back(&["permute_rope(4)"], &[&[24]], &[&[24]]);
        there_and_back(&["transpose"], &[&[5, 3]], &[&[3, 5]]);
        there_and_back(&["split(0, 4, 2, 2)"], &[&[8, 3]], &[&[4, 3], &[2, 3], &[2, 3]]);
        there_and_back(&["split(1, 1, 2)"], &[&[4, 3]], &[&[4, 1], &[4, 2]]);
        there_and_back(&["concat(0)"], &[&[2, 3], &[4, 3]], &[&[6, 3]]);
        there_and_back(&["concat(1)"], &[&[2, 3], &[2, 1]], &[&[2, 4]]);
        there_and_back(&["stack"], &[&[2, 3], &[2, 3], &[2, 3]], &[&[3, 2, 3]]);
        there_and_back(&["regroup(2, 3)"], &[&[20, 4]], &[&[20, 4]]);
        there_and_back(&["regroup(3, 1)"], &[&[18]], &[&[18]]);
        there_and_back(&["as(2, 4, 3)"], &[&[8, 3]], &[&[2, 4, 3]]);
        there_and_back(&["pad_rows(8)"], &[&[5, 2]], &[&[8, 2]]);
        there_and_back(&["permute_rope(2)", "stack"], &[&[8, 2], &[8, 2]], &[&[2, 8, 2]]);
        // deepseek's kv_b: (nope, v) rows per head, split, the first transposed.
        let cut = ["as(2, 5, 4)", "split(1, 3, 2)"];
        there_and_back(&cut, &[&[10, 4]], &[&[2, 3, 4], &[2, 2, 4]]);
    }

    #[test]
    fn rows_that_were_cut_come_back_as_zeros() {
        let operations = operations(&["slice_rows(2, 5)"]);
        let whole = vec![Item::new(Array::whole(0, &[5, 2]))];
        let (there, met) = forwards(&operations, whole, VIEW).unwrap();
        assert_eq!(there[0].array.shape(), [3, 2]);
        let back = backwards(&operations, vec![Item::new(Array::whole(0, &[3, 2]))], &met, VIEW).unwrap();
        let boxes = back[0].array.boxes().unwrap();
        assert_eq!(
            boxes.iter().map(|b| (b.tensor, b.dims[0].0)).collect::<Vec<_>>(),
            [(None, 4), (Some(0), 6)]
        );
    }

    #[test]
    fn blocks_allow_rows_to_move_and_nothing_else() {
        let view = View { scope: &Nothing, block: 32 };
        let rows = vec![Item::new(Array::whole(0, &view.units(&[8, 64]).unwrap()))];
        let (turned, _) = forwards(&operations(&["permute_rope(2)"]), rows.clone(), view).unwrap();
        assert_eq!(turned[0].array.shape(), [8, 2]);
        forwards(&operations(&["split(1, 32, 32)"]), rows.clone(), view).unwrap();
        for text in ["transpose", "add(1)", "split(1, 16, 48)", "as(16, 16, 2)"] {
            let error = forwards(&operations(&[text]), rows.clone(), view).unwrap_err();
            assert!(error.hint_text().is_some_and(|h| h.contains("--dequantize")), "{text}: {error:?}");
        }
        view.units(&[4, 48]).unwrap_err();
    }

    #[test]
    fn unknown_operations_and_arguments_are_refused() {
        for text in [
            "",
            "twist",
            "permute_rope",
            "permute_rope()",
            "split(0)",
            "add(x)",
            "as()",
            "stack(1)",
            "transpose(",
        ] {
            Operation::parse(text).unwrap_err();
        }
    }
}
