//! `--set KEY=VALUE` and `--unset KEY`: changes to typed metadata, in the type that the key has or is given.

use crate::registry::Format;
use apr_sdk::{Error, Foreign, ForeignFile, Model, Result, Value, ValueType, escape};
use std::path::Path;

/// Applies the edits to the metadata that the target writes as its own, or to the source's if the target has none.
///
/// # Errors
/// InvalidArgument for a key that is not there, a value that its type cannot hold, or a type that the target lacks.
pub fn apply(model: &mut Model, target: &Format, set: &[(String, String)], unset: &[String]) -> Result<()> {
    if set.is_empty() && unset.is_empty() {
        return Ok(());
    }
    let format = edited_format(model, target)?;
    let n_tensors = model.tensors.len() as u64;
    refuse_unknown(model, &format, unset)?;
    let foreign = model.foreign_mut(&format);
    if foreign.files.is_empty() {
        foreign.files.push(ForeignFile { n_tensors, ..ForeignFile::default() });
    }
    for key in unset {
        for file in &mut foreign.files {
            file.typed.retain(|(k, _)| k != key);
        }
    }
    for (key, text) in set {
        set_one(foreign, target, key, text)?;
    }
    Ok(())
}

/// Whose metadata is edited: the target's own; for a target without any, that of the format the model came from.
fn edited_format(model: &Model, target: &Format) -> Result<String> {
    if target.manifest.carries.has_metadata() {
        return Ok(target.id().to_owned());
    }
    let others: Vec<&str> =
        model.foreign.iter().map(|f| f.format.as_str()).filter(|f| *f != target.id()).collect();
    match others[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(Error::invalid_argument(format!(
            "`{}` has no metadata keys of its own, and the model brings none",
            target.id()
        ))
        .hint("set the keys when converting to a format that has them")),
        _ => Err(Error::invalid_argument(format!(
            "the model brings metadata of {}: which is meant is not clear",
            others.join(" and ")
        ))
        .hint("set the keys when converting to one of these formats")),
    }
}

fn set_one(foreign: &mut Foreign, target: &Format, key: &str, text: &str) -> Result<()> {
    let (key, stated) = match key.rsplit_once(':') {
        Some((name, kind)) if known_type(kind) => (name, Some(kind)),
        _ => (key, None),
    };
    if key.is_empty() {
        return Err(Error::invalid_argument("--set needs a key before the `=`"));
    }
    let text = match text.strip_prefix('@') {
        Some(path) => std::fs::read(Path::new(path))
            .map_err(|e| crate::files::io_error(&e, "read").in_file(path.to_owned()))?,
        None => text.as_bytes().to_vec(),
    };
    let present = foreign.get(key).cloned();
    let value = match (stated, &present) {
        (Some(kind), _) => typed(key, kind, &text)?,
        (None, Some(old)) if old.kind == ValueType::ARRAY => {
            let item = old.array_head().map_or(ValueType::STRING, |(item, _)| item);
            typed(key, &format!("[{}]", item.name().unwrap_or("str")), &text)?
        }
        (None, Some(old)) => typed(key, old.kind.name().unwrap_or("str"), &text)?,
        (None, None) => Value::from_string(&text),
    };
    let kind = value.kind.name().unwrap_or("?");
    if target.manifest.carries.has_metadata() && !target.manifest.carries.metadata_type(kind) {
        return Err(Error::invalid_argument(format!(
            "`{}` cannot hold metadata of type {kind}",
            target.id()
        )));
    }
    let mut placed = false;
    for file in &mut foreign.files {
        if file.get(key).is_some() {
            file.set(key, value.clone());
            placed = true;
        }
    }
    if let (false, Some(first)) = (placed, foreign.files.first_mut()) {
        first.set(key, value);
    }
    Ok(())
}

fn known_type(kind: &str) -> bool {
    let kind = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')).unwrap_or(kind);
    ValueType::from_name(kind).is_some_and(|k| k != ValueType::ARRAY)
}

/// The value that `text` says in type `kind`: `u32`, or `[u32]` for an array written as JSON.
fn typed(key: &str, kind: &str, text: &[u8]) -> Result<Value> {
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
        return scalar(kind, text).ok_or_else(|| wrong(format!("it is of type {kind}")));
    };
    let json: serde_json::Value =
        serde_json::from_slice(text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let items = json.as_array().ok_or_else(|| wrong("it is an array, written as JSON".to_owned()))?;
    let mut bytes = Vec::new();
    for json in items {
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        let value =
            scalar(item, text.as_bytes()).ok_or_else(|| wrong(format!("`{text}` is not of type {item}")))?;
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
        "f32" => Value::from_f32(text.parse().ok()?),
        "f64" => Value::from_f64(text.parse().ok()?),
        "bool" => Value::from_bool(text.parse().ok()?),
        _ => return None,
    })
}

/// Refuses to remove a key that the output will not have, and says where it is instead.
fn refuse_unknown(model: &Model, format: &str, unset: &[String]) -> Result<()> {
    for key in unset {
        if model.foreign_of(format).is_some_and(|foreign| foreign.get(key).is_some()) {
            continue;
        }
        let shown = escape(key, 120);
        if let Some(other) = model.foreign.iter().find(|foreign| foreign.get(key).is_some()) {
            let message = format!("`{shown}` is a key of the source's {}, not of {format}", other.format);
            let hint = format!(
                "remove it when converting to {}, or leave all of it out with --foreign drop",
                other.format
            );
            return Err(Error::invalid_argument(message).hint(hint));
        }
        let error = Error::invalid_argument(format!("the model has no metadata key `{shown}`"));
        let tail = key.rsplit('.').next().unwrap_or(key);
        let files = model.foreign.iter().flat_map(|foreign| &foreign.files);
        let mut close: Vec<&str> = files.flat_map(|f| &f.typed).map(|(k, _)| k.as_str()).collect();
        close.retain(|k| k.contains(tail));
        close.truncate(5);
        return Err(if close.is_empty() {
            error.hint("`apr inspect` lists the keys")
        } else {
            error.hint(format!("it has {}", close.join(", ")))
        });
    }
    Ok(())
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
    }

    #[test]
    fn a_colon_in_a_key_is_a_type_only_if_it_names_one() {
        assert!(known_type("u32") && known_type("[str]") && !known_type("name") && !known_type("arr"));
    }
}
