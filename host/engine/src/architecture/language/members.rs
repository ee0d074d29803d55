//! Reads members of a table's TOML by kind.

use crate::architecture::language::expression::{Expression, Scalar};
use apr_sdk::{Error, Result, escape};
use toml::{Table as Toml, Value as Item};

/// The error for a value that `what` does not allow.
pub fn bad(what: &str, value: &Item) -> Error {
    Error::invalid_argument(format!("{what} cannot be `{}`", escape(&value.to_string(), 120)))
}

/// Fails for a key that `what` does not have: a slip would pass for something left out.
///
/// # Errors
/// InvalidArgument, with the keys that there are.
pub fn only(toml: &Toml, known: &[&str], what: &str) -> Result<()> {
    let Some(key) = toml.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known = known.join(", ");
    Err(Error::invalid_argument(format!("unknown key `{}` in {what}: expected {known}", escape(key, 80))))
}

/// A member as `read` gives it, which returns `None` for one of another kind.
fn member<'a, T>(toml: &'a Toml, key: &str, read: impl Fn(&'a Item) -> Option<T>) -> Result<Option<T>> {
    let Some(item) = toml.get(key) else { return Ok(None) };
    read(item).map(Some).ok_or_else(|| bad(&format!("`{key}`"), item))
}

/// A string.
pub fn words(toml: &Toml, key: &str) -> Result<Option<String>> {
    Ok(member(toml, key, Item::as_str)?.map(str::to_owned))
}

/// A boolean; false if missing.
pub fn truth(toml: &Toml, key: &str) -> Result<bool> {
    Ok(member(toml, key, Item::as_bool)?.unwrap_or(false))
}

/// A list of strings; a single string counts as a list.
pub fn list(toml: &Toml, key: &str) -> Result<Vec<String>> {
    let items = match toml.get(key) {
        None => return Ok(Vec::new()),
        Some(Item::Array(items)) => &items[..],
        Some(item) => std::slice::from_ref(item),
    };
    let texts = items
        .iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| bad(&format!("`{key}`"), item)));
    texts.collect()
}

/// A list of tables.
pub fn tables<'a>(toml: &'a Toml, key: &str) -> Result<Vec<&'a Toml>> {
    let items = member(toml, key, Item::as_array)?.map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| item.as_table().ok_or_else(|| bad(&format!("`{key}`"), item))).collect()
}

/// An expression; a number or a boolean counts as one.
pub fn expression(toml: &Toml, key: &str) -> Result<Option<Expression>> {
    match toml.get(key) {
        None => Ok(None),
        Some(Item::Integer(n)) => Ok(Some(Expression::parse(&n.to_string())?)),
        Some(Item::Float(x)) => Ok(Some(Expression::parse(&x.to_string())?)),
        Some(Item::Boolean(b)) => Ok(Some(Expression::parse(&b.to_string())?)),
        Some(Item::String(text)) => Ok(Some(Expression::parse(text)?)),
        Some(other) => Err(bad(&format!("`{key}`"), other)),
    }
}

/// A constant value.
pub fn scalar(item: &Item) -> Result<Scalar> {
    Ok(match item {
        Item::Integer(n) => Scalar::Int(*n),
        Item::Float(x) => Scalar::Float(*x),
        Item::Boolean(b) => Scalar::Bool(*b),
        Item::String(text) => Scalar::Text(text.clone()),
        Item::Array(items) => Scalar::List(items.iter().map(scalar).collect::<Result<_>>()?),
        other => return Err(bad("a constant", other)),
    })
}

/// A list of constants; `None` if it is missing.
///
/// # Errors
/// InvalidArgument for anything but a list of constants.
pub fn scalars(toml: &Toml, key: &str) -> Result<Option<Vec<Scalar>>> {
    match toml.get(key) {
        None => Ok(None),
        Some(Item::Array(items)) => items.iter().map(scalar).collect::<Result<_>>().map(Some),
        Some(_) => Err(Error::invalid_argument(format!("`{key}` is not a list of constants"))),
    }
}

/// A nested table; empty if missing.
pub fn sub_table<'a>(toml: &'a Toml, key: &str) -> Result<&'a Toml> {
    static EMPTY: std::sync::LazyLock<Toml> = std::sync::LazyLock::new(Toml::new);
    Ok(member(toml, key, Item::as_table)?.unwrap_or(&EMPTY))
}
