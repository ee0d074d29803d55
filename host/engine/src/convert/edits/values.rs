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

/// Returns whether a word names a type: `u32`, `[str]`.
pub fn known_type(kind: &str) -> bool {
    let kind = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')).unwrap_or(kind);
    ValueType::from_name(kind).is_some_and(|k| k != ValueType::ARRAY)
}

/// Parses `text` as type `kind`: `u32`, or `[u32]` for an array in JSON.
///
/// # Errors
/// InvalidArgument for text that is not a value of that type.
pub fn typed(key: &str, kind: &str, text: &str) -> Result<Value> {
    let wrong = |why: String| {
        let message = format!("`{}` cannot be set to `{}`: {why}", escape(key, 120), escape(text, 80));
        Error::invalid_argument(message)
            .hint("specify the type with the key, as in --set KEY:u32=5 or --set 'KEY:[str]=[\"a\"]'")
    };
    let Some(item) = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')) else {
        return scalar(kind, text).ok_or_else(|| wrong(format!("it is {}", why_not(kind, text))));
    };
    let json: serde_json::Value =
        serde_json::from_str(text).map_err(|e| wrong(format!("invalid JSON: {e}")))?;
    if let Some(number) = beyond_64_bits(text) {
        return Err(wrong(format!("`{number}` {BEYOND}")));
    }
    let items = json.as_array().ok_or_else(|| wrong("expected a JSON array".to_owned()))?;
    let mut bytes = Vec::new();
    for json in items {
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        let value =
            scalar(item, &text).ok_or_else(|| wrong(format!("`{text}` is {}", why_not(item, &text))))?;
        bytes.extend_from_slice(value.bytes.inline().unwrap_or_default());
    }
    let item = ValueType::from_name(item).unwrap_or(ValueType::STRING);
    Ok(Value::from_items(item, items.len() as u64, &bytes))
}

/// The reason for refusing a number beyond 64 bits, as the end of a sentence.
pub const BEYOND: &str = "is an integer of more than 64 bits, which would be rounded: write it with a \
                          decimal point or an exponent to allow that";

/// The first whole number outside of JSON's strings that neither an i64 nor a u64 holds: a parser would round it.
pub fn beyond_64_bits(json: &str) -> Option<&str> {
    let mut start = None;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in json.bytes().chain(*b" ").enumerate() {
        let is_number = !in_string && (byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        match (start, is_number) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                let word = &json[from..at];
                if is_whole(word) && word.parse::<i64>().is_err() && word.parse::<u64>().is_err() {
                    return Some(word);
                }
                start = None;
            }
            _ => {}
        }
        in_string ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    None
}

/// Returns whether a text is digits alone, with or without a sign.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The reason why a text is not of this type, to follow `it is`.
fn why_not(kind: &str, text: &str) -> String {
    match (is_too_large(kind, text), is_rounded(kind, text)) {
        (true, _) => format!("out of range for {kind}"),
        (_, true) => {
            format!(
                "an integer that {kind} cannot represent exactly: write it with a decimal point to round it"
            )
        }
        _ => format!("not of type {kind}"),
    }
}

fn scalar(kind: &str, text: &str) -> Option<Value> {
    if kind == "str" {
        return Some(Value::from_string(text));
    }
    let text = text.trim();
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
        "f32" | "f64" if is_too_large(kind, text) || is_rounded(kind, text) => return None,
        "f32" => Value::from_f32(text.parse().ok()?),
        "f64" => Value::from_f64(text.parse().ok()?),
        "bool" => Value::from_bool(text.parse().ok()?),
        _ => return None,
    })
}

/// Returns whether a text is a finite number that a float of this type cannot hold.
fn is_too_large(kind: &str, text: &str) -> bool {
    let text = text.trim();
    let is_infinite = match kind {
        "f32" => text.parse().is_ok_and(f32::is_infinite),
        "f64" => text.parse().is_ok_and(f64::is_infinite),
        _ => false,
    };
    // `inf` and `-infinity` contain no digit.
    is_infinite && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns whether a text is a whole number that becomes another one as a float of this type.
fn is_rounded(kind: &str, text: &str) -> bool {
    let text = text.trim();
    let held = match kind {
        "f32" => text.parse().map(|value: f32| f64::from(value)),
        "f64" => text.parse::<f64>(),
        _ => return false,
    };
    let digits = text.trim_start_matches(['-', '+']).trim_start_matches('0');
    // Without a fraction a float is printed exactly.
    is_whole(text) && held.is_ok_and(|held| format!("{:.0}", held.abs()).trim_start_matches('0') != digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_stated_type_or_are_refused() {
        assert_eq!(typed("k", "u32", "7").unwrap(), Value::from_u32(7));
        assert!(typed("k", "u8", "256").is_err());
        assert_eq!(typed("k", "[str]", r#"["a","b"]"#).unwrap(), Value::from_strings(&["a", "b"]));
        assert_eq!(
            typed("k", "[u16]", "[1,2]").unwrap(),
            Value::from_items(ValueType::U16, 2, &[1, 0, 2, 0])
        );
        assert!(typed("k", "[u16]", "[1,70000]").is_err());
        assert!(typed("k", "bool", "yes").is_err());
        for (kind, text) in [("f32", "1e40"), ("f32", "-1e40"), ("f64", "1e400"), ("[f32]", "[1, 1e40]")] {
            let error = typed("k", kind, text).unwrap_err();
            assert!(error.message().contains("out of range for f"), "{kind} {text}: {error}");
        }
        assert_eq!(typed("k", "f32", "inf").unwrap(), Value::from_f32(f32::INFINITY));
        assert_eq!(typed("k", "f64", "-Infinity").unwrap(), Value::from_f64(f64::NEG_INFINITY));
        assert_eq!(typed("k", "f32", "3.4028235e38").unwrap(), Value::from_f32(f32::MAX));
    }

    #[test]
    fn whole_numbers_are_never_rounded() {
        for (kind, text) in [
            ("f32", "16777217"),
            ("f64", "9007199254740993"),
            ("f64", "-18446744073709551617"),
            ("[f64]", "[1, 18446744073709551616]"),
            ("[f32]", "[16777217]"),
            ("i64", "9223372036854775808"),
            ("u64", "18446744073709551616"),
        ] {
            assert!(typed("k", kind, text).is_err(), "{kind} {text}");
        }
        for (kind, text) in [
            ("f32", "16777216"),
            ("f32", "-0"),
            ("f32", "16777217.0"),
            ("f64", "18446744073709551616"),
            ("f64", "1e30"),
            ("u64", "18446744073709551615"),
            ("[f64]", "[1, 1e30]"),
            ("[str]", r#"["123456789012345678901234567890"]"#),
        ] {
            assert!(typed("k", kind, text).is_ok(), "{kind} {text}");
        }
        assert_eq!(beyond_64_bits(r#"{"a\\\"9": [1, 18446744073709551616]}"#), Some("18446744073709551616"));
        assert_eq!(beyond_64_bits(r#"{"18446744073709551616\\": -1.5e40}"#), None);
    }

    #[test]
    fn a_colon_in_a_key_is_a_type_only_if_it_names_one() {
        assert!(known_type("u32") && known_type("[str]") && !known_type("name") && !known_type("arr"));
    }
}
