//! Methods of Python's texts, lists and maps that the library lacks.

use crate::template::python::is_space;
use crate::template::python::objects::{Method, View};
use crate::template::python::texts;
use crate::template::python::values::{Number, Type, text};
use minijinja::value::{Kwargs, Object, ObjectRepr, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;
use std::sync::Arc;

/// Bytes of a text that cost a step.
const BYTES_OF_STEP: usize = 64;

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        call(state, &self.value, &self.name, args)
    }
}

/// Calls a method of a value that the library knows nothing of.
///
/// # Errors
/// UnknownMethod for a method that is not here; what its arguments are wrong in.
pub fn call(state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        // What it takes grows with the text.
        state.consume_fuel(1 + u64::try_from(text.len() / BYTES_OF_STEP).unwrap_or(u64::MAX))?;
        if let Some(found) = texts::call(state, text, method, args)? {
            return Ok(found);
        }
        match method {
            "removeprefix" => {
                let (prefix,): (&str,) = from_args(args)?;
                return Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)));
            }
            "removesuffix" => {
                let (suffix,): (&str,) = from_args(args)?;
                return Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)));
            }
            "partition" => {
                let (mark,): (&str,) = from_args(args)?;
                return parts(text, text.find(mark), mark, |text| [text, "", ""]);
            }
            "rpartition" => {
                let (mark,): (&str,) = from_args(args)?;
                return parts(text, text.rfind(mark), mark, |text| ["", "", text]);
            }
            "rsplit" => return split_from_the_end(text, args),
            "split" => {
                if let Ok((None, most)) = from_args::<(Option<&str>, Option<i64>)>(args) {
                    return Ok(words(text, limit(most)).into_iter().map(Value::from).collect());
                }
            }
            "splitlines" => {
                let (keep,): (Option<bool>,) = from_args(args)?;
                return Ok(lines(text, keep.unwrap_or(false)).into_iter().map(Value::from).collect());
            }
            "isspace" => {
                let () = from_args(args)?;
                return Ok(Value::from(!text.is_empty() && text.chars().all(is_space)));
            }
            "strip" | "lstrip" | "rstrip" => {
                if let Ok((None,)) = from_args::<(Option<&str>,)>(args) {
                    return Ok(Value::from(match method {
                        "strip" => text.trim_matches(is_space),
                        "lstrip" => text.trim_start_matches(is_space),
                        _ => text.trim_end_matches(is_space),
                    }));
                }
            }
            "index" | "rindex" => return found(pycompat_call(state, value, method, args)?),
            _ => {}
        }
    }
    if let ("items" | "keys" | "values", Type::Map) = (method, Type::of(value)) {
        return view(value, method, args);
    }
    if let (Some(format), "format") = (value.as_str(), method) {
        return formatted(state, value, format, args);
    }
    match (value.kind(), method) {
        (ValueKind::Seq | ValueKind::Map, "copy") => {
            let () = from_args(args)?;
            Ok(value.clone())
        }
        (ValueKind::Seq, "index") => {
            let (item,): (Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|other| other == item);
            at.map(Value::from).ok_or_else(|| wrong("the item is not in the list"))
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `str.format`: what the library would print otherwise than Python is a text already.
fn formatted(state: &mut State<'_, '_>, value: &Value, format: &str, args: &[Value]) -> Result<Value, Error> {
    let is_plain = !format.contains(['[', '!', ':']) && !format.contains("{.");
    let printed = |value: Value| match (Number::of(&value), Type::of(&value)) {
        (Some(Number::Float(float)), _) if !is_plain => Ok(Value::from(float)),
        (_, Type::Text | Type::Undefined) => Ok(value),
        _ if is_plain => text(&value).map(Value::from),
        _ => Ok(value),
    };
    let mut all = Vec::new();
    for argument in args {
        if argument.is_kwargs() {
            let named = Kwargs::try_from(argument.clone())?;
            let pairs = named.args().map(|name| Ok((name.to_owned(), printed(named.get::<Value>(name)?)?)));
            all.push(Value::from(Kwargs::from_iter(pairs.collect::<Result<Vec<_>, Error>>()?)));
        } else {
            all.push(printed(argument.clone())?);
        }
    }
    pycompat::unknown_method_callback(state, value, "format", &all)
}

/// A view of a map.
fn view(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let () = from_args(args)?;
    let name = ["keys", "values"].into_iter().find(|known| *known == method).unwrap_or("items");
    let mut items = Vec::new();
    for key in value.try_iter()? {
        items.push(match name {
            "keys" => key,
            "values" => value.get_item(&key)?,
            _ => Value::from(Tuple::from([key.clone(), value.get_item(&key)?])),
        });
    }
    Ok(Value::from_object(View { name, items }))
}

/// `index`, which is `find` but fails.
fn pycompat_call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let find = if method == "index" { "find" } else { "rfind" };
    pycompat::unknown_method_callback(state, value, find, args)
}

fn found(at: Value) -> Result<Value, Error> {
    if at.as_i64() == Some(-1) { Err(wrong("substring not found")) } else { Ok(at) }
}

/// The parts of a text around a mark.
fn parts(text: &str, at: Option<usize>, mark: &str, whole: fn(&str) -> [&str; 3]) -> Result<Value, Error> {
    if mark.is_empty() {
        return Err(wrong("the separator is empty"));
    }
    let parts = match at {
        Some(at) => [&text[..at], mark, &text[at + mark.len()..]],
        None => whole(text),
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from).to_vec())))
}

/// `rsplit`: at most so many cuts, from the end.
fn split_from_the_end(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (mark, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = limit(most);
    let mut found: Vec<&str> = match mark {
        Some("") => return Err(wrong("the separator is empty")),
        Some(mark) => text.rsplitn(most, mark).collect(),
        None => words_from_the_end(text, most),
    };
    found.reverse();
    Ok(found.into_iter().map(Value::from).collect())
}

/// Number of parts that at most so many cuts leave; a negative number bounds nothing.
fn limit(most: Option<i64>) -> usize {
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX).saturating_add(1)
}

/// `split` without a separator: the last part keeps its white space once there may be no more parts.
fn words(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = rest.find(is_space).filter(|_| found.len() + 1 < most).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    found
}

fn words_from_the_end(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        let cut = rest.rfind(is_space).filter(|_| found.len() + 1 < most);
        let start = cut.map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
        found.push(&rest[start..]);
        rest = rest[..cut.unwrap_or(0)].trim_end_matches(is_space);
    }
    found
}

/// The lines of a text, each with what ends it if `keep`.
pub fn lines(text: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends_line) {
        let mark = &rest[at..];
        let len = if mark.starts_with("\r\n") { 2 } else { mark.chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep { at + len } else { at }]);
        rest = &rest[at + len..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn wrong(why: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.to_owned())
}
