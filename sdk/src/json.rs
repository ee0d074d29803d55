//! The on-disk form of foreign metadata, for formats that store it as JSON: typed values as
//! `{"t":"u64","v":"18446744073709551615"}`, floats as the hexadecimal digits of their bits, byte strings
//! that are not UTF-8 as `{"b64":…}`, arrays as `{"t":"arr","of":"u32","v":[…]}`.

use crate::value::cut_off;
use crate::{Bytes, Error, Foreign, ForeignFile, Limits, Result, Value, ValueType};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value as Json, json};

/// Serializes a value. `fetched` holds its wire bytes, from the value itself or read by the caller.
///
/// # Errors
/// Malformed if the bytes do not match the type.
pub fn value_to_json(kind: ValueType, fetched: &[u8]) -> Result<Json> {
    Value { kind, bytes: Bytes::from(fetched) }.check()?;
    let mut map = Map::new();
    map.insert("t".into(), Json::from(type_name(kind)?));
    if kind == ValueType::ARRAY {
        array_to_json(fetched, &mut map)?;
    } else {
        map.insert("v".into(), item_to_json(kind, fetched)?.0);
    }
    Ok(Json::Object(map))
}

/// Parses a value that [`value_to_json`] wrote.
///
/// # Errors
/// Malformed for anything else.
pub fn value_from_json(json: &Json) -> Result<Value> {
    let kind = json_type(json, "t")?;
    let mut bytes = Vec::new();
    if kind == ValueType::ARRAY {
        array_from_json(json, &mut bytes, 0)?;
    } else {
        item_from_json(kind, field(json, "v")?, &mut bytes)?;
    }
    Ok(Value { kind, bytes: bytes.into() })
}

/// Serializes the foreign metadata of one format. `elsewhere` may store a long byte string outside the JSON
/// and return a JSON reference to it, or `None` to have it inlined; `fetch` reads a byte string that is still
/// in a file.
///
/// # Errors
/// Any error from `fetch` and `elsewhere`; Malformed as in [`value_to_json`].
pub fn foreign_to_json(
    foreign: &Foreign,
    with_verbatim: bool,
    elsewhere: &mut dyn FnMut(&Bytes) -> Result<Option<Json>>,
    fetch: &mut dyn FnMut(&Bytes) -> Result<Bytes>,
) -> Result<Json> {
    let mut files = Vec::new();
    for file in &foreign.files {
        let mut typed = Map::new();
        for (key, value) in &file.typed {
            let json = match elsewhere(&value.bytes)? {
                Some(place) => json!({"t": type_name(value.kind)?, "at": place}),
                None => {
                    let held = fetch(&value.bytes)?;
                    value_to_json(value.kind, held.inline().unwrap_or_default())?
                }
            };
            typed.insert(key.clone(), json);
        }
        let mut map = Map::new();
        if !file.name.is_empty() {
            map.insert("name".into(), Json::from(file.name.clone()));
        }
        map.insert("n_tensors".into(), Json::from(file.n_tensors));
        map.insert("typed".into(), Json::Object(typed));
        if let Some(verbatim) = file.verbatim.as_ref().filter(|_| with_verbatim) {
            let json = match elsewhere(verbatim)? {
                Some(place) => json!({ "at": place }),
                None => bytes_to_json(fetch(verbatim)?.inline().unwrap_or_default()),
            };
            map.insert("verbatim".into(), json);
        }
        files.push(Json::Object(map));
    }
    Ok(json!({ "files": files }))
}

/// Parses foreign metadata that [`foreign_to_json`] wrote. `elsewhere` resolves its references.
///
/// # Errors
/// Malformed for anything else; any error from `elsewhere`.
pub fn foreign_from_json(
    format: &str,
    json: &Json,
    elsewhere: &mut dyn FnMut(&Json) -> Result<Bytes>,
) -> Result<Foreign> {
    let mut foreign = Foreign::new(format);
    let files = field(json, "files")?.as_array().ok_or_else(|| wrong("files"))?;
    for file in files {
        let mut record = ForeignFile {
            name: file.get("name").map_or(Ok(""), |n| n.as_str().ok_or_else(|| wrong("name")))?.to_owned(),
            n_tensors: field(file, "n_tensors")?.as_u64().ok_or_else(|| wrong("n_tensors"))?,
            ..ForeignFile::default()
        };
        for (key, value) in field(file, "typed")?.as_object().ok_or_else(|| wrong("typed"))? {
            let value = match value.get("at") {
                Some(place) => Value { kind: json_type(value, "t")?, bytes: elsewhere(place)? },
                None => value_from_json(value)?,
            };
            record.typed.push((key.clone(), value));
        }
        if let Some(verbatim) = file.get("verbatim") {
            record.verbatim = Some(match verbatim.get("at") {
                Some(place) => elsewhere(place)?,
                None => Bytes::from(bytes_from_json(verbatim)?),
            });
        }
        foreign.files.push(record);
    }
    Ok(foreign)
}

