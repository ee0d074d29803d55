//! Reads members of a table's TOML by kind.

use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, escape};
use toml::{Table as Toml, Value as Item};

/// The error for a value that `what` does not allow.
pub fn bad(what: &str, value: &Item) -> Error {
    Error::invalid_argument(format!("{what} cannot be `{}`", escape(&value.to_string(), 120)))
}

/// Fails for a key that `what` does not have: a slip would pass for something left out.
///
/// # Errors
/// InvalidArgument, with the keys that there are.
pub fn only(toml: &Toml, known: &[&str], what: &str) -> Read<()> {
    let Some(key) = toml.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known = known.join(", ");
    let message = format!("unknown key `{}` in {what}: expected {known}", escape(key, 80));
    Err(Error::invalid_argument(message)).within(key.as_str())
}

/// A member as `read` gives it, which returns `None` for one of another kind.
fn member<'a, T>(toml: &'a Toml, key: &str, read: impl Fn(&'a Item) -> Option<T>) -> Read<Option<T>> {
    let Some(item) = toml.get(key) else { return Ok(None) };
    read(item).map(Some).ok_or_else(|| bad(&format!("`{key}`"), item)).within(key)
}

/// A string.
pub fn words(toml: &Toml, key: &str) -> Read<Option<String>> {
    Ok(member(toml, key, Item::as_str)?.map(str::to_owned))
}

/// A boolean; false if missing.
pub fn truth(toml: &Toml, key: &str) -> Read<bool> {
    Ok(member(toml, key, Item::as_bool)?.unwrap_or(false))
}

/// A list of strings; a single string counts as a list.
pub fn list(toml: &Toml, key: &str) -> Read<Vec<String>> {
    each(toml.get(key), |item| {
        item.as_str().map(str::to_owned).ok_or_else(|| bad(&format!("`{key}`"), item).into())
    })
    .within(key)
}

/// Reads each item of a list, and a single value as a list of one; none if there is no value.
///
/// # Errors
/// Any error from `read`, within its item.
pub fn each<'a, T>(item: Option<&'a Item>, read: impl Fn(&'a Item) -> Read<T>) -> Read<Vec<T>> {
    match item {
        None => Ok(Vec::new()),
        Some(Item::Array(items)) => {
            items.iter().enumerate().map(|(at, item)| read(item).within(at)).collect()
        }
        Some(item) => Ok(vec![read(item)?]),
    }
}

/// The patterns under `names`, or under `name` if there is no such key.
///
/// # Errors
/// InvalidArgument for what is no pattern.
pub fn patterns(toml: &Toml) -> Read<Vec<Pattern>> {
    let key = if toml.contains_key("names") { "names" } else { "name" };
    list(toml, key)?;
    each(toml.get(key), |name| Ok(Pattern::parse(name.as_str().unwrap_or_default())?)).within(key)
}

/// A list of tables.
pub fn tables<'a>(toml: &'a Toml, key: &str) -> Read<Vec<&'a Toml>> {
    read_tables(toml, key, Ok)
}

/// Reads each of a list of tables.
///
/// # Errors
/// Any error from `read`, within its table.
pub fn read_tables<'a, T>(
    toml: &'a Toml,
    key: &str,
    mut read: impl FnMut(&'a Toml) -> Read<T>,
) -> Read<Vec<T>> {
    let items = member(toml, key, Item::as_array)?.map_or(&[][..], Vec::as_slice);
    let mut all = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let table = item.as_table().ok_or_else(|| bad(&format!("`{key}`"), item).into());
        all.push(table.and_then(&mut read).within(at).within(key)?);
    }
    Ok(all)
}

/// An expression; a number or a boolean counts as one.
pub fn expression(toml: &Toml, key: &str) -> Read<Option<Expression>> {
    let expression = match toml.get(key) {
        None => return Ok(None),
        Some(Item::Integer(n)) => Expression::parse(&n.to_string()),
        Some(Item::Float(x)) => Expression::parse(&x.to_string()),
        Some(Item::Boolean(b)) => Expression::parse(&b.to_string()),
        Some(Item::String(text)) => Expression::parse(text),
        Some(other) => Err(bad(&format!("`{key}`"), other)),
    };
    expression.map(Some).within(key)
}

/// A constant value.
pub fn scalar(item: &Item) -> Read<Scalar> {
    Ok(match item {
        Item::Integer(n) => Scalar::Int(*n),
        Item::Float(x) => Scalar::Float(*x),
        Item::Boolean(b) => Scalar::Bool(*b),
        Item::String(text) => Scalar::Text(text.clone()),
        Item::Array(_) => Scalar::List(each(Some(item), scalar)?),
        other => return Err(bad("a constant", other).into()),
    })
}

/// A list of constants; `None` if it is missing.
///
/// # Errors
/// InvalidArgument for anything but a list of constants.
pub fn scalars(toml: &Toml, key: &str) -> Read<Option<Vec<Scalar>>> {
    match toml.get(key) {
        None => Ok(None),
        list @ Some(Item::Array(_)) => each(list, scalar).within(key).map(Some),
        Some(_) => Err(Error::invalid_argument(format!("`{key}` is not a list of constants"))).within(key),
    }
}

/// A nested table; empty if missing.
pub fn sub_table<'a>(toml: &'a Toml, key: &str) -> Read<&'a Toml> {
    static EMPTY: std::sync::LazyLock<Toml> = std::sync::LazyLock::new(Toml::new);
    Ok(member(toml, key, Item::as_table)?.unwrap_or(&EMPTY))
}

/// Reads each entry of a nested table.
///
/// # Errors
/// Any error from `read`, within its entry.
pub fn entries<'a, T>(
    toml: &'a Toml,
    key: &str,
    mut read: impl FnMut(&'a str, &'a Item) -> Read<T>,
) -> Read<Vec<T>> {
    let inside = sub_table(toml, key)?;
    inside.iter().map(|(name, item)| read(name, item).within(name.as_str())).collect::<Read<_>>().within(key)
}

/// An item that is a table.
///
/// # Errors
/// InvalidArgument for one of another kind: `what` cannot be it.
pub fn as_table<'a>(item: &'a Item, what: &str) -> Read<&'a Toml> {
    Ok(item.as_table().ok_or_else(|| bad(what, item))?)
}
