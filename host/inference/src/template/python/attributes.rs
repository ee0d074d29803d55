//! Attributes, items and slices, as Jinja's sandbox finds them: an attribute is a method before it is a key, an item the reverse,
//! and what would change a list or a map is undefined.

use crate::template::python::objects::{Method, Range};
use crate::template::python::values::{Number, Type, item_of_map, name_of, wrong};
use minijinja::value::{Rest, Tuple, Value};
use minijinja::{Error, ErrorKind, State};

type Answer = Result<Value, Error>;

const OF_TEXTS: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const OF_MAPS: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const CHANGING_MAPS: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const OF_LISTS: [&str; 3] = ["copy", "count", "index"];
const CHANGING_LISTS: [&str; 8] = ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const OF_TUPLES: [&str; 2] = ["count", "index"];
const OF_WHOLE: [&str; 7] =
    ["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "is_integer", "to_bytes"];
const OF_FLOATS: [&str; 5] = ["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];

/// What a value has of its own under a name.
enum Own {
    Value(Value),
    /// It would change the value.
    Unsafe,
    Nothing,
}

/// `a.b['c']`: a sign for each step, what it starts from, and the names and keys.
pub fn get(signs: &str, operands: Rest<Value>) -> Answer {
    let mut operands = operands.0.into_iter();
    let mut value = operands.next().unwrap_or_default();
    for (sign, key) in signs.split(' ').zip(operands) {
        value = match sign {
            "." => attribute(&value, key.as_str().unwrap_or_default())?,
            _ => item(&value, &key)?,
        };
    }
    Ok(value)
}

/// The attribute of a value.
///
/// # Errors
/// UndefinedError for what is not defined.
pub fn attribute(value: &Value, name: &str) -> Answer {
    match (own(value, name), Type::of(value)) {
        (_, Type::Undefined) => Err(undefined(name)),
        (Own::Value(own), _) => Ok(own),
        (Own::Unsafe, _) => Ok(Value::UNDEFINED),
        (Own::Nothing, Type::Map) => Ok(item_of_map(value, &Value::from(name))?.unwrap_or_default()),
        (Own::Nothing, Type::Other) if name_of(value) == "Macro" && name != "name" => {
            Err(wrong(format!("the attribute `{name}` of a macro is not supported")))
        }
        (Own::Nothing, Type::Other) if ["Cycler", "Joiner"].contains(&name_of(value)) => {
            Err(wrong(format!("the attribute `{name}` of this object is not supported")))
        }
        (Own::Nothing, Type::Other | Type::List | Type::Tuple) => value.get_attr(name),
        _ => Ok(Value::UNDEFINED),
    }
}

/// An attribute that is no key.
///
/// # Errors
/// As [`attribute`].
pub fn attribute_alone(value: &Value, name: &str) -> Answer {
    match Type::of(value) {
        Type::Map => match own(value, name) {
            Own::Value(own) => Ok(own),
            _ => Ok(Value::UNDEFINED),
        },
        _ => attribute(value, name),
    }
}

fn own(value: &Value, name: &str) -> Own {
    let (methods, changing): (&[&str], &[&str]) = match Type::of(value) {
        Type::Text => (&OF_TEXTS, &[]),
        Type::Map => (&OF_MAPS, &CHANGING_MAPS),
        Type::List => (&OF_LISTS, &CHANGING_LISTS),
        Type::Tuple | Type::Range => (&OF_TUPLES, &[]),
        Type::Number => match (Number::of(value), name) {
            (Some(number), "real") => return Own::Value(number.value()),
            (Some(Number::Whole(_)), "numerator") => return Own::Value(value.clone()),
            (Some(Number::Whole(_)), "denominator") => return Own::Value(Value::from(1)),
            (Some(Number::Whole(_)), "imag") => return Own::Value(Value::from(0)),
            (Some(Number::Float(_)), "imag") => return Own::Value(Value::from(0.0)),
            (Some(Number::Whole(_)), _) => (&OF_WHOLE, &[]),
            _ => (&OF_FLOATS, &[]),
        },
        _ => (&[], &[]),
    };
    if changing.contains(&name) {
        return Own::Unsafe;
    }
    match methods.contains(&name) {
        true => Own::Value(Value::from_object(Method { value: value.clone(), name: name.to_owned() })),
        false => Own::Nothing,
    }
}

/// The item of a value; undefined where there is none.
fn item(value: &Value, key: &Value) -> Answer {
    let found = match Type::of(value) {
        Type::Undefined => return Err(undefined(&key.to_string())),
        Type::Map if [Type::List, Type::Map].contains(&Type::of(key)) => None,
        Type::Map => item_of_map(value, key)?,
        Type::Text | Type::List | Type::Tuple | Type::Range => match whole(key) {
            Some(n) => at(value, n)?,
            None => None,
        },
        Type::None | Type::Number => None,
        Type::Other if value.kind() == minijinja::value::ValueKind::Iterable => None,
        Type::Other => Some(value.get_item(key)?),
    };
    match (found, key.as_str()) {
        (Some(found), _) => Ok(found),
        (None, Some(name)) => match own(value, name) {
            Own::Value(own) => Ok(own),
            _ => Ok(Value::UNDEFINED),
        },
        (None, None) => Ok(Value::UNDEFINED),
    }
}

/// The whole number that a key is; a float is none.
fn whole(key: &Value) -> Option<i64> {
    match Number::of(key) {
        Some(Number::Whole(n)) => i64::try_from(n).ok(),
        _ => None,
    }
}

/// The item at a place, which counts from the end if it is negative.
fn at(value: &Value, n: i64) -> Result<Option<Value>, Error> {
    if let Some(text) = value.as_str() {
        let place = match n {
            0.. => usize::try_from(n).ok(),
            _ => usize::try_from(i64::try_from(text.chars().count()).unwrap_or(i64::MAX) + n).ok(),
        };
        return Ok(place.and_then(|place| text.chars().nth(place)).map(|c| Value::from(c.to_string())));
    }
    let len = i64::try_from(value.len().unwrap_or(0)).unwrap_or(i64::MAX);
    let place = if n < 0 { n + len } else { n };
    match usize::try_from(place) {
        Ok(place) if i64::try_from(place).is_ok_and(|place| place < len) => {
            value.get_item_by_index(place).map(Some)
        }
        _ => Ok(None),
    }
}

fn bound(bound: &Value) -> Result<Option<i64>, Error> {
    match (bound.is_none(), Number::of(bound)) {
        (true, _) => Ok(None),
        (_, Some(Number::Whole(n))) => {
            Ok(Some(i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })))
        }
        _ => Err(wrong("slice bounds must be integers".to_owned())),
    }
}

