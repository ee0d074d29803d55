//! The configuration: read from one dialect's keys to canonical names, and written to another's keys.

pub(crate) mod contradiction;
pub(crate) mod generation;
pub(crate) mod keys;
pub(crate) mod nearest;
pub(crate) mod omissions;
pub(in crate::architecture) mod overruled;
pub(crate) mod refusal;
pub(crate) mod statement;

use crate::architecture::language::expression::{Scalar, Scope, same};
use crate::architecture::language::value::{from_value, is_null, narrowed, says_null};
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::dialect::roots::Lookup;
use crate::architecture::table::rule::images;
use crate::architecture::table::{ConfigName, Dialect, Key, Kind, Source, Table};
use apr_sdk::{Error, Result, Tensor, Value, escape};
use serde_json::{Map, Value as Json};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// What a model states about itself, under canonical names, in table order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    values: Vec<(String, Scalar)>,
}

/// Dimensions of canonical tensors, for `dim("name", axis)`.
pub type Dimensions<'a> = &'a dyn Fn(&str, usize) -> Option<u64>;

/// The configuration with its defaults, and the numbers at places (`layer`).
pub struct ConfigScope<'a> {
    /// The table that has the defaults.
    pub table: &'a Table,
    /// The values that are stated.
    pub config: &'a Config,
    numbers: &'a [(String, u64)],
    dimensions: Dimensions<'a>,
    /// The names whose defaults are being evaluated, each for the one before.
    active: RefCell<Vec<String>>,
    /// Defaults evaluated for the current value.
    steps: Cell<u32>,
    /// Items of lists made so far.
    items: Cell<usize>,
}

/// Items of all lists that are made in one scope: a thousand for each layer of the deepest models.
const MOST_ITEMS: usize = 1 << 20;

/// Defaults that follow from one another, each from the next.
const MOST_DEEP: usize = 32;

/// Defaults evaluated for one value: there are few, but each may ask for others several times.
const MOST_STEPS: u32 = 10_000;

