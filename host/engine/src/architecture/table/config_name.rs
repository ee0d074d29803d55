//! The names of the canonical configuration, as a table states them.

use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::members::{bad, expression, list, scalars, truth, words};
use crate::architecture::language::table_error::{Read, Within};
use crate::architecture::table::dialect::Dialect;
use apr_sdk::Error;
use toml::{Table as Toml, Value as Item};

/// A name of the canonical configuration.
#[derive(Clone, Debug)]
pub struct ConfigName {
    /// The canonical name.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// The value if nothing is stated; never written as if it had been.
    pub default: Option<Expression>,
    /// For a name that changes what the model computes: the values that a dialect may leave unstated.
    pub covers: Option<Vec<Scalar>>,
    /// The consequence if a dialect leaves it unstated, and in which case.
    pub effect: Option<(String, Option<Expression>)>,
    /// Its names in dialects that store the configuration by name: (dialect, names, of which the first is
    /// written).
    pub names: Vec<(String, Vec<String>)>,
    /// Whether the first of those that are stated counts, whatever the others say.
    pub first_counts: bool,
}

/// The kind of a configuration value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Int,
    /// A float; an integer is accepted too.
    Float,
    /// A boolean.
    Bool,
    /// A string.
    Text,
    /// A list.
    List,
    /// An integer for all layers, or a list of one per layer.
    IntOrList,
}

/// The names of a configuration value in a dialect whose keys are such names.
pub(in crate::architecture) fn names_in<'a>(
    entry: &'a ConfigName,
    dialect: &Dialect,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let other = entry.names.iter().find(|(id, _)| *id == dialect.id).map(|(_, names)| names);
    let own = (other.is_none() && dialect.same_names).then_some(entry.name.as_str());
    own.into_iter().chain(other.into_iter().flatten().map(String::as_str))
}

/// Reads the entry of a name in a table with these dialects.
///
/// # Errors
/// InvalidArgument for a member that is unknown or of another kind.
pub fn read_config(name: &str, item: &Item, dialects: &[Dialect]) -> Read<ConfigName> {
    const OWN: [&str; 6] = ["type", "default", "covers", "effect", "effect_when", "first_counts"];
    let empty = Toml::new();
    let (kind, inside) = match item {
        Item::String(kind) => (kind.clone(), &empty),
        Item::Table(inside) => (words(inside, "type")?.unwrap_or_default(), inside),
        other => return Err(bad(name, other).into()),
    };
    let kind = match kind.as_str() {
        "int" => Kind::Int,
        "float" => Kind::Float,
        "bool" => Kind::Bool,
        "text" => Kind::Text,
        "list" => Kind::List,
        "int or list" => Kind::IntOrList,
        other => {
            let error = Error::invalid_argument(format!("`{name}` has the unknown type `{other}`"));
            return if item.is_str() { Err(error.into()) } else { Err(error).within("type") };
        }
    };
    let mut names = Vec::new();
    for key in inside.keys().filter(|key| !OWN.contains(&key.as_str())) {
        if !dialects.iter().any(|d| d.id == *key) {
            let message = format!("`{name}` refers to the unknown dialect `{key}`");
            return Err(Error::invalid_argument(message)).within(key.as_str());
        }
        names.push((key.clone(), list(inside, key)?));
    }
    let covers = scalars(inside, "covers")?;
    let effect = match (words(inside, "effect")?, expression(inside, "effect_when")?) {
        (Some(effect), when) => Some((effect, when)),
        (None, None) => None,
        (None, Some(_)) => {
            let message = format!("`{name}` has `effect_when` without `effect`");
            return Err(Error::invalid_argument(message)).within("effect_when");
        }
    };
    let default = expression(inside, "default")?;
    let first_counts = truth(inside, "first_counts")?;
    Ok(ConfigName { name: name.to_owned(), kind, default, covers, effect, names, first_counts })
}
