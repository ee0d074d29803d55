//! The functions that stand for Jinja's operators, attributes, items and slices: see [`crate::template::source::rewriting`].

use crate::template::python::attributes;
use crate::template::python::percent;
use crate::template::python::values::{Number, Type, equal, item_of_map, order, text, wrong};
use crate::template::python::{pay, plus};
use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};
use std::cmp::Ordering;

type Answer = Result<Value, Error>;

/// Adds them to an environment, and the tests that compare.
pub fn add(environment: &mut Environment<'_>) {
    environment.add_function("apr_get", attributes::get);
    environment.add_function("apr_slice", attributes::slice);
    environment.add_function("apr_compare", compare);
    environment.add_function("apr_calculate", calculate);
    environment.add_function("apr_sign", sign);
    environment.add_function("apr_join", join);
    environment.add_function("apr_given", given);
    environment.add_function("apr_unsupported", unsupported);
    environment.add_filter("format", format);
    for (names, operator) in [
        (&["eq", "equalto", "=="][..], "=="),
        (&["ne", "!="], "!="),
        (&["lt", "lessthan", "<"], "<"),
        (&["le", "<="], "<="),
        (&["gt", "greaterthan", ">"], ">"),
        (&["ge", ">="], ">="),
        (&["in"], "in"),
    ] {
        for name in names {
            environment.add_test(*name, move |one: &Value, two: &Value| holds(operator, one, two));
        }
    }
}

