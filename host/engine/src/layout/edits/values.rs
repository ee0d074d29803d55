//! Metadata values from text: `--set KEY=VALUE` and `--set KEY:TYPE=VALUE`.

use apr_sdk::{Error, Result, Value, ValueType, escape};

/// The name of a value's type: `u32`, `[str]`.
pub fn type_of(value: &Value) -> String {
    match value.array_head() {
        Some((item, _)) => format!("[{}]", item.name().unwrap_or("str")),
        // Its length is in the file too.
        None if value.kind == ValueType::ARRAY => "[str]".to_owned(),
        None => value.kind.name().unwrap_or("str").to_owned(),
    }
}

/// Whether a word names a type: `u32`, `[str]`.
pub fn known_type(kind: &str) -> bool {
    let kind = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')).unwrap_or(kind);
    ValueType::from_name(kind).is_some_and(|k| k != ValueType::ARRAY)
}

/// Parses `text` as type `kind`: `u32`, or `[u32]` for an array in JSON.
///
/// # Errors
/// InvalidArgument for text that is not a value of that type.
pub fn typed(key: &str, kind: &str, text: &[u8]) -> Result<Value> {
    let wrong = |why: String| {
        let message = format!(
            "`{}` cannot be `{}`: {why}",
            escape(key, 120),
            escape(&String::from_utf8_lossy(text), 80)
        );
        Error::invalid_argument(message)
            .hint("give the type with the key, as in --set KEY:u32=5 or --set 'KEY:[str]=[\"a\"]'")
    };
    let Some(item) = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')) else {
        return scalar(kind, text).ok_or_else(|| match is_too_large(kind, text) {
            true => wrong(format!("it is out of the range of {kind}")),
            false => wrong(format!("it is of type {kind}")),
        });
    };
    let json: serde_json::Value =
        serde_json::from_slice(text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let items = json.as_array().ok_or_else(|| wrong("it is an array, written as JSON".to_owned()))?;
    let mut bytes = Vec::new();
    for json in items {
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        let value =
            scalar(item, text.as_bytes()).ok_or_else(|| match is_too_large(item, text.as_bytes()) {
                true => wrong(format!("`{text}` is out of the range of {item}")),
                false => wrong(format!("`{text}` is not of type {item}")),
            })?;
        bytes.extend_from_slice(value.bytes.inline().unwrap_or_default());
    }
    let item = ValueType::from_name(item).unwrap_or(ValueType::STRING);
    Ok(Value::from_items(item, items.len() as u64, &bytes))
}

fn scalar(kind: &str, text: &[u8]) -> Option<Value> {
    if kind == "str" {
        return Some(Value::from_string(text));
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    Some(match kind {
        "u8" => Value::from_u8(text.parse().ok()?),
        "i8" => Value::from_i8(text.parse().ok()?),
        "u16" => Value::from_u16(text.parse().ok()?),
        "i16" => Value::from_i16(text.parse().ok()?),
        "u32" => Value::from_u32(text.parse().ok()?),
        "i32" => Value::from_i32(text.parse().ok()?),
        "u64" => Value::from_u64(text.parse().ok()?),
        "i64" => Value::from_i64(text.parse().ok()?),
        // Too many digits for the type would become infinity.
        "f32" | "f64" if is_too_large(kind, text.as_bytes()) => return None,
        "f32" => Value::from_f32(text.parse().ok()?),
        "f64" => Value::from_f64(text.parse().ok()?),
        "bool" => Value::from_bool(text.parse().ok()?),
        _ => return None,
    })
}

/// Whether a text is a finite number that a float of this type cannot hold.
fn is_too_large(kind: &str, text: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(text).ok().map(str::trim) else { return false };
    let is_infinite = match kind {
        "f32" => text.parse().is_ok_and(f32::is_infinite),
        "f64" => text.parse().is_ok_and(f64::is_infinite),
        _ => false,
    };
    // `inf` and `-infinity` contain no digit.
    is_infinite && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_stated_type_or_are_refused() {
        assert_eq!(typed("k", "u32", b"7").unwrap(), Value::from_u32(7));
        assert!(typed("k", "u8", b"256").is_err());
        assert_eq!(typed("k", "[str]", br#"["a","b"]"#).unwrap(), Value::from_strings(&["a", "b"]));
        assert_eq!(
            typed("k", "[u16]", b"[1,2]").unwrap(),
            Value::from_items(ValueType::U16, 2, &[1, 0, 2, 0])
        );
        assert!(typed("k", "[u16]", b"[1,70000]").is_err());
        assert!(typed("k", "bool", b"yes").is_err());
        for (kind, text) in [("f32", "1e40"), ("f32", "-1e40"), ("f64", "1e400"), ("[f32]", "[1, 1e40]")] {
            let error = typed("k", kind, text.as_bytes()).unwrap_err();
            assert!(error.message().contains("out of the range of f"), "{kind} {text}: {error}");
        }
        assert_eq!(typed("k", "f32", b"inf").unwrap(), Value::from_f32(f32::INFINITY));
        assert_eq!(typed("k", "f64", b"-Infinity").unwrap(), Value::from_f64(f64::NEG_INFINITY));
        assert_eq!(typed("k", "f32", b"3.4028235e38").unwrap(), Value::from_f32(f32::MAX));
    }

    #[test]
    fn a_colon_in_a_key_is_a_type_only_if_it_names_one() {
        assert!(known_type("u32") && known_type("[str]") && !known_type("name") && !known_type("arr"));
    }
}
