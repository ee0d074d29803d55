//! Evaluates expressions.

use super::{Function, Logic, Node, Operator, Scalar, Scope, same};
use apr_sdk::{Error, Result};

/// Items of a list that `each` makes: layers, with room to spare.
const MOST_ITEMS: i64 = 1 << 12;

/// The value of a node; `None` if a name in it has no value.
///
/// # Errors
/// InvalidArgument for operands of the wrong kind, inexact division, or overflow.
pub(super) fn evaluate(node: &Node, scope: &dyn Scope) -> Result<Option<Scalar>> {
    Ok(match node {
        Node::Constant(value) => Some(value.clone()),
        Node::Name(name) => scope.value(name)?,
        Node::Defined(name) => Some(Scalar::Bool(scope.stated(name))),
        Node::Dimension(tensor, axis) => {
            scope.dimension(tensor, *axis).and_then(|n| i64::try_from(n).ok()).map(Scalar::Int)
        }
        Node::If(condition, then, otherwise) => match is_true(evaluate(condition, scope)?.as_ref()) {
            true => evaluate(then, scope)?,
            false => evaluate(otherwise, scope)?,
        },
        Node::Item(list, at) => match (evaluate(list, scope)?, evaluate(at, scope)?) {
            (Some(Scalar::List(items)), Some(Scalar::Int(n))) => {
                usize::try_from(n).ok().and_then(|n| items.get(n).cloned())
            }
            // A value that is the same for every layer may stand for a list.
            (Some(other), Some(Scalar::Int(_))) => Some(other),
            _ => None,
        },
        Node::List(items) => {
            let items: Option<Vec<Scalar>> =
                items.iter().map(|item| item_of_list(item, scope)).collect::<Result<_>>()?;
            items.map(Scalar::List)
        }
        Node::First(items) => {
            for item in items {
                if let Some(value) = evaluate(item, scope)? {
                    return Ok(Some(value));
                }
            }
            None
        }
        Node::Each(variable, n, of) => match evaluate(n, scope)? {
            Some(Scalar::Int(n)) if (0..=MOST_ITEMS).contains(&n) => {
                let items = (0..n).map(|i| item_of_list(of, &Local { variable, value: i, inner: scope }));
                let items: Option<Vec<Scalar>> = items.collect::<Result<_>>()?;
                items.map(Scalar::List)
            }
            Some(other) => {
                return Err(Error::invalid_argument(format!("`each` cannot make a list of {other} items")));
            }
            None => None,
        },
        Node::Where(variable, n, of) => match evaluate(n, scope)? {
            Some(Scalar::Int(n)) if (0..=MOST_ITEMS).contains(&n) => {
                let mut found = Vec::new();
                for i in 0..n {
                    scope.spend(1)?;
                    let local = Local { variable, value: i, inner: scope };
                    if is_true(evaluate(of, &local)?.as_ref()) {
                        found.push(Scalar::Int(i));
                    }
                }
                Some(Scalar::List(found))
            }
            Some(other) => {
                return Err(Error::invalid_argument(format!("`where` cannot check {other} positions")));
            }
            None => None,
        },
        Node::Not(a) => Some(Scalar::Bool(!is_true(evaluate(a, scope)?.as_ref()))),
        Node::Logic(logic, a, b) => {
            let first = is_true(evaluate(a, scope)?.as_ref());
            Some(Scalar::Bool(match logic {
                Logic::And => first && is_true(evaluate(b, scope)?.as_ref()),
                Logic::Or => first || is_true(evaluate(b, scope)?.as_ref()),
            }))
        }
        Node::Unary(function, a) => match evaluate(a, scope)? {
            Some(a) => Some(unary(*function, &a)?),
            None => None,
        },
        Node::Binary(operator, a, b) => match (evaluate(a, scope)?, evaluate(b, scope)?) {
            (Some(a), Some(b)) => Some(binary(*operator, &a, &b)?),
            _ => None,
        },
    })
}

/// The value of a list's item, which counts.
fn item_of_list(node: &Node, scope: &dyn Scope) -> Result<Option<Scalar>> {
    let item = evaluate(node, scope)?;
    scope.spend(item.as_ref().map_or(1, Scalar::size))?;
    Ok(item)
}

