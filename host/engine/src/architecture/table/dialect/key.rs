//! Keys of a dialect, as a table states them.

use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::members::{expression, only, scalar, truth, words};
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, Result, ValueType, escape};
use toml::{Table as Toml, Value as Item};

/// A key of a dialect.
#[derive(Clone, Debug)]
pub struct Key {
    /// The full name of the key.
    pub key: String,
    /// Its type, and whether it is an array; `None` to follow the value.
    pub kind: Option<(ValueType, bool)>,
    /// The type of its items where the value is a list, of a key that may be either.
    pub list_kind: Option<ValueType>,
    /// What is written.
    pub value: Source,
    /// The condition for writing it.
    pub when: Option<Expression>,
    /// The configuration names that reading it states, with expressions over `it`; by default the value's own
    /// name.
    pub sets: Vec<(String, Option<Expression>)>,
    /// Whether other programs that read the format pass over it.
    pub unread: bool,
}

impl Key {
    /// Whether any of its names is computed from its value.
    pub(in crate::architecture) fn is_computed(&self) -> bool {
        self.sets.iter().any(|(_, from)| from.is_some())
    }
}

/// Where a key's value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An expression over the configuration.
    Expression(Expression),
    /// A constant.
    Constant(Scalar),
}

/// Reads an entry of `key`; `named` inserts the architecture's name into texts.
///
/// # Errors
/// InvalidArgument for a member that is unknown or of another kind.
pub(in crate::architecture) fn read_key(
    key: String,
    toml: &Toml,
    named: &dyn Fn(&str) -> String,
) -> Read<Key> {
    only(toml, &["key", "type", "value", "const", "when", "sets", "from", "unread"], "`key`")?;
    let text = words(toml, "type")?;
    let (kind, list_kind) = match text.as_deref().map(|text| text.split_once(" or ").ok_or(text)) {
        None => (None, None),
        Some(Err(kind)) => (Some(read_type(kind).within("type")?), None),
        Some(Ok((kind, list))) => match (read_type(kind).within("type")?, read_type(list).within("type")?) {
            (kind @ (_, false), (items, true)) => (Some(kind), Some(items)),
            _ => {
                let message = "`or` takes a type and a list: `u32 or [i32]`";
                return Err(Error::invalid_argument(message)).within("type");
            }
        },
    };
    let value = match (expression(toml, "value")?, toml.get("const")) {
        (Some(value), None) => Source::Expression(value),
        (None, Some(Item::String(text))) => Source::Constant(Scalar::Text(named(text))),
        (None, Some(constant)) => Source::Constant(scalar(constant).within("const")?),
        _ => return Err(Error::invalid_argument("it requires `value` or `const`").into()),
    };
    let own = match &value {
        Source::Expression(value) => value.name().map(str::to_owned),
        Source::Constant(_) => None,
    };
    let sets = match toml.get("sets") {
        Some(Item::Table(several)) => several
            .keys()
            .map(|name| Ok((name.clone(), expression(several, name)?)))
            .collect::<Read<_>>()
            .within("sets")?,
        _ => match words(toml, "sets")? {
            Some(none) if none.is_empty() => Vec::new(),
            Some(name) => vec![(name, expression(toml, "from")?)],
            None => own.map(|name| (name, None)).into_iter().collect(),
        },
    };
    let when = expression(toml, "when")?;
    Ok(Key { key, kind, list_kind, value, when, sets, unread: truth(toml, "unread")? })
}

/// A type by its name, and whether it is an array: `[i32]`.
fn read_type(text: &str) -> Result<(ValueType, bool)> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let kind = ValueType::from_name(inner.unwrap_or(text))
        .ok_or_else(|| Error::invalid_argument(format!("unknown type `{}`", escape(text, 40))))?;
    Ok((kind, inner.is_some()))
}
