//! Behaviour of Python's values in a template where the library's differ: which are sequences, what can be iterated,
//! how floats are printed, what filters make of a value that is none of theirs.

use super::iterating::iterated;
use super::source::{ITERATED, PLUS};
use minijinja::value::{
    Kwargs, Object, ObjectRepr, Rest, StringInput, Value, ValueKind, ValueOrKwargs, from_args,
};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;

/// Bytes written that cost a step.
const BYTES_OF_STEP: usize = 64;

/// A float that Python prints with an exponent, or as `nan` or `inf`.
#[derive(Debug)]
pub struct Float(f64);

impl Float {
    /// The value of a number of JSON.
    pub fn value(number: f64) -> Value {
        if shown(number).contains(['e', 'n']) {
            Value::from_object(Float(number))
        } else {
            Value::from(number)
        }
    }

    /// The number in a value that was made so.
    pub fn of(value: &Value) -> Option<f64> {
        value.downcast_object_ref::<Float>().map(|float| float.0)
    }
}

impl Object for Float {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.0 != 0.0
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.0))
    }
}

/// A float as Python prints it: with the fewest digits, with an exponent from 17 digits on.
pub fn shown(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 if number.fract() == 0.0 => format!("{number:.1}"),
        -4..16 => number.to_string(),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// Adds tests and filters to an environment.
pub fn add(environment: &mut Environment<'_>) {
    environment.add_test("iterable", |value: &Value| is_iterable(value));
    environment.add_test("sequence", |value: &Value| is_sequence(value));
    environment.add_test("callable", is_callable);
    // A bool of Python is a number.
    environment.add_test("number", |value: &Value| {
        is_float(value) || value.is_number() || value.kind() == ValueKind::Bool
    });
    environment.add_test("float", |value: &Value| is_float(value));
    environment.add_test("even", |value: &Value| Ok::<_, Error>(remainder(value, &Value::from(2))? == 0));
    environment.add_test("odd", |value: &Value| Ok::<_, Error>(remainder(value, &Value::from(2))? == 1));
    environment
        .add_test("divisibleby", |value: &Value, by: &Value| Ok::<_, Error>(remainder(value, by)? == 0));
    environment.add_filter(ITERATED, iterated);
    environment.add_filter(PLUS, plus);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    for name in ["e", "escape"] {
        environment.add_filter(name, escaped);
    }
    environment.add_filter("indent", indented);
    environment.add_filter("wordcount", |text: String| text.split_whitespace().count());
    environment.add_filter("string", string);
    environment.add_filter("trim", trim);
    environment.set_formatter(|out, state, value| escape_formatter(out, state, &printed(value)));
}

/// Returns whether the character is white space, as `str.isspace` of Python has it.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// A float of any origin as one that prints like Python's.
fn printed(value: &Value) -> Cow<'_, Value> {
    match f64::try_from(value.clone()) {
        Ok(number) if value.is_number() && !value.is_integer() => Cow::Owned(Float::value(number)),
        _ => Cow::Borrowed(value),
    }
}

fn string(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    filters::string(state, &printed(value))
}

fn trim(value: StringInput<'_>, chars: Option<Cow<'_, str>>) -> Value {
    match chars {
        Some(chars) => filters::trim(value, Some(chars)),
        None => {
            let trimmed = value.as_str().trim_matches(is_space).to_owned();
            value.preserve_safety(trimmed)
        }
    }
}

/// Returns whether Python iterates the value; asking takes nothing out of a generator.
pub fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), String | Seq | Map | Iterable | Undefined)
}

/// The error for a value that Python does not iterate.
pub fn not_iterable(value: &Value) -> Error {
    wrong(format!("{} is not iterable", value.kind()))
}

/// Returns whether the value has a length and can be indexed, as texts and maps of Python can.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
}

