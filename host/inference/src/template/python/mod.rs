//! Behaviour of Python's values in a template where the library's differ: which are sequences, what can be iterated,
//! how floats are printed, what filters make of a value that is none of theirs.

mod attributes;
pub mod iterating;
pub mod methods;
pub mod objects;
pub mod operators;
mod percent;
mod sizes;
mod texts;
pub mod values;

use crate::template::python::iterating::{iterated, looped};
use crate::template::python::objects::{MAX_RANGE, Range, View};
use crate::template::python::values::{Number, Type, name_of, represented, text};
use crate::template::source::ITERATED;
use minijinja::value::{
    Kwargs, Object, ObjectRepr, Rest, StringInput, Value, ValueKind, ValueOrKwargs, from_args,
};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters, tests};
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
    environment.add_test("mapping", |value: &Value| Type::of(value) == Type::Map);
    // A bool of Python is a number.
    environment.add_test("number", |value: &Value| {
        is_float(value) || value.is_number() || value.kind() == ValueKind::Bool
    });
    environment.add_test("float", |value: &Value| is_float(value));
    environment.add_test("even", |value: &Value| Ok::<_, Error>(remainder(value, &Value::from(2))? == 0));
    environment.add_test("odd", |value: &Value| Ok::<_, Error>(remainder(value, &Value::from(2))? == 1));
    environment
        .add_test("divisibleby", |value: &Value, by: &Value| Ok::<_, Error>(remainder(value, by)? == 0));
    environment.add_filter(ITERATED, looped);
    environment.add_filter("abs", absolute);
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    environment.add_filter("round", round);
    environment.add_filter("pprint", pprint);
    environment.add_filter("center", |state: &State<'_, '_>, value: &Value, width: Option<i64>| {
        crate::template::python::texts::call(
            state,
            &text(value)?,
            "center",
            &[Value::from(width.unwrap_or(80))],
        )
    });
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("attr", |value: &Value, name: &str| {
        crate::template::python::attributes::attribute_alone(value, name)
    });
    environment.add_function("range", range);
    environment.add_function("dict", dict);
    environment.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_test("filter", |state: &State<'_, '_>, value: &Value| {
        value.as_str().is_some_and(|name| !name.starts_with("apr_") && tests::is_filter(state, name))
    });
    environment.add_test("test", |state: &State<'_, '_>, value: &Value| {
        value.as_str().is_some_and(|name| tests::is_test(state, name))
    });
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    for name in ["e", "escape"] {
        environment.add_filter(name, escaped);
    }
    environment.add_filter("indent", indented);
    environment.add_filter("wordcount", |text: String| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count()
    });
    environment.add_filter("string", string);
    environment.add_filter("trim", trim);
    sizes::add(environment);
    environment.set_formatter(|out, state, value| match Type::of(value) {
        Type::Text | Type::Undefined => escape_formatter(out, state, value),
        _ => escape_formatter(out, state, &Value::from(text(value)?)),
    });
}

/// Returns whether the character is white space, as `str.isspace` of Python has it.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn string(value: &Value) -> Result<Value, Error> {
    if value.is_safe() { Ok(value.clone()) } else { text(value).map(Value::from) }
}

fn pprint(value: &Value) -> Result<String, Error> {
    /// The longest text of one line.
    const LINE: usize = 80;
    let line = represented(value, true)?;
    if line.chars().count() > LINE {
        return Err(wrong("`pprint` of a value longer than one line is not supported".to_owned()));
    }
    Ok(line)
}

fn dictsort(
    value: &Value,
    case_sensitive: Option<bool>,
    by: Option<&str>,
    reverse: Option<bool>,
    named: Kwargs,
) -> Result<Value, Error> {
    let case_sensitive = case_sensitive.or(named.get("case_sensitive")?).unwrap_or(false);
    let by = by.map(str::to_owned).or(named.get("by")?).unwrap_or_else(|| "key".to_owned());
    let reverse = reverse.or(named.get("reverse")?).unwrap_or(false);
    named.assert_all_used()?;
    let arguments = [
        ("case_sensitive", Value::from(case_sensitive)),
        ("by", Value::from(by)),
        ("reverse", Value::from(reverse)),
    ];
    filters::dictsort(value, Kwargs::from_iter(arguments))
}

