//! Values as Python has them: what they are called in print, when they are equal, which of two is less.

use crate::template::python::objects::{Method, Range, View};
use crate::template::python::{Float, shown};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::cmp::Ordering;
use std::fmt::Write;

/// Nesting of lists. 100, as for JSON.
const MAX_DEPTH: usize = 100;

/// A number, which a bool of Python is too.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole number.
    Whole(i128),
    /// A float.
    Float(f64),
}

impl Number {
    /// The number that a value is.
    pub fn of(value: &Value) -> Option<Number> {
        if let Some(float) = Float::of(value) {
            return Some(Number::Float(float));
        }
        match value.kind() {
            ValueKind::Bool => Some(Number::Whole(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Whole),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
            _ => None,
        }
    }

    /// The float nearest to it.
    #[allow(clippy::cast_precision_loss, reason = "Python rounds as well")]
    pub fn float(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Float(float) => float,
        }
    }

    /// The value that is this number.
    pub fn value(self) -> Value {
        match self {
            Number::Whole(whole) => i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from),
            Number::Float(float) => Float::value(float),
        }
    }

    fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(one), Number::Whole(two)) => Some(one.cmp(&two)),
            (one, two) => one.float().partial_cmp(&two.float()),
        }
    }
}

/// What a value is to Python, as far as its operators tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// What is not defined.
    Undefined,
    /// `None`.
    None,
    /// A number or a bool.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// A tuple.
    Tuple,
    /// A range of numbers.
    Range,
    /// A map, or another object with names.
    Map,
    /// Anything else.
    Other,
}

impl Type {
    /// The type of a value.
    pub fn of(value: &Value) -> Type {
        if value.downcast_object_ref::<Range>().is_some() {
            return Type::Range;
        }
        if value.downcast_object_ref::<View>().is_some() {
            return Type::Other;
        }
        match value.kind() {
            ValueKind::Undefined => Type::Undefined,
            ValueKind::None => Type::None,
            ValueKind::String => Type::Text,
            ValueKind::Seq if value.is_tuple() || name_of(value) == "GroupTuple" => Type::Tuple,
            ValueKind::Seq => Type::List,
            // What the library has not put together yet.
            ValueKind::Iterable if value.len().is_some() => Type::List,
            ValueKind::Map if !is_object(value) => Type::Map,
            _ if Number::of(value).is_some() => Type::Number,
            _ => Type::Other,
        }
    }
}

/// The name of the library's type behind a value that is none of Python's.
pub fn name_of(value: &Value) -> &'static str {
    let whole = value.as_object().map_or("", |object| object.type_name());
    whole.rsplit("::").next().unwrap_or(whole)
}

/// Whether a map is one of the objects that templates have beside values.
fn is_object(value: &Value) -> bool {
    ["Namespace", "Macro", "Loop", "Module"].contains(&name_of(value))
}

/// Whether two values are equal.
///
/// # Errors
/// InvalidOperation for values that nest too deep.
pub fn equal(one: &Value, two: &Value) -> Result<bool, Error> {
    equal_at(one, two, 0)
}