impl<'a> ConfigScope<'a> {
    /// The values of `config`, falling back to the defaults of `table`.
    pub fn new(table: &'a Table, config: &'a Config, dimensions: Dimensions<'a>) -> ConfigScope<'a> {
        ConfigScope {
            table,
            config,
            numbers: &[],
            dimensions,
            active: RefCell::default(),
            steps: Cell::new(0),
            items: Cell::new(0),
        }
    }

    /// The values of another configuration in its place.
    pub fn over(&self, config: &'a Config) -> ConfigScope<'a> {
        ConfigScope::new(self.table, config, self.dimensions)
    }

    /// This scope with numbers at places.
    pub fn at(&self, numbers: &'a [(String, u64)]) -> ConfigScope<'a> {
        ConfigScope { numbers, active: RefCell::default(), steps: Cell::new(0), items: Cell::new(0), ..*self }
    }
}

impl Scope for ConfigScope<'_> {
    fn value(&self, name: &str) -> Result<Option<Scalar>> {
        if let Some((_, number)) = self.numbers.iter().find(|(place, _)| place == name) {
            return Ok(i64::try_from(*number).ok().map(Scalar::Int));
        }
        if let Some(value) = self.config.get(name) {
            return Ok(Some(value.clone()));
        }
        let entry = self.table.entry(name);
        let Some(default) = entry.and_then(|entry| entry.default.as_ref()) else { return Ok(None) };
        let depth = self.active.borrow().len();
        if depth > MOST_DEEP {
            let message = format!("the default of `{name}` is nested more than {MOST_DEEP} levels deep");
            return Err(Error::invalid_argument(message));
        }
        if self.active.borrow().iter().any(|active| active == name) {
            let active = self.active.borrow();
            let all = active.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("none of {all} is stated, and their defaults depend on each other");
            return Err(Error::invalid_argument(message));
        }
        let steps = if depth == 0 { 1 } else { self.steps.get() + 1 };
        if steps > MOST_STEPS {
            let message = format!("the default of `{name}` depends on more than {MOST_STEPS} others");
            return Err(Error::invalid_argument(message));
        }
        self.steps.set(steps);
        self.active.borrow_mut().push(name.to_owned());
        let value = default.value(self);
        self.active.borrow_mut().pop();
        value
    }

    fn stated(&self, name: &str) -> bool {
        self.config.get(name).is_some()
    }

    fn dimension(&self, tensor: &str, axis: usize) -> Option<u64> {
        (self.dimensions)(tensor, axis)
    }

    fn spend(&self, items: usize) -> Result<()> {
        self.items.set(self.items.get().saturating_add(items));
        if self.items.get() <= MOST_ITEMS {
            return Ok(());
        }
        Err(Error::limit(format!("the lists of the configuration would exceed {MOST_ITEMS} items")))
    }
}

impl Config {
    /// The value stated for a name.
    pub fn get(&self, name: &str) -> Option<&Scalar> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// All stated values.
    pub fn values(&self) -> &[(String, Scalar)] {
        &self.values
    }

    /// States a value.
    pub fn set(&mut self, name: &str, value: Scalar) {
        match self.values.iter_mut().find(|(n, _)| n == name) {
            Some(slot) => slot.1 = value,
            None => self.values.push((name.to_owned(), value)),
        }
    }

    /// Parses a model's canonical JSON. Keys that the table does not know are ignored.
    ///
    /// # Errors
    /// Malformed for anything but a JSON object; InvalidArgument for a value of the wrong kind.
    pub fn from_json(table: &Table, json: &[u8]) -> Result<Config> {
        let json: Map<String, Json> = match json {
            [] => Map::new(),
            _ => serde_json::from_slice(json).map_err(|e| {
                Error::malformed(format!("the architecture's configuration is not valid JSON: {e}"))
            })?,
        };
        let mut config = Config::default();
        for entry in &table.config {
            let value = json.get(&entry.name).and_then(from_json);
            if let Some(value) = value.filter(|value| !is_unlimited(entry, value)) {
                config.set(&entry.name, of_kind(entry, value)?);
            }
        }
        Ok(config)
    }

    /// Serializes the configuration as a JSON object.
    ///
    /// # Errors
    /// Unsupported for a float that JSON cannot express.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let mut json = Map::new();
        for (name, value) in &self.values {
            json.insert(name.clone(), to_json(value)?);
        }
        Ok(Json::Object(json).to_string().into_bytes())
    }

    /// Reads the keys of a dialect; `lookup` returns a key's value. Returns the keys that were used.
    ///
    /// # Errors
    /// InvalidArgument for a value of the wrong kind.
    pub fn read(
        table: &Table,
        dialect: &Dialect,
        lookup: Lookup<'_>,
        dimensions: Dimensions<'_>,
    ) -> Result<(Config, HashSet<String>)> {
        let mut config = Config::default();
        let mut used = HashSet::new();
        let roots = &dialect.roots;
        let names: Vec<&str> = table.config.iter().flat_map(|entry| names_in(entry, dialect)).collect();
        roots.check(&names, lookup)?;
        for entry in &table.config {
            config.read_entry(entry, dialect, lookup)?;
            // Account for all names that state the same.
            let stated = names_in(entry, dialect).flat_map(|name| roots.stated_all(name, lookup));
            used.extend(stated.map(|(path, _)| path));
        }
        // Those computed from others come after them.
        let (after, before): (Vec<&Key>, Vec<&Key>) = dialect.keys.iter().partition(|key| key.is_computed());
        let mut lists: Vec<(&Key, Scalar)> = Vec::new();
        for key in before.into_iter().chain(after) {
            // What is always the same is the file's own, such as the class of the model: it lies at the root.
            let stated = match key.value {
                Source::Constant(_) => lookup(&key.key).map(|value| (Some(key.key.clone()), value)),
                Source::Expression(_) => roots.find(&key.key, lookup),
            };
            let Some((path, it)) = stated else { continue };
            let is_stated = path.is_some();
            used.extend(path);
            let Some(it) = from_value(&it).filter(|it| !is_null(it)) else { continue };
            config.set_by_key(table, key, &it, is_stated, dimensions)?;
            if key.is_computed() && matches!(it, Scalar::List(_)) {
                lists.push((key, it));
            }
        }
        for (name, follows) in &dialect.derived {
            let Some(entry) = table.entry(name).filter(|_| config.get(name).is_none()) else { continue };
            if let Some(value) = follows.value(&ConfigScope::new(table, &config, dimensions))? {
                config.set(name, of_kind(entry, value)?);
            }
        }
        told_alike(&ConfigScope::new(table, &config, dimensions), &lists)?;
        // In table order, whatever the order of keys was.
        config.values.sort_by_key(|(name, _)| table.config.iter().position(|entry| entry.name == *name));
        Ok((config, used))
    }

    /// Sets the name of an entry to the first value that the file states for it, or else its class.
    fn read_entry(&mut self, entry: &ConfigName, dialect: &Dialect, lookup: Lookup<'_>) -> Result<()> {
        let roots = &dialect.roots;
        let stated = names_in(entry, dialect).filter_map(|name| Some(roots.stated(name, lookup)?.1));
        let stated: Vec<Value> = stated.collect();
        // What the class says comes after everything that the file states, be it null.
        let is_silent = !stated.iter().any(says_null);
        let of_class = names_in(entry, dialect).filter(|_| is_silent);
        let of_class = of_class.filter_map(|name| roots.of_class(name, lookup).cloned());
        for value in stated.into_iter().chain(of_class) {
            let value = from_value(&value).filter(|value| !is_null(value));
            if let Some(value) = value.filter(|value| !is_unlimited(entry, value)) {
                self.set(&entry.name, of_kind(entry, value)?);
                break;
            }
        }
        Ok(())
    }

    /// Sets the names that a key with the value `it` states; `is_stated` is false if only the library's class says it.
    fn set_by_key(
        &mut self,
        table: &Table,
        key: &Key,
        it: &Scalar,
        is_stated: bool,
        dimensions: Dimensions<'_>,
    ) -> Result<()> {
        for (name, from) in &key.sets {
            let Some(entry) = table.entry(name) else { continue };
            // What the class says of this key is not said of the name where the file states it elsewhere.
            if !is_stated && self.get(name).is_some() {
                continue;
            }
            let value = match from {
                None => Some(it.clone()),
                Some(from) => {
                    let inner = ConfigScope::new(table, self, dimensions);
                    from.value(&ItScope { it: it.clone(), inner })?
                }
            };
            if let Some(value) = value {
                self.set(name, of_kind(entry, value)?);
            }
        }
        Ok(())
    }

    /// The names whose values differ in `other`, at F32 precision.
    ///
    /// # Errors
    /// Any error from evaluating defaults.
    pub fn beyond(&self, other: &ConfigScope<'_>) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for (name, value) in &self.values {
            let has = other.value(name)?.is_some_and(|other| same(&narrowed(value), &narrowed(&other)));
            if !has {
                names.push(escape(name, 80).to_string());
            }
        }
        Ok(names)
    }
}

