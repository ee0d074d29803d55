//! What a model states but its table does not cover: such models are refused by name, never translated into
//! something that computes differently.

use crate::architecture::config::contradiction::refuse_contradictions;
use crate::architecture::config::{ConfigScope, from_value, is_null, says_null};
use crate::architecture::language::expression::{Expression, Scalar, Scope, same};
use crate::architecture::language::members::{expression, list, only, scalar, tables, truth, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::{Dialect, Key, Source, Table};
use apr_sdk::{Error, Result, Tensor, Value, escape};
use std::collections::HashSet;
use toml::{Table as Toml, Value as Item};

/// Something that a dialect's files may state but the table does not cover. All of its parts must hold.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Keys, any of which is sufficient; a trailing `*` stands for any rest.
    keys: Vec<String>,
    /// Keys that such a rest leaves out; a leading `*` stands for any beginning.
    except: Vec<String>,
    /// The values of these keys that it applies to.
    values: Values,
    /// Whether it excludes keys that the table reads or ignores.
    only_unknown: bool,
    /// The name of a tensor.
    tensor: Option<Pattern>,
    /// Parts of the model's names for itself, in lower case with hyphens.
    named: Vec<String>,
    /// A condition on the configuration, and on the numbers in the tensor's name.
    when: Option<Expression>,
    /// The effect on the model.
    reason: String,
}

/// Values of a key; for a list, of every item.
#[derive(Clone, Debug)]
enum Values {
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
    fn hold(&self, value: &Value) -> bool {
        // A value that is too long to be in memory is none of those listed.
        let Some(value) = from_value(value) else { return !matches!(self, Values::These(_)) };
        // Null states nothing, unless it is listed.
        if is_null(&value) && !matches!(self, Values::These(_)) {
            return false;
        }
        let items = match value {
            Scalar::List(items) => items,
            one => vec![one],
        };
        let is_in = |all: &[Scalar], item: &Scalar| all.iter().any(|one| same(one, item));
        match self {
            Values::Any => true,
            Values::These(these) => items.iter().any(|item| is_in(these, item)),
            Values::Unless(these) => !items.iter().all(|item| is_in(these, item)),
            Values::UnlessCycle(cycle) => {
                items.iter().zip(cycle.iter().cycle()).any(|(item, wanted)| !same(item, wanted))
            }
        }
    }
}

/// A list of constants; `None` if it is missing.
///
/// # Errors
/// InvalidArgument for anything but a list of constants.
pub fn values(toml: &Toml, key: &str) -> Result<Option<Vec<Scalar>>> {
    match toml.get(key) {
        None => Ok(None),
        Some(Item::Array(items)) => items.iter().map(scalar).collect::<Result<_>>().map(Some),
        Some(_) => Err(Error::invalid_argument(format!("`{key}` is not a list of constants"))),
    }
}

impl Refusal {
    /// Parses a dialect's `refuse` entries; `named` inserts the architecture's name into keys.
    ///
    /// # Errors
    /// InvalidArgument for an entry without a condition or without a reason.
    pub(in crate::architecture) fn read(
        dialect: &Toml,
        named: &dyn Fn(&str) -> String,
    ) -> Result<Vec<Refusal>> {
        tables(dialect, "refuse")?.into_iter().map(|entry| Refusal::entry(entry, named)).collect()
    }

    fn entry(toml: &Toml, named: &dyn Fn(&str) -> String) -> Result<Refusal> {
        const KNOWN: [&str; 10] =
            ["keys", "except", "values", "unless", "cycle", "unknown", "tensor", "named", "when", "reason"];
        only(toml, &KNOWN, "a refusal")?;
        let values = match (values(toml, "values")?, values(toml, "unless")?, values(toml, "cycle")?) {
            (None, None, None) => Values::Any,
            (Some(these), None, None) => Values::These(these),
            (None, Some(these), None) => Values::Unless(these),
            (None, None, Some(cycle)) if !cycle.is_empty() => Values::UnlessCycle(cycle),
            _ => return Err(Error::invalid_argument("a refusal has one of `values`, `unless` and `cycle`")),
        };
        let refusal = Refusal {
            keys: list(toml, "keys")?.iter().map(|key| named(key)).collect(),
            except: list(toml, "except")?.iter().map(|key| named(key)).collect(),
            values,
            only_unknown: truth(toml, "unknown")?,
            tensor: words(toml, "tensor")?.map(|name| Pattern::parse(&name)).transpose()?,
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
            false => Err(Error::invalid_argument("a refusal needs a condition and a `reason`")),
        }
    }

