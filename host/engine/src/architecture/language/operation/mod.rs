//! The operations of architecture tables, on lists of arrays: forwards (from canonical to a dialect) and
//! backwards.

mod steps;
#[cfg(test)]
mod tests;

pub use steps::{View, backwards, forwards};

use crate::architecture::language::expression::Expression;
use crate::architecture::language::members::{bad, each, list};
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, Result, escape};
use toml::{Table as Toml, Value as Item};

/// One operation. The set is closed: a new one must be needed by two architectures.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Rows of each head, viewed as `[2, d/2]`, become `[d/2, 2]`: from halves to neighbours.
    PermuteRope(Expression),
    /// Swaps the last two axes.
    Transpose,
    /// Swaps axes: axis `n` of the result is this one.
    Permute(Vec<usize>),
    /// Adds a constant to every value.
    Add(f64),
    /// −exp of every value.
    NegExp,
    /// exp of every value.
    Exp,
    /// The nearest of three levels for every value: zero, and the mean distance to zero on either side. If a condition is stated that
    /// does not hold, values stay.
    Ternary(Option<Expression>),
    /// Multiplies every value, and the products by a second number if there is one.
    Multiply(Expression, Option<Expression>),
    /// Cuts along an axis into parts of these sizes, works on each, and joins them again, along another axis if that is
    /// stated second.
    Parts(usize, usize, Vec<Expression>, Vec<Vec<Operation>>),
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
        let axis = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong("requires an axis number"));
        Ok(match (name, &arguments[..]) {
            ("permute_rope", [heads]) => Operation::PermuteRope(Expression::parse(heads)?),
            ("transpose", []) => Operation::Transpose,
            ("add", [c]) => Operation::Add(c.trim().parse().map_err(|_| wrong("requires a number"))?),
            ("split", [at, sizes @ ..]) if sizes.len() > 1 => {
                Operation::Split(axis(at)?, expressions(sizes)?)
            }
            ("permute", axes @ [_, ..]) => {
                let axes: Vec<usize> = axes.iter().map(|at| axis(at)).collect::<Result<_>>()?;
                if (0..axes.len()).any(|at| !axes.contains(&at)) {
                    return Err(wrong("requires each axis exactly once"));
                }
                Operation::Permute(axes)
            }
            ("neg_exp", []) => Operation::NegExp,
            ("exp", []) => Operation::Exp,
            ("ternary", []) => Operation::Ternary(None),
            ("ternary", [when]) => Operation::Ternary(Some(Expression::parse(when)?)),
            ("multiply", [by]) => Operation::Multiply(Expression::parse(by)?, None),
            ("multiply", [by, then]) => {
                Operation::Multiply(Expression::parse(by)?, Some(Expression::parse(then)?))
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
            ("as", shape @ [_, ..]) => Operation::As(expressions(shape)?),
            _ => return Err(wrong("is unknown, or its arguments are wrong")),
        })
    }

    /// Reads a list of operations: texts, and tables `{ parts, join, sizes, each }`.
    ///
    /// # Errors
    /// As [`Operation::parse`]; InvalidArgument for tables with other members.
    pub fn read(items: Option<&Item>) -> Read<Vec<Operation>> {
        each(items, |item| match item {
            Item::String(text) => Ok(Operation::parse(text)?),
            Item::Table(toml) => Operation::parts(toml),
            other => Err(bad("an operation", other).into()),
        })
    }

    fn parts(toml: &Toml) -> Read<Operation> {
        if let Some(key) = toml.keys().find(|key| !["parts", "join", "sizes", "each"].contains(&key.as_str()))
        {
            return Err(wrong_parts()).within(key.as_str());
        }
        let axis = axis_of_parts(toml, "parts").within("parts")?;
        let join = axis_of_parts(toml, "join").within("join")?;
        let lists = toml.get("each").filter(|lists| lists.is_array()).ok_or_else(wrong_parts)?;
        let lists = each(Some(lists), |operations| Operation::read(Some(operations))).within("each")?;
        list(toml, "sizes")?;
        let sizes = each(toml.get("sizes"), |size| Ok(Expression::parse(size.as_str().unwrap_or_default())?));
        let sizes = sizes.within("sizes")?;
        match axis {
            Some(axis) if sizes.len() == lists.len() && sizes.len() > 1 => {
                Ok(Operation::Parts(axis, join.unwrap_or(axis), sizes, lists))
            }
            _ => Err(wrong_parts().into()),
        }
    }

    /// Its name, for the plan.
    pub fn word(&self) -> &'static str {
        match self {
            Operation::PermuteRope(_) => "permute",
            Operation::Transpose => "transpose",
            Operation::Permute(_) => "permute",
            Operation::Add(_) => "add",
            Operation::NegExp => "neg_exp",
            Operation::Exp => "exp",
            Operation::Ternary(_) => "ternary",
            Operation::Multiply(..) => "multiply",
            Operation::Parts(..) => "parts",
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
            Operation::Ternary(when) => when.iter().collect(),
            Operation::Multiply(one, other) => std::iter::once(one).chain(other).collect(),
            Operation::Parts(_, _, sizes, each) => {
                sizes.iter().chain(each.iter().flatten().flat_map(Operation::expressions)).collect()
            }
            Operation::Regroup(one, other) | Operation::SliceRows(one, other) => vec![one, other],
            Operation::Split(_, sizes) | Operation::As(sizes) => sizes.iter().collect(),
            Operation::Transpose
            | Operation::Permute(_)
            | Operation::Add(_)
            | Operation::NegExp
            | Operation::Exp
            | Operation::Concat(_)
            | Operation::Stack => Vec::new(),
        }
    }

    /// Whether it reorders values within a row, or changes them: impossible on blocks.
    pub fn needs_values(&self) -> bool {
        match self {
            Operation::Transpose
            | Operation::Add(_)
            | Operation::NegExp
            | Operation::Exp
            | Operation::Ternary(_)
            | Operation::Multiply(..) => true,
            Operation::Permute(axes) => axes.last().is_some_and(|last| last + 1 != axes.len()),
            _ => false,
        }
    }
}

fn wrong_parts() -> Error {
    Error::invalid_argument(
        "operations on parts require `parts` (an axis) and one of `sizes` for each entry of `each`",
    )
}

fn axis_of_parts(toml: &Toml, key: &str) -> Result<Option<usize>> {
    let Some(axis) = toml.get(key) else { return Ok(None) };
    let axis = axis.as_integer().and_then(|axis| usize::try_from(axis).ok());
    axis.map(Some).ok_or_else(wrong_parts)
}

fn expressions(texts: &[&str]) -> Result<Vec<Expression>> {
    texts.iter().map(|text| Expression::parse(text)).collect()
}

/// The arguments of a call, split at commas outside of parentheses.
fn arguments(inside: &str) -> Result<Vec<&str>> {
    let mut depth = 0i32;
    let mut begin = 0;
    let mut out = Vec::new();
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