/// Fails for a list that says what the names computed from it do not: it would be another one when it is written again.
fn told_alike(scope: &ConfigScope<'_>, lists: &[(&Key, Scalar)]) -> Result<()> {
    for (key, it) in lists {
        let Source::Expression(value) = &key.value else { continue };
        if key.when.as_ref().map_or(Ok(true), |when| when.holds(scope))?
            && let Some(value) = value.value(scope)?
            && !same(&narrowed(&value), &narrowed(it))
        {
            let key = escape(&key.key, 120);
            return Err(Error::malformed(format!(
                "`{key}` is {it}, which this architecture cannot represent"
            ))
            .hint(format!("the nearest possible value is {value}; pass --arch none to keep every name")));
        }
    }
    Ok(())
}

/// Looks up dimensions of tensors by their canonical names; the model has the tensors in the dialect `from`.
pub(in crate::architecture) fn dimensions<'t>(
    table: &Table,
    from: &str,
    tensors: impl IntoIterator<Item = &'t Tensor> + Clone,
) -> impl Fn(&str, usize) -> Option<u64> {
    move |name: &str, axis: usize| {
        let pattern = images(table.rule_of(name)?, from).0.first()?;
        let tensor = tensors.clone().into_iter().find(|tensor| pattern.numbers(&tensor.name).is_some())?;
        tensor.shape.get(axis).copied()
    }
}

/// A dialect's name for a configuration name, or the name itself.
pub fn key_of<'a>(table: &'a Table, dialect: &str, name: &'a str) -> &'a str {
    let Some(dialect) = table.dialect(dialect) else { return name };
    if let Some(key) = table.entry(name).and_then(|entry| names_in(entry, dialect).next()) {
        return key;
    }
    let key = dialect.keys.iter().find(|key| match &key.value {
        _ if !key.sets.is_empty() => key.sets.iter().any(|(set, _)| set == name),
        Source::Expression(value) => value.name() == Some(name),
        Source::Constant(_) => false,
    });
    key.map_or(name, |key| key.key.as_str())
}