    /// Whether it is about layers that take turns: what each does follows from its number.
    pub(in crate::architecture) fn is_cycle(&self) -> bool {
        matches!(self.values, Values::UnlessCycle(_))
    }

    /// The reason why this key and value would be refused if the table did not read the key.
    pub(in crate::architecture) fn effect(&self, key: &str, value: &Value) -> Option<&str> {
        let is_key = |own: &String| own == key || own.ends_with('*') && self.is_open_to(own, key);
        let is_it = self.only_unknown && self.keys.iter().any(is_key) && self.values.hold(value);
        is_it.then_some(self.reason.as_str())
    }

    /// The condition, with the names of places that it may use.
    pub(in crate::architecture) fn condition(&self) -> Option<(&Expression, Vec<&str>)> {
        let places = self.tensor.iter().flat_map(Pattern::places).map(String::as_str);
        self.when.as_ref().map(|when| (when, places.collect()))
    }

    /// What the model states that matches, in words; empty if it does not apply.
    fn found(&self, model: &Stated<'_>) -> Result<Vec<String>> {
        let reason = &self.reason;
        let is_named = |part: &String| model.names.iter().any(|name| name.contains(part));
        if !self.named.is_empty() && !self.named.iter().any(is_named) {
            return Ok(Vec::new());
        }
        if self.tensor.is_none() && !self.holds(model.scope)? {
            return Ok(Vec::new());
        }
        let stated = self.stated(model);
        if !self.keys.is_empty() && stated.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(tensor) = self.tensor(model)? {
            let beside = stated.iter().map(|key| format!("{key} beside ")).collect::<String>();
            return Ok(vec![format!("{beside}the tensor `{}` ({reason})", escape(&tensor, 120))]);
        }
        Ok(match (&self.tensor, self.keys.is_empty()) {
            (Some(_), _) => Vec::new(),
            (None, true) => vec![reason.clone()],
            (None, false) => stated.into_iter().map(|key| format!("{key} ({reason})")).collect(),
        })
    }

    /// The first of the model's tensors that it is about.
    fn tensor(&self, model: &Stated<'_>) -> Result<Option<String>> {
        let Some(pattern) = &self.tensor else { return Ok(None) };
        for tensor in model.tensors {
            let Some(numbers) = pattern.numbers(&tensor.name) else { continue };
            let numbers: Vec<(String, u64)> = pattern.places().iter().cloned().zip(numbers).collect();
            if self.holds(&model.scope.at(&numbers))? {
                return Ok(Some(tensor.name.clone()));
            }
        }
        Ok(None)
    }

    /// The keys that it is about, with their values, in words.
    fn stated(&self, model: &Stated<'_>) -> Vec<String> {
        let stated = |key: &str| {
            let (path, value) = model.dialect.roots.find(key, model.lookup)?;
            // What the class says is listed only for keys that the table reads.
            let is_left = !self.only_unknown || path.is_some_and(|path| !model.reads(&path));
            // Null states something where the class says something else.
            let says = |value: &Value| {
                !says_null(value) || model.dialect.roots.of_class(key, model.lookup).is_some()
            };
            let value = Some(value).filter(|value| is_left && self.values.hold(value) && says(value))?;
            let shown = from_value(&value).map_or_else(String::new, |value| format!(" {value}"));
            Some(format!("`{}`{shown}", escape(key, 80)))
        };
        let (open, exact): (Vec<&String>, Vec<&String>) =
            self.keys.iter().partition(|key| key.ends_with('*'));
        let fitting = open.into_iter().flat_map(|pattern| self.fitting(pattern, model));
        exact.into_iter().map(String::as_str).chain(fitting).filter_map(stated).collect()
    }