/// Serializes a byte string: as text if it is UTF-8, otherwise as `{"b64":…}`.
pub fn bytes_to_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => json!({ "b64": BASE64_STANDARD.encode(bytes) }),
    }
}

/// Parses a byte string that [`bytes_to_json`] wrote.
///
/// # Errors
/// Malformed for anything else.
pub fn bytes_from_json(json: &Json) -> Result<Vec<u8>> {
    match json {
        Json::String(text) => Ok(text.clone().into_bytes()),
        other => {
            let text = field(other, "b64")?.as_str().ok_or_else(|| wrong("b64"))?;
            BASE64_STANDARD
                .decode(text)
                .map_err(|e| Error::malformed(format!("invalid base64 in metadata: {e}")))
        }
    }
}

/// The number or text that a value is written as.
fn text(json: &Json) -> Result<&str> {
    json.as_str().ok_or_else(|| wrong("v"))
}

fn wrong(key: &str) -> Error {
    Error::malformed(format!("`{key}` in the carried metadata has the wrong type"))
}

fn field<'a>(json: &'a Json, key: &str) -> Result<&'a Json> {
    json.get(key).ok_or_else(|| Error::malformed(format!("the carried metadata has no `{key}`")))
}

fn type_name(kind: ValueType) -> Result<&'static str> {
    kind.name().ok_or_else(|| Error::malformed(format!("metadata value of unknown type {}", kind.0)))
}

fn json_type(json: &Json, key: &str) -> Result<ValueType> {
    field(json, key)?.as_str().and_then(ValueType::from_name).ok_or_else(|| wrong(key))
}

/// Adds an array's element type and items to `map`; returns how many of `bytes` it consumed.
fn array_to_json(bytes: &[u8], map: &mut Map<String, Json>) -> Result<usize> {
    let array = Value { kind: ValueType::ARRAY, bytes: Bytes::from(bytes.get(..12).unwrap_or_default()) };
    let (kind, count) = array.array_head().ok_or_else(|| wrong("v"))?;
    map.insert("of".into(), Json::from(type_name(kind)?));
    let mut items = Vec::new();
    let mut at = 12;
    for _ in 0..count {
        let rest = bytes.get(at..).unwrap_or_default();
        let (item, len) = if kind == ValueType::ARRAY {
            let mut inner = Map::new();
            let len = array_to_json(rest, &mut inner)?;
            (Json::Object(inner), len)
        } else {
            item_to_json(kind, rest)?
        };
        items.push(item);
        at += len;
    }
    map.insert("v".into(), Json::Array(items));
    Ok(at)
}

fn array_from_json(json: &Json, out: &mut Vec<u8>, depth: u32) -> Result<()> {
    if depth > Limits::default().nesting {
        return Err(Error::limit("metadata arrays are nested too deeply"));
    }
    let kind = json_type(json, "of")?;
    let items = field(json, "v")?.as_array().ok_or_else(|| wrong("v"))?;
    out.extend_from_slice(&kind.0.to_le_bytes());
    out.extend_from_slice(&(items.len() as u64).to_le_bytes());
    for item in items {
        if kind == ValueType::ARRAY {
            array_from_json(item, out, depth + 1)?;
        } else {
            item_from_json(kind, item, out)?;
        }
    }
    Ok(())
}

