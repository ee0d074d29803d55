//! What a dialect's files may state but its table does not cover.

use crate::architecture::language::expression::{Expression, Scalar, same};
use crate::architecture::language::members::{expression, list, only, read_tables, scalars, truth, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, Within};
use crate::architecture::language::value::{from_value, is_null};
use apr_sdk::{Error, Value};
use toml::Table as Toml;

/// Something that a dialect's files may state but the table does not cover. All of its parts must hold.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Keys, any of which is sufficient; a trailing `*` stands for any rest.
    pub(in crate::architecture) keys: Vec<String>,
    /// Keys that such a rest leaves out; a leading `*` stands for any beginning.
    except: Vec<String>,
    /// The values of these keys that it applies to.
    pub(in crate::architecture) values: Values,
    /// Whether it excludes keys that the table reads or ignores.
    pub(in crate::architecture) only_unknown: bool,
    /// The name of a tensor.
    pub(in crate::architecture) tensor: Option<Pattern>,
    /// Parts of the model's names for itself, in lower case with hyphens.
    pub(in crate::architecture) named: Vec<String>,
    /// A condition on the configuration, and on the numbers in the tensor's name.
    pub(in crate::architecture) when: Option<Expression>,
    /// The effect on the model.
    pub(in crate::architecture) reason: String,
}

/// Values of a key; for a list, of every item.
#[derive(Clone, Debug)]
pub(in crate::architecture) enum Values {
    /// Any value.
    Any,
    /// Any of these.
    These(Vec<Scalar>),
    /// Anything but these.
    Unless(Vec<Scalar>),
    /// A list that does not repeat this one.
    UnlessCycle(Vec<Scalar>),
}

impl Values {
    pub(in crate::architecture) fn hold(&self, value: &Value) -> bool {
        // A value that is too long to be in memory is none of those listed.
        let Some(value) = from_value(value) else { return !matches!(self, Values::These(_)) };
        // Null states nothing, unless it is listed.
        if is_null(&value) && !matches!(self, Values::These(_)) {
            return false;
        }
        let items = match value {
            Scalar::List(items) => items,
            value => vec![value],
        };
        match self {
            Values::Any => true,
            Values::These(these) => items.iter().any(|item| is_among(item, these)),
            Values::Unless(these) => !items.iter().all(|item| is_among(item, these)),
            Values::UnlessCycle(cycle) => {
                items.iter().zip(cycle.iter().cycle()).any(|(item, wanted)| !same(item, wanted))
            }
        }
    }
}

fn is_among(item: &Scalar, values: &[Scalar]) -> bool {
    values.iter().any(|value| same(value, item))
}

impl Refusal {
    /// Parses a dialect's `refuse` entries; `named` inserts the architecture's name into keys.
    ///
    /// # Errors
    /// InvalidArgument for an entry without a condition or without a reason.
    pub(in crate::architecture) fn read(
        dialect: &Toml,
        named: &dyn Fn(&str) -> String,
    ) -> Read<Vec<Refusal>> {
        read_tables(dialect, "refuse", |entry| Refusal::entry(entry, named))
    }

    fn entry(toml: &Toml, named: &dyn Fn(&str) -> String) -> Read<Refusal> {
        const KNOWN: [&str; 10] =
            ["keys", "except", "values", "unless", "cycle", "unknown", "tensor", "named", "when", "reason"];
        only(toml, &KNOWN, "a refusal")?;
        let values = match (scalars(toml, "values")?, scalars(toml, "unless")?, scalars(toml, "cycle")?) {
            (None, None, None) => Values::Any,
            (Some(these), None, None) => Values::These(these),
            (None, Some(these), None) => Values::Unless(these),
            (None, None, Some(cycle)) if !cycle.is_empty() => Values::UnlessCycle(cycle),
            _ => {
                return Err(Error::invalid_argument(
                    "a refusal takes only one of `values`, `unless` and `cycle`",
                )
                .into());
            }
        };
        let refusal = Refusal {
            keys: list(toml, "keys")?.iter().map(|key| named(key)).collect(),
            except: list(toml, "except")?.iter().map(|key| named(key)).collect(),
            values,
            only_unknown: truth(toml, "unknown")?,
            tensor: words(toml, "tensor")?.map(|name| Pattern::parse(&name)).transpose().within("tensor")?,
            named: list(toml, "named")?,
            when: expression(toml, "when")?,
            reason: words(toml, "reason")?.unwrap_or_default(),
        };
        let conditions = !refusal.keys.is_empty()
            || refusal.tensor.is_some()
            || !refusal.named.is_empty()
            || refusal.when.is_some();
        match conditions && !refusal.reason.is_empty() {
            true => Ok(refusal),
            false => Err(Error::invalid_argument("a refusal requires a condition and a `reason`").into()),
        }
    }

    /// Whether it is about layers that take turns: what each does follows from its number.
    pub(in crate::architecture) fn is_cycle(&self) -> bool {
        matches!(self.values, Values::UnlessCycle(_))
    }

    /// The reason why this key and value would be refused if the table did not read the key.
    pub(in crate::architecture) fn effect(&self, key: &str, value: &Value) -> Option<&str> {
        let is_key =
            self.keys.iter().any(|own| own == key || own.ends_with('*') && self.is_open_to(own, key));
        (self.only_unknown && is_key && self.values.hold(value)).then_some(self.reason.as_str())
    }

    /// The condition, with the names of places that it may use.
    pub(in crate::architecture) fn condition(&self) -> Option<(&Expression, Vec<&str>)> {
        let places = self.tensor.iter().flat_map(Pattern::places).map(String::as_str);
        self.when.as_ref().map(|when| (when, places.collect()))
    }

    /// Whether it is about a key by its very name.
    pub(in crate::architecture) fn names(&self, key: &str) -> bool {
        self.keys.iter().any(|own| own == key)
    }

    /// Whether a pattern with an open end stands for a key.
    pub(in crate::architecture) fn is_open_to(&self, pattern: &str, key: &str) -> bool {
        let is_left_out = self.except.iter().any(|except| match except.strip_prefix('*') {
            Some(end) => key.ends_with(end),
            None => except == key,
        });
        key.starts_with(pattern.trim_end_matches('*')) && !is_left_out
    }
}