    /// The keys of a model that a pattern with an open end stands for: those that no other refusal judges by their names.
    fn fitting<'m>(&self, pattern: &str, model: &Stated<'m>) -> Vec<&'m str> {
        let refused = &model.dialect.refused;
        let is_judged = |key: &str| refused.iter().any(|other| other.keys.iter().any(|own| own == key));
        let own = model.keys.iter().map(|path| model.dialect.roots.own(path));
        own.filter(|key| self.is_open_to(pattern, key) && !is_judged(key)).collect()
    }

    /// Whether a pattern with an open end stands for a key.
    fn is_open_to(&self, pattern: &str, key: &str) -> bool {
        let is_left_out = |one: &String| one.strip_prefix('*').map_or(one == key, |end| key.ends_with(end));
        key.starts_with(pattern.trim_end_matches('*')) && !self.except.iter().any(is_left_out)
    }

    fn holds(&self, scope: &dyn Scope) -> Result<bool> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(scope))
    }
}

/// What a model states, in its dialect.
pub struct Stated<'a> {
    /// The dialect of the model.
    pub dialect: &'a Dialect,
    /// Looks up the value of a key.
    pub lookup: &'a dyn Fn(&str) -> Option<Value>,
    /// All of its keys.
    pub keys: &'a [&'a str],
    /// The keys that the table reads.
    pub used: &'a HashSet<String>,
    /// The configuration that they state.
    pub scope: &'a ConfigScope<'a>,
    /// The tensors, under the table's own names.
    pub tensors: &'a [Tensor],
    /// The model's names for itself, in lower case with hyphens.
    pub names: &'a [String],
}

impl Stated<'_> {
    /// Whether the table reads a key, or declares that it says nothing.
    fn reads(&self, key: &str) -> bool {
        self.used.contains(key) || self.dialect.ignores(key)
    }

    /// What the model states, or its class, for a key for which the table always writes one number or boolean, if it
    /// differs. Texts are names, of which a table may read several.
    fn other_constant(&self, key: &Key) -> Option<String> {
        let Source::Constant(own @ (Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_))) = &key.value else {
            return None;
        };
        let prefix = self.dialect.prefix.as_deref();
        let is_own = self.dialect.same_names || prefix.is_some_and(|prefix| key.key.starts_with(prefix));
        let of_class = || self.dialect.roots.of_class_at_root(&key.key, self.lookup).cloned();
        let value = (self.lookup)(&key.key).or_else(of_class).filter(|_| is_own && key.when.is_none())?;
        let value = from_value(&value).filter(|value| !same(value, own))?;
        Some(format!("`{}` {value} (the table knows {own} alone)", escape(&key.key, 80)))
    }
}

/// Fails if a model states something that its table does not cover, or contradicts itself.
///
/// # Errors
/// Unsupported, naming all that is not covered; Malformed for a contradiction; any error from evaluating conditions.
pub fn refuse(table: &Table, model: &Stated<'_>) -> Result<()> {
    let mut found = Vec::new();
    for refusal in &model.dialect.refused {
        found.extend(refusal.found(model)?);
    }
    found.extend(model.dialect.keys.iter().filter_map(|key| model.other_constant(key)));
    not_covered(table, found)?;
    refuse_contradictions(table, model)
}

/// Fails for what a table does not cover.
///
/// # Errors
/// Unsupported, naming everything in `found`.
pub fn not_covered(table: &Table, mut found: Vec<String>) -> Result<()> {
    const SHOWN: usize = 8;
    if found.is_empty() {
        return Ok(());
    }
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!(
        "the table of architecture `{}` does not cover what the model states: {}{more}",
        table.id,
        found.join("; ")
    );
    let hint =
        "cover it in a table of your own (`apr arch draft IN`), or pass --arch none to keep every name";
    Err(Error::unsupported(message).hint(hint))
}