fn absolute(value: &Value) -> Result<Value, Error> {
    match Number::of(value) {
        Some(Number::Whole(whole)) => Ok(Number::Whole(whole.saturating_abs()).value()),
        Some(Number::Float(float)) => Ok(Float::value(float.abs())),
        None => Err(wrong(format!("{} has no absolute value", value.kind()))),
    }
}

fn round(value: &Value, precision: Option<i32>, method: Option<&str>, named: Kwargs) -> Result<Value, Error> {
    let precision = precision.or(named.get("precision")?);
    let method = method.map(str::to_owned).or(named.get("method")?);
    named.assert_all_used()?;
    let number = Number::of(value).ok_or_else(|| wrong(format!("{} cannot be rounded", value.kind())))?;
    let method = method.unwrap_or_else(|| "common".to_owned());
    let places = precision.unwrap_or(0);
    let rounded = match (&*method, number) {
        ("common", Number::Whole(_)) if places >= 0 => return Ok(number.value()),
        ("common", Number::Float(float)) if places >= 0 => {
            // The digits of a float are those of Python's: the nearest, and the even one of two.
            let digits = usize::try_from(places).unwrap_or(0).min(400);
            format!("{float:.digits$}").parse().unwrap_or(float)
        }
        ("common", _) => {
            let unit = 10f64.powi(-places);
            let scaled = number.float() / unit;
            let rounded = scaled.round_ties_even() * unit;
            if let Number::Whole(_) = number {
                #[allow(clippy::cast_possible_truncation, reason = "a whole number, rounded")]
                return Ok(Number::Whole(rounded as i128).value());
            }
            rounded
        }
        ("ceil" | "floor", _) => {
            let unit = 10f64.powi(places);
            let scaled = number.float() * unit;
            (if method == "ceil" { scaled.ceil() } else { scaled.floor() }) / unit
        }
        _ => return Err(wrong("the rounding method must be `common`, `ceil` or `floor`".to_owned())),
    };
    Ok(Float::value(rounded))
}

fn default(
    value: &Value,
    other: Option<Value>,
    boolean: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let other = other.or(named.get("default_value")?).unwrap_or_else(|| Value::from(""));
    let boolean = boolean.or(named.get("boolean")?).is_some_and(|boolean| boolean.is_true());
    named.assert_all_used()?;
    Ok(if value.is_undefined() || boolean && !value.is_true() { other } else { value.clone() })
}

fn bound_of_range(value: &Value) -> Result<i64, Error> {
    match Number::of(value) {
        Some(Number::Whole(whole)) => {
            i64::try_from(whole).map_err(|_| wrong("the range is too large".to_owned()))
        }
        _ => Err(wrong(format!("{} is not a valid bound of a range", value.kind()))),
    }
}

fn range(
    state: &State<'_, '_>,
    first: &Value,
    second: Option<Value>,
    step: Option<Value>,
) -> Result<Value, Error> {
    let (start, stop) = match &second {
        Some(second) => (bound_of_range(first)?, bound_of_range(second)?),
        None => (0, bound_of_range(first)?),
    };
    let step = step.as_ref().map_or(Ok(1), bound_of_range)?;
    if step == 0 {
        return Err(wrong("the step of a range cannot be 0".to_owned()));
    }
    let range = Range { start, stop, step };
    if range.count() > MAX_RANGE {
        return Err(wrong(format!(
            "the range is too large: {} numbers, more than the limit of {MAX_RANGE}",
            range.count()
        )));
    }
    pay(state, 0)?;
    Ok(Value::from_object(range))
}

fn dict(given: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    if let Some(given) = given {
        let is_map = Type::of(&given) == Type::Map;
        for item in iterated(given.clone())?.try_iter()? {
            pairs.push(match is_map {
                true => (item.clone(), given.get_item(&item)?),
                false if item.len() == Some(2) => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
                false => return Err(wrong("a map must be made from pairs".to_owned())),
            });
        }
    }
    for name in named.args() {
        let value: Value = named.get(name)?;
        pairs.retain(|(key, _)| key.as_str() != Some(name));
        pairs.push((Value::from(name), value));
    }
    Ok(Value::from_pairs(pairs))
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
    match value.kind() {
        Map => Type::of(value) == Type::Map || name_of(value) == "Loop",
        kind => matches!(kind, String | Seq | Iterable | Undefined),
    }
}