macro_rules! wire_numbers {
    ($($kind:ident: $type:ty;)*) => {
        /// Serializes the scalar or string at the start of `bytes`; also returns how many bytes it took.
        fn item_to_json(kind: ValueType, bytes: &[u8]) -> Result<(Json, usize)> {
            match kind {
                $(ValueType::$kind => {
                    const LEN: usize = size_of::<$type>();
                    let raw = bytes.get(..LEN).and_then(|b| b.try_into().ok()).ok_or_else(cut_off)?;
                    Ok((Json::from(<$type>::from_le_bytes(raw).to_string()), LEN))
                })*
                ValueType::F32 | ValueType::F64 => {
                    let len = if kind == ValueType::F32 { 4 } else { 8 };
                    let raw = bytes.get(..len).ok_or_else(cut_off)?;
                    Ok((Json::from(raw.iter().rev().map(|b| format!("{b:02x}")).collect::<String>()), len))
                }
                ValueType::BOOL => match bytes.first().ok_or_else(cut_off)? {
                    // Keep a byte other than 0 and 1.
                    n @ 0..=1 => Ok((Json::from(*n == 1), 1)),
                    n => Ok((Json::from(*n), 1)),
                },
                ValueType::STRING => {
                    let len = bytes.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
                    let len = usize::try_from(len.ok_or_else(cut_off)?).ok();
                    let end = len.and_then(|n| n.checked_add(8)).ok_or_else(cut_off)?;
                    Ok((bytes_to_json(bytes.get(8..end).ok_or_else(cut_off)?), end))
                }
                _ => Err(wrong("t")),
            }
        }

        /// Appends a scalar's or string's wire bytes to `out`.
        fn item_from_json(kind: ValueType, json: &Json, out: &mut Vec<u8>) -> Result<()> {
            match kind {
                $(ValueType::$kind => {
                    out.extend_from_slice(&text(json)?.parse::<$type>().map_err(|_| wrong("v"))?.to_le_bytes());
                })*
                ValueType::F32 => {
                    let bits = u32::from_str_radix(text(json)?, 16).map_err(|_| wrong("v"))?;
                    out.extend_from_slice(&bits.to_le_bytes());
                }
                ValueType::F64 => {
                    let bits = u64::from_str_radix(text(json)?, 16).map_err(|_| wrong("v"))?;
                    out.extend_from_slice(&bits.to_le_bytes());
                }
                ValueType::BOOL => out.push(match json {
                    Json::Bool(value) => u8::from(*value),
                    other => other.as_u64().and_then(|n| u8::try_from(n).ok()).ok_or_else(|| wrong("v"))?,
                }),
                ValueType::STRING => {
                    let bytes = bytes_from_json(json)?;
                    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    out.extend_from_slice(&bytes);
                }
                _ => return Err(wrong("t")),
            }
            Ok(())
        }
    };
}

wire_numbers! {
    U8: u8;
    I8: i8;
    U16: u16;
    I16: i16;
    U32: u32;
    I32: i32;
    U64: u64;
    I64: i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(value: &Value) -> Json {
        let json = value_to_json(value.kind, value.bytes.inline().unwrap()).unwrap();
        assert_eq!(&value_from_json(&json).unwrap(), value, "{json}");
        json
    }

    #[test]
    fn every_type_survives() {
        assert_eq!(round(&Value::from_u64(u64::MAX)), json!({"t": "u64", "v": "18446744073709551615"}));
        assert_eq!(round(&Value::from_f32(1.0)), json!({"t": "f32", "v": "3f800000"}));
        round(&Value::from_f64(f64::from_bits(0x7ff8_0000_0000_0001)));
        round(&Value::from_i64(i64::MIN));
        round(&Value::from_bool(true));
        round(&Value { kind: ValueType::BOOL, bytes: Bytes::from(&[7u8][..]) });
        round(&Value::from_string([0xff, 0]));
        round(&Value::from_strings(&["a", "", "é"]));
        round(&Value::from_items(ValueType::U16, 2, &[1, 0, 2, 0]));
        let inner = Value::from_items(ValueType::I8, 1, &[0xff]);
        round(&Value::from_items(ValueType::ARRAY, 1, inner.bytes.inline().unwrap()));
    }

    #[test]
    fn foreign_keeps_order_files_and_verbatim() {
        let mut foreign = Foreign::new("toy");
        for name in ["b", "a"] {
            foreign.files.push(ForeignFile {
                name: name.into(),
                n_tensors: 3,
                typed: vec![("z".into(), Value::from_u8(1)), ("a".into(), Value::from_string("x"))],
                verbatim: Some(Bytes::from("v")),
            });
        }
        let json = foreign_to_json(&foreign, true, &mut |_| Ok(None), &mut |b| Ok(b.clone())).unwrap();
        let text = serde_json::to_string(&json).unwrap();
        let back = foreign_from_json("toy", &serde_json::from_str(&text).unwrap(), &mut |_| Err(wrong("at")))
            .unwrap();
        assert_eq!(back, foreign);
    }

    #[test]
    fn rejects_wrong_json() {
        for text in
            ["{}", r#"{"t":"u8","v":"256"}"#, r#"{"t":"u8","v":1}"#, r#"{"t":"arr","of":"u8","v":"x"}"#, "[]"]
        {
            assert!(value_from_json(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
    }
}