/// `a[start:stop:step]`.
pub fn slice(state: &State<'_, '_>, value: &Value, start: &Value, stop: &Value, step: &Value) -> Answer {
    let kind = Type::of(value);
    if kind == Type::Undefined {
        return Err(undefined("a slice"));
    }
    if kind == Type::Map {
        return Err(wrong("a map cannot be sliced".to_owned()));
    }
    if ![Type::Text, Type::List, Type::Tuple, Type::Range].contains(&kind) {
        // Jinja takes it for an item that is not there.
        return Ok(Value::UNDEFINED);
    }
    let start = bound(start)?;
    let stop = bound(stop)?;
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(wrong("the slice step cannot be 0".to_owned()));
    }
    let text: Vec<char> = value.as_str().map(|text| text.chars().collect()).unwrap_or_default();
    let len = match kind {
        Type::Text => text.len(),
        _ => value.len().unwrap_or(0),
    };
    crate::template::python::pay(state, len)?;
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |bound: i64| (if bound < 0 { bound.saturating_add(len) } else { bound }).clamp(least, most);
    let start = start.map_or(if step > 0 { 0 } else { len - 1 }, place);
    let stop = stop.map_or(if step > 0 { len } else { -1 }, place);
    let chosen = Range { start, stop, step };
    if let Some(range) = value.downcast_object_ref::<Range>() {
        let step = range.step.saturating_mul(step);
        return Ok(Value::from_object(Range { start: range.at(start), stop: range.at(stop), step }));
    }
    let places = (0..chosen.count()).filter_map(|n| usize::try_from(chosen.at(n)).ok());
    if kind == Type::Text {
        let part: String = places.filter_map(|place| text.get(place)).collect();
        return Ok(if value.is_safe() { Value::from_safe_string(part) } else { Value::from(part) });
    }
    let items = places.map(|place| value.get_item_by_index(place)).collect::<Result<Vec<_>, _>>()?;
    Ok(if kind == Type::Tuple { Value::from(Tuple::from(items)) } else { Value::from(items) })
}

fn undefined(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedError, format!("it has no `{name}`"))
}