/// Returns whether the value can be called: a function, or what is undefined, whose call fails.
fn is_callable(value: &Value) -> bool {
    value.is_undefined() || (value.kind() == ValueKind::Plain && Float::of(value).is_none())
}

fn is_float(value: &Value) -> bool {
    Float::of(value).is_some() || (value.is_number() && !value.is_integer())
}

fn remainder(value: &Value, by: &Value) -> Result<i64, Error> {
    let numbers = i64::try_from(value.clone())?.checked_rem_euclid(i64::try_from(by.clone())?);
    numbers.ok_or_else(|| wrong("division by zero".to_owned()))
}

/// `int`, which gives a default for what is no number.
fn int(
    state: &State<'_, '_>,
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(named.get("base")?);
    named.assert_all_used()?;
    let value = Float::of(value).map_or_else(|| value.clone(), Value::from);
    filters::int(state, &value, Some(default), base, Kwargs::from_iter([] as [(&str, Value); 0]))
}

/// `float`, likewise.
fn float(
    state: &State<'_, '_>,
    value: &Value,
    default: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0.0));
    named.assert_all_used()?;
    match Float::of(value) {
        Some(_) => Ok(value.clone()),
        None => filters::float(state, value, Some(default), Kwargs::from_iter([] as [(&str, Value); 0])),
    }
}

/// A text with the entities that Python's `markupsafe` writes.
fn escaped(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let text = value.to_string();
    pay(state, text.len())?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}

/// The sum of two values, one of which may be a text marked as safe: the other is escaped then.
fn plus(state: &State<'_, '_>, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(first), Some(second)) = (a.as_str(), b.as_str()) {
        pay(state, first.len() + second.len())?;
        if !a.is_safe() && !b.is_safe() {
            return Ok(Value::from(format!("{first}{second}")));
        }
        let (a, b) = (escaped(state, &a)?, escaped(state, &b)?);
        return Ok(Value::from_safe_string(format!("{a}{b}")));
    }
    if a.kind() == ValueKind::Seq && b.kind() == ValueKind::Seq {
        let all: Vec<Value> = a.try_iter()?.chain(b.try_iter()?).collect();
        state.consume_fuel(u64::try_from(all.len()).unwrap_or(u64::MAX))?;
        return Ok(Value::from(all));
    }
    if a.is_integer() && b.is_integer() {
        let sum = i64::try_from(a)?.checked_add(i64::try_from(b)?);
        return sum.map(Value::from).ok_or_else(|| wrong("the sum is too large".to_owned()));
    }
    if a.is_number() && b.is_number() {
        return Ok(Value::from(f64::try_from(a)? + f64::try_from(b)?));
    }
    Err(wrong(format!("{} and {} cannot be added", a.kind(), b.kind())))
}

/// `indent`: a line feed at the end stays.
fn indented(state: &State<'_, '_>, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let given: Vec<Value> = given.0.into_iter().map(Value::from).collect();
    let (text, width, first, blank, named): (Value, Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&given)?;
    let text = text.as_str().ok_or_else(|| wrong(format!("{} cannot be indented", text.kind())))?;
    let width = width.or(named.get("width")?).unwrap_or_else(|| Value::from(4));
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let spaces = if width.as_str().is_some() { 0 } else { usize::try_from(width.clone())? };
    let lines = text.split('\n').count();
    pay(state, lines.saturating_mul(spaces.max(width.as_str().map_or(0, str::len))))?;
    let indention = width.as_str().map_or_else(|| " ".repeat(spaces), str::to_owned);
    let mut out = String::with_capacity(text.len());
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        if if n == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indention);
        }
        let _ = out.write_str(line);
    }
    Ok(out)
}

/// Charges for what is about to be written.
fn pay(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(1 + u64::try_from(bytes / BYTES_OF_STEP).unwrap_or(u64::MAX))
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_by_python() {
        for (number, text) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (1e100, "1e+100"),
            (0.0, "0.0"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(shown(number), text);
        }
    }
}