/// Whether a condition's value means that it holds.
pub(super) fn is_true(value: Option<&Scalar>) -> bool {
    match value {
        Some(Scalar::Bool(truth)) => *truth,
        Some(Scalar::Int(n)) => *n != 0,
        _ => false,
    }
}

/// A scope with the variable of an `each`.
struct Local<'a> {
    variable: &'a str,
    value: i64,
    inner: &'a dyn Scope,
}

impl Scope for Local<'_> {
    fn value(&self, name: &str) -> Result<Option<Scalar>> {
        if name == self.variable { Ok(Some(Scalar::Int(self.value))) } else { self.inner.value(name) }
    }
    fn stated(&self, name: &str) -> bool {
        name == self.variable || self.inner.stated(name)
    }
    fn dimension(&self, tensor: &str, axis: usize) -> Option<u64> {
        self.inner.dimension(tensor, axis)
    }
    fn spend(&self, items: usize) -> Result<()> {
        self.inner.spend(items)
    }
}

/// All integers up to this are exact as floats: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn unary(function: Function, a: &Scalar) -> Result<Scalar> {
    if function == Function::Length {
        return Ok(match a {
            Scalar::List(items) => count(items.len()),
            Scalar::Text(text) => count(text.chars().count()),
            // As in `list[i]`: one value stands for a list of it.
            _ => count(1),
        });
    }
    if let Function::Largest | Function::Smallest = function {
        let Scalar::List(items) = a else { return Ok(a.clone()) };
        let operator = if function == Function::Largest { Operator::Max } else { Operator::Min };
        let mut items = items.iter().cloned();
        let first = items.next().ok_or_else(|| Error::invalid_argument("an empty list has no maximum"))?;
        return items.try_fold(first, |most, item| binary(operator, &most, &item));
    }
    let x = float(a).ok_or_else(|| Error::invalid_argument(format!("{a} is not a number")))?;
    let value = match function {
        Function::Floor => return whole(x.floor(), a),
        Function::Ceiling => return whole(x.ceil(), a),
        // As Python rounds: ties to even.
        Function::Round => return whole(x.round_ties_even(), a),
        Function::SquareRoot => x.sqrt(),
        Function::Logarithm => x.ln(),
        Function::Exponential | Function::Length | Function::Largest | Function::Smallest => x.exp(),
    };
    match value.is_finite() {
        true => Ok(Scalar::Float(value)),
        false => Err(Error::invalid_argument(format!("{a} has no such item"))),
    }
}

/// A whole float as an integer; it was rounded from `a`.
fn whole(x: f64, a: &Scalar) -> Result<Scalar> {
    match x.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
        true => Ok(Scalar::Int(x as i64)),
        false => Err(Error::invalid_argument(format!("{a} is too large"))),
    }
}

