//! The keys and values in file order, and the few that the reader itself needs.

use crate::header::{Header, length};
use crate::layout::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT};
use crate::value;
use apr_sdk::{Cursor, Error, Result, Value, ValueType, escape};

/// A metadata key with its value and its place in the file.
#[derive(Clone, Debug)]
pub struct Key {
    /// Offset of the record.
    pub at: u64,
    /// The key, such as `general.name`.
    pub name: String,
    /// Offset of the value, after its type.
    pub value_at: u64,
    /// The typed value, in memory or in the file.
    pub value: Value,
}

/// Reads the keys at the cursor.
///
/// # Errors
/// Malformed for a key that is not UTF-8 or has a damaged value; LimitExceeded. The message names the key.
pub fn read(cursor: &mut Cursor<'_>, header: &Header) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    for _ in 0..header.n_keys {
        let at = cursor.position();
        let name = name(cursor, header, "key")?;
        let kind = ValueType(cursor.u32().map_err(|e| in_key(e, &name))?);
        let value_at = cursor.position();
        if kind.name().is_none() {
            let error = cursor.error_at(value_at - 4, format!("a value of unknown type {}", kind.0));
            return Err(in_key(error, &name));
        }
        let value = value::read(cursor, header, kind).map_err(|e| in_key(e, &name))?;
        keys.push(Key { at, name, value_at, value });
    }
    Ok(keys)
}

/// Reads the name of a key or tensor.
///
/// # Errors
/// LimitExceeded for a name that is too long; Malformed past the end or if it is not UTF-8.
pub fn name(cursor: &mut Cursor<'_>, header: &Header, what: &str) -> Result<String> {
    let at = cursor.position();
    let len = length(cursor, header.widths())?;
    if len > cursor.left() {
        let message = format!("a {what} has {len} bytes, but only {} are left", cursor.left());
        return Err(cursor.error_at(at, message));
    }
    let limit = cursor.limits().name_bytes;
    if len > limit {
        return Err(cursor
            .place(Error::limit(format!("a {what} has {len} bytes, more than the limit of {limit}")), at));
    }
    cursor.text(what, len)
}

/// The alignment stated in the keys.
///
/// # Errors
/// Malformed for anything but a u32 that is a power of two.
pub fn alignment(cursor: &Cursor<'_>, keys: &[Key]) -> Result<u64> {
    match keys.iter().find(|key| key.name == ALIGNMENT_KEY) {
        Some(key) => alignment_of(&key.value).map_err(|e| cursor.place(e, key.value_at)),
        None => Ok(DEFAULT_ALIGNMENT),
    }
}

/// Interprets a value of `general.alignment`.
///
/// # Errors
/// Malformed for anything but a u32 that is a power of two.
pub fn alignment_of(value: &Value) -> Result<u64> {
    let Some(alignment) = value.as_u32() else {
        let kind = value.kind.name().unwrap_or("?");
        return Err(Error::malformed(format!(
            "metadata key `{ALIGNMENT_KEY}`: its type is {kind}, expected u32"
        )));
    };
    if alignment.is_power_of_two() {
        return Ok(u64::from(alignment));
    }
    let message = format!("metadata key `{ALIGNMENT_KEY}`: {alignment} is not a power of two");
    Err(Error::malformed(message))
}

fn in_key(error: Error, name: &str) -> Error {
    let message = format!("metadata key `{}`: {}", escape(name, 120), error.message());
    error.with_message(message)
}