/// A scope in which `it` is a key's value.
pub(in crate::architecture) struct ItScope<'a> {
    it: Scalar,
    inner: ConfigScope<'a>,
}

impl Scope for ItScope<'_> {
    fn value(&self, name: &str) -> Result<Option<Scalar>> {
        if name == "it" { Ok(Some(self.it.clone())) } else { self.inner.value(name) }
    }
    fn stated(&self, name: &str) -> bool {
        self.inner.stated(name)
    }
    fn dimension(&self, tensor: &str, axis: usize) -> Option<u64> {
        self.inner.dimension(tensor, axis)
    }
    fn spend(&self, items: usize) -> Result<()> {
        self.inner.spend(items)
    }
}

/// All integers below this are exact as floats: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The values that transformers uses for an unknown length (`LARGE_INTEGER`, `VERY_LARGE_INTEGER`).
const UNLIMITED: [f64; 2] = [1e20, 1e30];

/// Whether a value only means "unknown", which is as good as not stating it.
fn is_unlimited(entry: &ConfigName, value: &Scalar) -> bool {
    matches!((value, entry.kind), (Scalar::Float(x), Kind::Int) if UNLIMITED.contains(x))
}

/// The value, if it is of the kind that the name requires.
fn of_kind(entry: &ConfigName, value: Scalar) -> Result<Scalar> {
    let fits = match (&value, entry.kind) {
        (Scalar::Int(_), Kind::Int | Kind::Float | Kind::IntOrList)
        | (Scalar::Float(_), Kind::Float)
        | (Scalar::Bool(_), Kind::Bool)
        | (Scalar::Text(_), Kind::Text)
        | (Scalar::List(_), Kind::List | Kind::IntOrList) => true,
        // `64.0` counts as an integer.
        (Scalar::Float(x), Kind::Int | Kind::IntOrList) => x.fract() == 0.0 && x.abs() < EXACT,
        _ => false,
    };
    if !fits {
        return Err(Error::invalid_argument(format!(
            "`{}` is {value}, which has the wrong type",
            entry.name
        )));
    }
    Ok(match (value, entry.kind) {
        #[allow(clippy::cast_possible_truncation, reason = "the float is whole and below 2^53")]
        (Scalar::Float(x), Kind::Int | Kind::IntOrList) => Scalar::Int(x as i64),
        (Scalar::Int(n), Kind::Float) => Scalar::Float(n.to_string().parse().unwrap_or(f64::NAN)),
        (value, _) => value,
    })
}

fn from_json(json: &Json) -> Option<Scalar> {
    Some(match json {
        Json::Bool(truth) => Scalar::Bool(*truth),
        Json::Number(n) => n.as_i64().map(Scalar::Int).or_else(|| n.as_f64().map(Scalar::Float))?,
        Json::String(text) => Scalar::Text(text.clone()),
        Json::Array(items) => Scalar::List(items.iter().map(from_json).collect::<Option<_>>()?),
        Json::Object(members) => Scalar::Float(match members.get(INFINITE)?.as_str()? {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        }),
        Json::Null => return None,
    })
}

/// The key of an object that stands for an infinite float, as transformers writes it where JSON has to be strict.
const INFINITE: &str = "__float__";

pub(in crate::architecture) fn to_json(value: &Scalar) -> Result<Json> {
    Ok(match value {
        Scalar::Int(n) => Json::from(*n),
        Scalar::Float(x) if x.is_infinite() => {
            serde_json::json!({INFINITE: if *x > 0.0 { "Infinity" } else { "-Infinity" }})
        }
        Scalar::Float(x) => serde_json::Number::from_f64(*x).map(Json::Number).ok_or_else(|| {
            Error::unsupported(format!("the configuration contains {x}, which JSON cannot represent"))
        })?,
        Scalar::Bool(truth) => Json::Bool(*truth),
        Scalar::Text(text) => Json::String(text.clone()),
        Scalar::List(items) => Json::Array(items.iter().map(to_json).collect::<Result<_>>()?),
    })
}