fn count(n: usize) -> Scalar {
    Scalar::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// What operators on texts and lists give; `None` for those on numbers.
fn of_items(operator: Operator, a: &Scalar, b: &Scalar) -> Result<Option<Scalar>> {
    Ok(Some(match (operator, a, b) {
        (Operator::Character, Scalar::Text(text), Scalar::Int(n)) => {
            let found = usize::try_from(*n).ok().and_then(|n| text.chars().nth(n));
            let found = found.ok_or_else(|| Error::invalid_argument(format!("{a} has no character {n}")))?;
            Scalar::Text(found.to_string())
        }
        (Operator::Contains, Scalar::List(items), _) => Scalar::Bool(items.iter().any(|item| same(item, b))),
        (Operator::Contains, Scalar::Text(text), Scalar::Text(part)) => Scalar::Bool(text.contains(part)),
        (Operator::Count, Scalar::List(items), _) => count(items.iter().filter(|item| same(item, b)).count()),
        (Operator::Count, Scalar::Text(text), Scalar::Text(part)) => count(text.matches(part).count()),
        // Where it is not, its index is behind the last.
        (Operator::Index, Scalar::List(items), _) => {
            count(items.iter().position(|item| same(item, b)).unwrap_or(items.len()))
        }
        (Operator::Join, Scalar::List(items), Scalar::Text(between)) => {
            let texts = items.iter().map(|item| match item {
                Scalar::Text(text) => text.clone(),
                other => other.to_string(),
            });
            Scalar::Text(texts.collect::<Vec<_>>().join(between))
        }
        (Operator::Numbers, Scalar::Text(text), Scalar::Text(between)) if !between.is_empty() => {
            let mut numbers = Vec::new();
            for part in text.split(between.as_str()).map(str::trim).filter(|part| !part.is_empty()) {
                let number = part.parse().map(Scalar::Int).map_err(|_| {
                    Error::invalid_argument(format!("{a} contains an item that is not an integer"))
                });
                numbers.push(number?);
            }
            Scalar::List(numbers)
        }
        (
            Operator::Character
            | Operator::Contains
            | Operator::Count
            | Operator::Index
            | Operator::Join
            | Operator::Numbers,
            ..,
        ) => {
            return Err(Error::invalid_argument(format!(
                "{a} is not a string or a list that could contain {b}"
            )));
        }
        _ => return Ok(None),
    }))
}

fn binary(operator: Operator, a: &Scalar, b: &Scalar) -> Result<Scalar> {
    use Operator::{
        Add, AtMost, Divide, DivideDown, Equal, Greater, Less, Max, Min, Multiply, Power, Remainder,
        Subtract, Unequal,
    };
    if let Some(value) = of_items(operator, a, b)? {
        return Ok(value);
    }
    match operator {
        Equal => return Ok(Scalar::Bool(same(a, b))),
        Unequal => return Ok(Scalar::Bool(!same(a, b))),
        _ => {}
    }
    if let (Scalar::Int(a), Scalar::Int(b)) = (a, b)
        && operator != Power
    {
        let overflow = || Error::invalid_argument("integer overflow");
        return Ok(match operator {
            Add => Scalar::Int(a.checked_add(*b).ok_or_else(overflow)?),
            Subtract => Scalar::Int(a.checked_sub(*b).ok_or_else(overflow)?),
            Multiply => Scalar::Int(a.checked_mul(*b).ok_or_else(overflow)?),
            Divide => match (a.checked_rem(*b), a.checked_div(*b)) {
                (Some(0), Some(n)) => Scalar::Int(n),
                _ => return Err(Error::invalid_argument(format!("{a} is not a multiple of {b}"))),
            },
            Remainder => Scalar::Int(a.checked_rem_euclid(*b).ok_or_else(|| {
                Error::invalid_argument(format!("the remainder of {a} divided by {b} is undefined"))
            })?),
            DivideDown => match a.checked_div_euclid(*b) {
                Some(n) if *b > 0 => Scalar::Int(n),
                _ => return Err(Error::invalid_argument(format!("{a} cannot be divided by {b}"))),
            },
            Min => Scalar::Int(*a.min(b)),
            Max => Scalar::Int(*a.max(b)),
            Less => Scalar::Bool(a < b),
            AtMost => Scalar::Bool(a <= b),
            Greater => Scalar::Bool(a > b),
            _ => Scalar::Bool(a >= b),
        });
    }
    let (Some(x), Some(y)) = (float(a), float(b)) else {
        return Err(Error::invalid_argument(format!("{a} and {b} are not both numbers")));
    };
    Ok(match operator {
        Add => Scalar::Float(x + y),
        Subtract => Scalar::Float(x - y),
        Multiply => Scalar::Float(x * y),
        Divide => Scalar::Float(x / y),
        Power => match x.powf(y) {
            power if power.is_finite() => Scalar::Float(power),
            _ => return Err(Error::invalid_argument(format!("{a} to the power of {b} is not a number"))),
        },
        Remainder | DivideDown => {
            return Err(Error::invalid_argument(format!("{a} and {b} are not both integers")));
        }
        Min => Scalar::Float(x.min(y)),
        Max => Scalar::Float(x.max(y)),
        Less => Scalar::Bool(x < y),
        AtMost => Scalar::Bool(x <= y),
        Greater => Scalar::Bool(x > y),
        _ => Scalar::Bool(x >= y),
    })
}

/// The number as a float; exact for integers up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^53")]
pub(super) fn float(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(n) => Some(*n as f64),
        Scalar::Float(x) => Some(*x),
        _ => None,
    }
}