/// The error for a value that Python does not iterate.
pub fn not_iterable(value: &Value) -> Error {
    wrong(format!("{} is not iterable", value.kind()))
}

/// Returns whether the value has a length and can be indexed, as texts and maps of Python can.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Map => Type::of(value) == Type::Map,
        ValueKind::Seq | ValueKind::String | ValueKind::Undefined => {
            value.downcast_object_ref::<View>().is_none()
        }
        _ => false,
    }
}

/// Returns whether the value can be called: a function, a macro, a loop, or what is undefined, whose call fails.
fn is_callable(value: &Value) -> bool {
    match (value.kind(), name_of(value)) {
        (ValueKind::Undefined, _) | (_, "Macro" | "Loop") => true,
        (ValueKind::Plain, name) => Float::of(value).is_none() && name != "Cycler",
        _ => false,
    }
}

fn is_float(value: &Value) -> bool {
    Float::of(value).is_some() || (value.is_number() && !value.is_integer())
}

fn remainder(value: &Value, by: &Value) -> Result<i64, Error> {
    let numbers = i64::try_from(value.clone())?.checked_rem_euclid(i64::try_from(by.clone())?);
    numbers.ok_or_else(|| wrong("division by zero".to_owned()))
}

/// A float without its fraction; `None` for what is no number.
fn whole_part(float: f64) -> Result<Option<i128>, Error> {
    /// Above it, a float is not the whole number of these bits.
    const MOST: f64 = 1e38;
    if float.is_nan() {
        return Ok(None);
    }
    if float.abs() > MOST {
        return Err(wrong("the number is too large".to_owned()));
    }
    #[allow(clippy::cast_possible_truncation, reason = "the fraction is what is taken off")]
    Ok(Some(float.trunc() as i128))
}

/// `int`, which gives a default for what is no number.
fn int(value: &Value, default: Option<Value>, base: Option<u32>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    let whole = match (Number::of(value), value.as_str()) {
        (Some(Number::Whole(whole)), _) => Some(whole),
        (Some(Number::Float(float)), _) => whole_part(float)?,
        (None, Some(text)) => match (whole_of(text, base), float_of(text)) {
            (Some(whole), _) => Some(whole),
            (None, Some(float)) if float.is_finite() => whole_part(float)?,
            _ => None,
        },
        _ if value.is_undefined() => {
            return Err(Error::new(ErrorKind::UndefinedError, "expected a number"));
        }
        _ => None,
    };
    Ok(whole.map_or(default, |whole| Number::Whole(whole).value()))
}

/// The digits of a number as Python reads it: white space around it and single underscores between digits say nothing.
fn digits_of(text: &str) -> Option<String> {
    let text = text.trim_matches(is_space);
    let odd = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!odd).then(|| text.replace('_', ""))
}

fn whole_of(text: &str, base: u32) -> Option<i128> {
    let text = digits_of(text)?.to_lowercase();
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
        None => (1, &*text),
    };
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&base) {
        return None;
    }
    i128::from_str_radix(digits, base).ok().map(|whole| sign * whole)
}

fn float_of(text: &str) -> Option<f64> {
    digits_of(text)?.parse().ok()
}

/// `float`, likewise.
fn float(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0.0));
    named.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "expected a number"));
    }
    let float = Number::of(value).map(Number::float).or_else(|| float_of(value.as_str()?));
    Ok(float.map_or(default, Float::value))
}

/// A text with the entities that Python's `markupsafe` writes.
pub fn escaped(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
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
pub fn plus(state: &State<'_, '_>, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(first), Some(second)) = (a.as_str(), b.as_str()) {
        pay(state, first.len() + second.len())?;
        if !a.is_safe() && !b.is_safe() {
            return Ok(Value::from(format!("{first}{second}")));
        }
        let a = escaped(state, &a)?;
        let b = escaped(state, &b)?;
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
pub fn pay(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(1 + u64::try_from(bytes / BYTES_OF_STEP).unwrap_or(u64::MAX))
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

#[cfg(test)]
mod unit {
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
