//! Typed metadata for people (cut) and for programs (whole).

use apr_engine::open::OpenedModel;
use apr_sdk::json::bytes_to_json;
use apr_sdk::{Bytes, Extent, Result, Value, ValueType, escape};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::rc::Rc;

/// The longest text that is shown of one value, in characters.
const LONGEST: usize = 100;

/// One key of a model's metadata. A file may have a million: what can be made of its value is made when it is shown.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The format whose metadata it is.
    #[serde(serialize_with = "as_text")]
    pub format: Rc<str>,
    /// The file it lies in; left out for a model of one file.
    #[serde(serialize_with = "as_text", skip_serializing_if = "is_empty")]
    pub file: Rc<str>,
    /// The key.
    pub key: String,
    /// Its type: `u32`, `str`, `[f32]` for an array.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// Number of items in an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// Its value; `null` for one that was not read because it is long (`--full` reads it).
    #[serde(serialize_with = "as_json")]
    value: Value,
    /// Number of an array's items that people see; none for all of everything.
    #[serde(skip)]
    n_items: Option<usize>,
}

impl Entry {
    /// Its value for people.
    pub fn text(&self) -> String {
        text_of(&self.value, self.items, self.n_items)
    }
}

fn as_text<S: Serializer>(text: &Rc<str>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn is_empty(text: &Rc<str>) -> bool {
    text.is_empty()
}

fn as_json<S: Serializer>(value: &Value, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    json_of(value).serialize(serializer)
}

/// Takes every key of every format and file out of the model. Long values that lie in a file are read only if `full`; at
/// most `n_items` items of an array are shown.
///
/// # Errors
/// Whatever reading a value raised.
pub fn entries(opened: &mut OpenedModel, full: bool, n_items: usize) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for foreign in std::mem::take(&mut opened.model.foreign) {
        let format: Rc<str> = foreign.format.into();
        for file in foreign.files {
            let name: Rc<str> = file.name.into();
            for (key, value) in file.typed {
                let value = held(opened, value, full)?;
                let (kind, items) = kind_of(opened, &value)?;
                entries.push(Entry {
                    format: Rc::clone(&format),
                    file: Rc::clone(&name),
                    key,
                    kind,
                    items,
                    value,
                    n_items: (!full).then_some(n_items),
                });
            }
        }
    }
    Ok(entries)
}

/// One value.
pub struct Shown {
    /// Its type: `u32`, `str`, `[f32]` for an array.
    pub kind: Cow<'static, str>,
    /// The value for programs; `null` for one that was not read because it is long.
    pub json: Json,
    /// The value for people.
    pub text: String,
}

/// A value of `opened`, for programs and for people, as [`entries`] shows it without `full`.
///
/// # Errors
/// Whatever reading it raised.
pub fn shown(opened: &OpenedModel, value: &Value, n_items: usize) -> Result<Shown> {
    let (kind, items) = kind_of(opened, value)?;
    Ok(Shown { kind, json: json_of(value), text: text_of(value, items, Some(n_items)) })
}

/// The value, read if it lies in a file and all is wanted.
fn held(opened: &OpenedModel, value: Value, full: bool) -> Result<Value> {
    if full { Ok(Value { kind: value.kind, bytes: opened.fetch(&value.bytes)? }) } else { Ok(value) }
}

/// The name of its type, and how many items an array has.
fn kind_of(opened: &OpenedModel, value: &Value) -> Result<(Cow<'static, str>, Option<u64>)> {
    Ok(match head(opened, value)? {
        Some((item, count)) => (format!("[{}]", item.name().unwrap_or("?")).into(), Some(count)),
        None => (value.kind.name().unwrap_or("?").into(), None),
    })
}

fn json_of(value: &Value) -> Json {
    if value.bytes.inline().is_some() { to_json(value) } else { Json::Null }
}

/// For people: `n_items` items of an array; none for all of everything.
fn text_of(value: &Value, items: Option<u64>, n_items: Option<usize>) -> String {
    match value.bytes.inline() {
        Some(_) => show(value, n_items.unwrap_or(usize::MAX), n_items.is_none()),
        None => not_read(value, items),
    }
}

