//! JSON as template values, and as text in the style of Python's `json.dumps`, charging fuel for each step.

use crate::template::generator::Generator;
use crate::template::python::objects::View;
use crate::template::python::values::Type;
use crate::template::python::{Float, shown};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::fmt::Write;

/// Nesting of lists. 100: Python stops at 1000, files at 10.
const MAX_DEPTH: usize = 100;
/// Spaces per level of indentation.
const MAX_INDENT: usize = 64;

/// Converts JSON for a template. The parser bounds the nesting.
pub fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(yes) => Value::from(*yes),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(value_of).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (key.as_str(), value_of(value))))
        }
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => Value::from(n),
            (_, Some(n)) => Value::from(n),
            _ => Float::value(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

/// The options of `json.dumps`.
pub struct Style {
    indent: Option<usize>,
    item: String,
    key: String,
    ascii: bool,
    sorted: bool,
}

impl Style {
    /// With Python's default separators where none are given.
    pub fn new(
        indent: Option<usize>,
        separators: Option<(String, String)>,
        ascii: bool,
        sorted: bool,
    ) -> Style {
        let item = if indent.is_some() { "," } else { ", " };
        let (item, key) = separators.unwrap_or_else(|| (item.to_owned(), ": ".to_owned()));
        Style { indent: indent.map(|n| n.min(MAX_INDENT)), item, key, ascii, sorted }
    }
}

/// Serializes a value.
///
/// # Errors
/// Out of fuel; an undefined value, or one that JSON cannot express.
pub fn write(state: &State<'_, '_>, value: &Value, style: &Style) -> Result<String, Error> {
    let mut writer = Writer { state, style, out: String::new(), paid: 0 };
    writer.value(value, 0)?;
    writer.pay()?;
    Ok(writer.out)
}

struct Writer<'a> {
    state: &'a State<'a, 'a>,
    style: &'a Style,
    out: String,
    paid: usize,
}

impl Writer<'_> {
    /// Charges for what was written since the last time, and for the step.
    fn pay(&mut self) -> Result<(), Error> {
        let written = self.out.len().saturating_sub(self.paid);
        self.paid = self.out.len();
        self.state.consume_fuel(1 + u64::try_from(written / 16).unwrap_or(u64::MAX))
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.pay()?;
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "JSON is nested too deeply"));
        }
        if let Some(float) = Float::of(value) {
            self.out.push_str(&number(&Value::from(float)));
            return Ok(());
        }
        let is_none_of_json = value.downcast_object_ref::<Generator>().is_some()
            || value.downcast_object_ref::<View>().is_some()
            || Type::of(value) == Type::Range
            || value.kind() == ValueKind::Map && Type::of(value) == Type::Other;
        if is_none_of_json {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "an object of the template cannot be serialized as JSON",
            ));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                let message = format!("{kind} cannot be serialized as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut any = false;
        for item in value.try_iter()? {
            self.next(any, depth + 1);
            any = true;
            self.value(&item, depth + 1)?;
        }
        self.close(any, depth);
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        self.state.consume_fuel(u64::try_from(keys.len()).unwrap_or(u64::MAX))?;
        if self.style.sorted {
            keys.sort();
        }
        self.out.push('{');
        let mut any = false;
        for key in keys {
            self.next(any, depth + 1);
            any = true;
            match (key.as_str(), key.kind()) {
                (Some(text), _) => self.text(text),
                (_, ValueKind::None) => self.text("null"),
                (_, ValueKind::Bool) => self.text(if key.is_true() { "true" } else { "false" }),
                (_, ValueKind::Number) => self.text(&number(&key)),
                _ => self.text(&key.to_string()),
            }
            self.out.push_str(&self.style.key);
            let item = value.get_item(&key)?;
            self.value(&item, depth + 1)?;
        }
        self.close(any, depth);
        self.out.push('}');
        Ok(())
    }

    /// Writes what precedes an item.
    fn next(&mut self, any: bool, depth: usize) {
        if any {
            self.out.push_str(&self.style.item);
        }
        self.line(depth);
    }

    fn close(&mut self, any: bool, depth: usize) {
        if any {
            self.line(depth);
        }
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.style.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' '
                    || (self.style.ascii && !c.is_ascii())
                    || (self.style.ascii && c == '\u{7f}') =>
                {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A number as Python writes it into JSON.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(n) = f64::try_from(value.clone()) else { return value.to_string() };
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    shown(n)
}