fn compare(state: &State<'_, '_>, signs: &str, operands: Rest<Value>) -> Result<bool, Error> {
    pay(state, 0)?;
    for (operator, pair) in signs.split(' ').zip(operands.0.windows(2)) {
        if !holds(operator, &pair[0], &pair[1])? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(operator: &str, one: &Value, two: &Value) -> Result<bool, Error> {
    match operator {
        "==" => equal(one, two),
        "!=" => equal(one, two).map(|equal| !equal),
        "<" => Ok(order(one, two)?.is_some_and(Ordering::is_lt)),
        "<=" => Ok(order(one, two)?.is_some_and(Ordering::is_le)),
        ">" => Ok(order(one, two)?.is_some_and(Ordering::is_gt)),
        ">=" => Ok(order(one, two)?.is_some_and(Ordering::is_ge)),
        "in" => contains(two, one),
        _ => contains(two, one).map(|contains| !contains),
    }
}

/// Whether a container has an item.
fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    match Type::of(container) {
        Type::Text => match item.as_str() {
            Some(part) => Ok(container.as_str().unwrap_or_default().contains(part)),
            None => Err(wrong(format!("expected a string to search for, found {}", item.kind()))),
        },
        Type::Map if [Type::List, Type::Map].contains(&Type::of(item)) => {
            Err(wrong(format!("{} is not a valid key", item.kind())))
        }
        Type::Map => Ok(item_of_map(container, item)?.is_some()),
        Type::Undefined => Ok(false),
        Type::None | Type::Number => Err(wrong(format!("{} is not a container", container.kind()))),
        _ => {
            for other in container.try_iter()? {
                if equal(&other, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

fn calculate(state: &mut State<'_, '_>, signs: &str, operands: Rest<Value>) -> Answer {
    let mut operands = operands.0.into_iter();
    let mut result = operands.next().unwrap_or_default();
    for (sign, operand) in signs.split(' ').zip(operands) {
        result = operate(state, sign, result, operand)?;
    }
    Ok(result)
}

fn operate(state: &mut State<'_, '_>, sign: &str, one: Value, two: Value) -> Answer {
    pay(state, 0)?;
    if let (Some(first), Some(second)) = (Number::of(&one), Number::of(&two)) {
        return numbers(sign, first, second).map(Number::value);
    }
    match (sign, Type::of(&one), Type::of(&two)) {
        ("+", Type::Tuple, Type::Tuple) => {
            let all: Vec<Value> = one.try_iter()?.chain(two.try_iter()?).collect();
            pay(state, all.len() * 64)?;
            Ok(Value::from(Tuple::from(all)))
        }
        ("+", Type::Text, Type::Text) | ("+", Type::List, Type::List) => plus(state, one, two),
        ("*", Type::Text | Type::List | Type::Tuple, Type::Number) => repeated(state, &one, &two),
        ("*", Type::Number, Type::Text | Type::List | Type::Tuple) => repeated(state, &two, &one),
        ("%", Type::Text, _) => {
            percent::format(state, one.as_str().unwrap_or_default(), &two).map(Value::from)
        }
        _ => Err(wrong(format!("unsupported operation: {} {sign} {}", one.kind(), two.kind()))),
    }
}

fn repeated(state: &State<'_, '_>, what: &Value, times: &Value) -> Answer {
    let Some(Number::Whole(times)) = Number::of(times) else {
        return Err(wrong("the repeat count must be an integer".to_owned()));
    };
    let times = usize::try_from(times.max(0)).map_err(|_| wrong("the text is too large".to_owned()))?;
    if let Some(text) = what.as_str() {
        pay(state, text.len().saturating_mul(times))?;
        let text = text.repeat(times);
        return Ok(if what.is_safe() { Value::from_safe_string(text) } else { Value::from(text) });
    }
    let items: Vec<Value> = what.try_iter()?.collect();
    pay(state, items.len().saturating_mul(times).saturating_mul(64))?;
    let all: Vec<Value> = items.iter().cycle().take(items.len() * times).cloned().collect();
    Ok(if what.is_tuple() { Value::from(Tuple::from(all)) } else { Value::from(all) })
}

fn by_zero() -> Error {
    wrong("division by zero".to_owned())
}

fn too_large() -> Error {
    wrong("the number is too large".to_owned())
}

fn numbers(sign: &str, one: Number, two: Number) -> Result<Number, Error> {
    if let (Number::Whole(one), Number::Whole(two)) = (one, two) {
        match sign {
            "+" => return one.checked_add(two).map(Number::Whole).ok_or_else(too_large),
            "-" => return one.checked_sub(two).map(Number::Whole).ok_or_else(too_large),
            "*" => return one.checked_mul(two).map(Number::Whole).ok_or_else(too_large),
            "//" | "%" if two == 0 => return Err(by_zero()),
            "//" => {
                let quotient = one.checked_div(two).ok_or_else(too_large)?;
                let below = one % two != 0 && (one < 0) != (two < 0);
                return Ok(Number::Whole(quotient - i128::from(below)));
            }
            "%" => {
                let rest = one.checked_rem(two).ok_or_else(too_large)?;
                let moves = rest != 0 && (rest < 0) != (two < 0);
                return Ok(Number::Whole(if moves { rest + two } else { rest }));
            }
            "**" if two >= 0 => {
                let exponent = u32::try_from(two).map_err(|_| too_large())?;
                return one.checked_pow(exponent).map(Number::Whole).ok_or_else(too_large);
            }
            _ => {}
        }
    }
    let one = one.float();
    let two = two.float();
    let result = match sign {
        "+" => one + two,
        "-" => one - two,
        "*" => one * two,
        "/" | "//" | "%" if two == 0.0 => return Err(by_zero()),
        "/" => one / two,
        "//" | "%" => {
            let mut rest = one % two;
            let mut quotient = (one - rest) / two;
            if rest != 0.0 && (rest < 0.0) != (two < 0.0) {
                rest += two;
                quotient -= 1.0;
            }
            if sign == "%" {
                if rest == 0.0 { 0.0_f64.copysign(two) } else { rest }
            } else if quotient == 0.0 {
                0.0_f64.copysign(one / two)
            } else {
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
        }
        "**" => {
            if one == 0.0 && two < 0.0 {
                return Err(by_zero());
            }
            let power = one.powf(two);
            if power.is_nan() && !one.is_nan() && !two.is_nan() || power.is_infinite() && one.is_finite() {
                return Err(too_large());
            }
            power
        }
        _ => return Err(wrong(format!("unsupported operator `{sign}`"))),
    };
    Ok(Number::Float(result))
}

fn sign(sign: &str, value: &Value) -> Answer {
    match (Number::of(value), sign) {
        (Some(Number::Whole(whole)), "-") => {
            whole.checked_neg().map(|whole| Number::Whole(whole).value()).ok_or_else(too_large)
        }
        (Some(Number::Float(float)), "-") => Ok(Number::Float(-float).value()),
        (Some(number), _) => Ok(number.value()),
        (None, _) => Err(wrong(format!("{} is not a number", value.kind()))),
    }
}

/// `~`: the texts of all.
fn join(state: &State<'_, '_>, operands: Rest<Value>) -> Result<String, Error> {
    let mut out = String::new();
    for operand in &operands.0 {
        let own = text(operand)?;
        pay(state, own.len())?;
        out.push_str(&own);
    }
    Ok(out)
}

/// The arguments that a macro was given beyond its parameters: those before the first that is undefined.
fn given(all: Rest<Value>) -> Value {
    Value::from(Tuple::from(all.0.into_iter().take_while(|one| !one.is_undefined()).collect::<Vec<_>>()))
}

/// The filter `format`: as `%`, with its arguments for a tuple or a map.
fn format(state: &State<'_, '_>, format: &Value, arguments: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let format = text(format)?;
    let arguments: Vec<Value> = arguments.0.into_iter().map(Value::from).collect();
    let given = match arguments.last().filter(|last| last.is_kwargs()) {
        Some(named) if arguments.len() == 1 => {
            let named = Kwargs::try_from(named.clone())?;
            let pairs = named.args().map(|name| Ok((name.to_owned(), named.get::<Value>(name)?)));
            Value::from_pairs(pairs.collect::<Result<Vec<_>, Error>>()?)
        }
        Some(_) => {
            return Err(wrong("a format takes either positional or named values, not both".to_owned()));
        }
        None => Value::from(Tuple::from(arguments)),
    };
    percent::format(state, &format, &given)
}

/// What a template asks for that is not here: found when the template is prepared.
fn unsupported(what: &str) -> Answer {
    Err(Error::new(ErrorKind::UnknownFunction, format!("{what} is not supported")))
}