/// Element type and count of an array, wherever it lies.
fn head(opened: &OpenedModel, value: &Value) -> Result<Option<(ValueType, u64)>> {
    match value.bytes {
        Bytes::Extent(extent) if value.kind == ValueType::ARRAY && extent.len >= 12 => {
            let bytes = opened.fetch(&Bytes::Extent(Extent { len: 12, ..extent }))?;
            Ok(Value { kind: value.kind, bytes }.array_head())
        }
        _ => Ok(value.array_head()),
    }
}

fn not_read(value: &Value, items: Option<u64>) -> String {
    match items {
        Some(items) => format!("{items} items, {} bytes (pass --full to show them)", value.bytes.len()),
        None => format!("{} bytes (pass --full to show them)", value.bytes.len()),
    }
}

fn show(value: &Value, n_items: usize, full: bool) -> String {
    let longest = if full { usize::MAX } else { LONGEST };
    if value.kind == ValueType::STRING {
        let bytes = value.as_bytes().unwrap_or_default();
        return escape(&String::from_utf8_lossy(bytes), longest);
    }
    let Some((_, count)) = value.array_head() else { return scalar(value).to_string() };
    // Only what is shown is taken apart: an array may have a million items.
    let mut shown: Vec<String> =
        value.items().iter().take(n_items).map(|item| quoted(item, n_items, full)).collect();
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        shown.push(format!("… {more} more"));
    }
    format!("[{}]", shown.join(", "))
}

fn quoted(item: &Value, n_items: usize, full: bool) -> String {
    let text = show(item, n_items, full);
    if item.kind == ValueType::STRING { format!("\"{text}\"") } else { text }
}

fn to_json(value: &Value) -> Json {
    match value.kind {
        ValueType::STRING => bytes_to_json(value.as_bytes().unwrap_or_default()),
        ValueType::ARRAY => value.items().iter().map(to_json).collect(),
        _ => scalar(value),
    }
}

/// A number or a bool; floats that JSON lacks are their names.
fn scalar(value: &Value) -> Json {
    match value.kind {
        ValueType::BOOL => json!(value.as_bool()),
        ValueType::F32 => value.as_f32().map_or(Json::Null, |n| number(f64::from(n), || n.to_string())),
        ValueType::F64 => value.as_f64().map_or(Json::Null, |n| number(n, || n.to_string())),
        ValueType::I8 => json!(value.as_i8()),
        ValueType::I16 => json!(value.as_i16()),
        ValueType::I32 => json!(value.as_i32()),
        ValueType::I64 => json!(value.as_i64()),
        _ => json!(value.as_unsigned()),
    }
}

/// A float with the fewest digits that `shortest` gives, which for an F32 are fewer than its F64 has.
fn number(n: f64, shortest: impl Fn() -> String) -> Json {
    if n.is_nan() {
        return Json::from("NaN");
    }
    if n.is_infinite() {
        return Json::from(if n > 0.0 { "Infinity" } else { "-Infinity" });
    }
    Json::from(shortest().parse::<f64>().unwrap_or(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_for_people_and_whole_for_programs() {
        let items: Vec<u8> = (0u16..30).flat_map(u16::to_le_bytes).collect();
        let array = Value::from_items(ValueType::U16, 30, &items);
        assert_eq!(show(&array, 3, false), "[0, 1, 2, … 27 more]");
        assert_eq!(to_json(&array).as_array().map(Vec::len), Some(30));
        let text = Value::from_string("a\n".repeat(100));
        assert_eq!(show(&text, 3, false).chars().filter(|c| *c == 'a').count(), 50);
        assert_eq!(show(&Value::from_strings(&["a", "b"]), 9, false), "[\"a\", \"b\"]");
    }

    #[test]
    fn floats_are_short_and_odd_ones_have_names() {
        assert_eq!(scalar(&Value::from_f32(1e-5)).to_string(), "0.00001");
        assert_eq!(scalar(&Value::from_f64(f64::NAN)), Json::from("NaN"));
        assert_eq!(scalar(&Value::from_f64(f64::NEG_INFINITY)), Json::from("-Infinity"));
        assert_eq!(scalar(&Value::from_u64(u64::MAX)).to_string(), "18446744073709551615");
    }
}