fn equal_at(one: &Value, two: &Value, depth: usize) -> Result<bool, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let (Some(one), Some(two)) = (Number::of(one), Number::of(two)) {
        return Ok(one.order(two) == Some(Ordering::Equal));
    }
    let kind = Type::of(one);
    if kind != Type::of(two) {
        return Ok(false);
    }
    match kind {
        Type::Text => Ok(one.as_str() == two.as_str()),
        Type::List | Type::Tuple | Type::Range => {
            let one: Vec<Value> = one.try_iter()?.collect();
            let two: Vec<Value> = two.try_iter()?.collect();
            if one.len() != two.len() {
                return Ok(false);
            }
            for (one, two) in one.iter().zip(&two) {
                if !equal_at(one, two, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Type::Map => {
            if one.len() != two.len() {
                return Ok(false);
            }
            for key in one.try_iter()? {
                let Some(other) = item_of_map(two, &key)? else { return Ok(false) };
                if !equal_at(&one.get_item(&key)?, &other, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Type::Undefined | Type::None => Ok(true),
        Type::Number => Ok(one == two),
        Type::Other => match (one.downcast_object_ref::<Method>(), two.downcast_object_ref::<Method>()) {
            (Some(one), Some(two)) => {
                Ok(one.name == two.name && equal_at(&one.value, &two.value, depth + 1)?)
            }
            _ => Ok(one == two),
        },
    }
}

/// What a map has for a key: numbers that are equal are one key.
///
/// # Errors
/// Any error from the map.
pub fn item_of_map(map: &Value, key: &Value) -> Result<Option<Value>, Error> {
    let found = map.get_item(key)?;
    if !found.is_undefined() {
        return Ok(Some(found));
    }
    for other in map.try_iter()? {
        let same = match (other.as_str(), key.as_str()) {
            (Some(other), Some(key)) => other == key,
            _ => equal(&other, key)?,
        };
        if same {
            return map.get_item(&other).map(Some);
        }
    }
    Ok(None)
}

/// Which of two values is less; `None` for what is not a number.
///
/// # Errors
/// InvalidOperation for values that Python does not order.
pub fn order(one: &Value, two: &Value) -> Result<Option<Ordering>, Error> {
    order_at(one, two, 0)
}

fn order_at(one: &Value, two: &Value, depth: usize) -> Result<Option<Ordering>, Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let (Some(one), Some(two)) = (Number::of(one), Number::of(two)) {
        return Ok(one.order(two));
    }
    match (Type::of(one), Type::of(two)) {
        (Type::Text, Type::Text) => Ok(Some(one.as_str().cmp(&two.as_str()))),
        (Type::List, Type::List) | (Type::Tuple, Type::Tuple) => {
            let one: Vec<Value> = one.try_iter()?.collect();
            let two: Vec<Value> = two.try_iter()?.collect();
            for (one, two) in one.iter().zip(&two) {
                if !equal_at(one, two, depth + 1)? {
                    return order_at(one, two, depth + 1);
                }
            }
            Ok(Some(one.len().cmp(&two.len())))
        }
        _ => Err(wrong(format!("{} and {} cannot be ordered", one.kind(), two.kind()))),
    }
}

/// A value as Python prints it.
///
/// # Errors
/// Unsupported for what Python prints with its place in memory.
pub fn text(value: &Value) -> Result<String, Error> {
    match Type::of(value) {
        Type::Text => Ok(value.as_str().unwrap_or_default().to_owned()),
        Type::Undefined => Ok(String::new()),
        _ => {
            let mut out = String::new();
            push(&mut out, value, 0, false)?;
            Ok(out)
        }
    }
}

/// A value as Python prints it inside of others; with the keys of maps in order for `pprint`.
///
/// # Errors
/// As [`text`].
pub fn represented(value: &Value, sorted: bool) -> Result<String, Error> {
    let mut out = String::new();
    push(&mut out, value, 0, sorted)?;
    Ok(out)
}

fn push(out: &mut String, value: &Value, depth: usize, sorted: bool) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let Some(range) = value.downcast_object_ref::<Range>() {
        let _ = write!(out, "{range}");
        return Ok(());
    }
    if let Some(view) = value.downcast_object_ref::<View>() {
        let _ = write!(out, "dict_{}(", view.name);
        list(out, &view.items, ["[", "]"], depth, sorted)?;
        out.push(')');
        return Ok(());
    }
    if let Some(number) = Number::of(value) {
        match (value.kind(), number) {
            (ValueKind::Bool, _) => out.push_str(if value.is_true() { "True" } else { "False" }),
            (_, Number::Whole(whole)) => drop(write!(out, "{whole}")),
            (_, Number::Float(float)) => out.push_str(&shown(float)),
        }
        return Ok(());
    }
    match Type::of(value) {
        Type::Undefined => out.push_str("Undefined"),
        Type::None => out.push_str("None"),
        Type::Text if value.is_safe() => {
            out.push_str("Markup(");
            quoted(out, value.as_str().unwrap_or_default());
            out.push(')');
        }
        Type::Text => quoted(out, value.as_str().unwrap_or_default()),
        Type::List => list(out, &value.try_iter()?.collect::<Vec<_>>(), ["[", "]"], depth, sorted)?,
        Type::Tuple => {
            let items: Vec<Value> = value.try_iter()?.collect();
            list(out, &items, ["(", if items.len() == 1 { ",)" } else { ")" }], depth, sorted)?;
        }
        Type::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if sorted {
                keys.sort();
            }
            out.push('{');
            for (n, key) in keys.iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                push(out, key, depth + 1, sorted)?;
                out.push_str(": ");
                push(out, &value.get_item(key)?, depth + 1, sorted)?;
            }
            out.push('}');
        }
        _ => other(out, value, depth)?,
    }
    Ok(())
}

/// Prints what templates have beside values.
fn other(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    match name_of(value) {
        // Of several, the order in which they were set is not known.
        "Namespace" if value.len().unwrap_or(0) < 2 => {
            out.push_str("<Namespace {");
            for key in value.try_iter()? {
                push(out, &key, depth + 1, false)?;
                out.push_str(": ");
                push(out, &value.get_item(&key)?, depth + 1, false)?;
            }
            out.push_str("}>");
            Ok(())
        }
        "Macro" => {
            let name = value.get_attr("name")?;
            out.push_str("<Macro ");
            push(out, &name, depth + 1, false)?;
            out.push('>');
            Ok(())
        }
        _ if value.kind() == ValueKind::Bytes => Err(wrong("bytes cannot be printed".to_owned())),
        _ => {
            let what = match value.downcast_object_ref::<Method>() {
                Some(method) => format!("the method `{}`", method.name),
                None => "an object".to_owned(),
            };
            Err(wrong(format!("{what} cannot be printed: call it, or use one of its attributes")))
        }
    }
}

fn list(
    out: &mut String,
    items: &[Value],
    marks: [&str; 2],
    depth: usize,
    sorted: bool,
) -> Result<(), Error> {
    out.push_str(marks[0]);
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        push(out, item, depth + 1, sorted)?;
    }
    out.push_str(marks[1]);
    Ok(())
}

/// Writes a text in quotes.
fn quoted(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == mark => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                let _ = match u32::from(c) {
                    n @ 0..0x100 => write!(out, "\\x{n:02x}"),
                    n @ 0x100..0x1_0000 => write!(out, "\\u{n:04x}"),
                    n => write!(out, "\\U{n:08x}"),
                };
            }
        }
    }
    out.push(mark);
}

/// Whether Python prints the character in quotes as it is. Rust has the same list; it escapes marks at the start of a text alone.
pub fn is_printable(c: char) -> bool {
    let pair: String = ['a', c].iter().collect();
    c.is_ascii_graphic() || c == ' ' || !c.is_ascii() && !pair.escape_debug().any(|c| c == '{')
}

fn too_deep() -> Error {
    wrong("values nest too deep".to_owned())
}

/// An error of a value that an operation is not for.
pub fn wrong(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}
