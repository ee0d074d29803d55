//! Contradictions: keys that state one thing with different values, flags that deny tensors which the model has, and flags that
//! claim norms which it lacks. Programs differ in which of them they take, so none of them is chosen here.

use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope, Dimensions, dimensions, is_unlimited, key_of};
use crate::architecture::language::expression::{Scalar, Scope, same};
use crate::architecture::language::value::{from_value, is_null};
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::rule::images;
use crate::architecture::table::{ConfigName, Dialect, Kind, Rule, Table};
use apr_sdk::{Error, Result, Tensor, escape};
use std::cell::RefCell;

/// Fails for a model that states one thing twice, with different values, or that denies a tensor which it has.
///
/// # Errors
/// Malformed, naming the keys and values; any error from reading and evaluating.
pub(in crate::architecture) fn refuse_contradictions(table: &Table, model: &Stated<'_>) -> Result<()> {
    let entries = table.config.iter().filter(|entry| !entry.first_counts);
    let mut found: Vec<String> = entries.filter_map(|entry| told_twice(entry, model)).collect();
    for (at, one) in model.dialect.either.iter().enumerate() {
        for other in &model.dialect.either[at + 1..] {
            if found.is_empty() && states(model, one) && states(model, other) {
                found.extend(differing(table, model, one, other)?);
            }
        }
    }
    for entry in &table.config {
        let denied = denied(entry, table, model.dialect, model.scope.config, model.tensors)?;
        if let Some(Denied { key, stated, tensor, is_head: false }) = denied {
            found.push(format!("`{key}` is {stated}, but the model has `{}`", escape(&tensor.name, 120)));
        }
        found.extend(claimed_norm(entry, table, model)?);
    }
    if found.is_empty() {
        return Ok(());
    }
    let message = format!("the configuration is contradictory: {}", found.join("; "));
    Err(Error::malformed(message)
        .hint("keep only the correct value: programs disagree on which one takes precedence"))
}

/// Two keys of one name whose values differ, in words.
fn told_twice(entry: &ConfigName, model: &Stated<'_>) -> Option<String> {
    let mut all: Vec<(String, Scalar)> = Vec::new();
    for name in names_in(entry, model.dialect) {
        for (path, value) in model.dialect.roots.stated_all(name, model.lookup) {
            let value = from_value(&value).filter(|value| !is_null(value) && !is_unlimited(entry, value));
            all.extend(value.map(|value| (path, value)));
        }
    }
    let (path, value) = all.first()?;
    let (other, differs) = all.iter().find(|(_, other)| !same(value, other))?;
    Some(format!("`{}` is {value}, `{}` is {differs}", escape(path, 80), escape(other, 80)))
}

/// Whether a model states anything in an object.
fn states(model: &Stated<'_>, object: &str) -> bool {
    model.keys.iter().any(|path| is_inside(model.dialect, path, object))
}

fn is_inside(dialect: &Dialect, path: &str, object: &str) -> bool {
    dialect.roots.own(path).strip_prefix(object).is_some_and(|rest| rest.starts_with('.'))
}

/// What the configuration is by one of two objects and by the other, where that differs, in words.
fn differing(table: &Table, model: &Stated<'_>, one: &str, other: &str) -> Result<Vec<String>> {
    let by_one = config_without(table, model, other)?;
    let by_other = config_without(table, model, one)?;
    let of_one = model.scope.over(&by_one);
    let of_other = model.scope.over(&by_other);
    let mut found = Vec::new();
    for entry in &table.config {
        if !by_one.values().iter().chain(by_other.values()).any(|(name, _)| *name == entry.name) {
            continue;
        }
        let value = of_one.value(&entry.name)?;
        let differs = of_other.value(&entry.name)?;
        let is_same = match (&value, &differs) {
            (Some(value), Some(differs)) => same(value, differs),
            (value, differs) => value.is_none() == differs.is_none(),
        };
        if !is_same {
            let name = escape(&entry.name, 80);
            let value = in_words(value.as_ref());
            let differs = in_words(differs.as_ref());
            found.push(format!(
                "`{name}` is {value} according to `{one}`, but {differs} according to `{other}`"
            ));
        }
    }
    Ok(found)
}

/// The configuration that a model states outside of an object.
fn config_without(table: &Table, model: &Stated<'_>, object: &str) -> Result<Config> {
    let (config, _) = Config::read(
        table,
        model.dialect,
        &|path| (model.lookup)(path).filter(|_| !is_inside(model.dialect, path, object)),
        model.scope.dimensions,
    )?;
    Ok(config)
}

fn in_words(value: Option<&Scalar>) -> String {
    value.map_or("not stated".to_owned(), Scalar::to_string)
}

/// A flag that denies a tensor which the model has.
pub(in crate::architecture) struct Denied<'m> {
    /// What the dialect calls the flag.
    pub key: String,
    /// What it says.
    pub stated: Scalar,
    /// The tensor.
    pub tensor: &'m Tensor,
    /// Whether the tensor is the head.
    pub is_head: bool,
}

/// A flag that denies a head which the model has: it may repeat the embedding that it is tied to.
///
/// # Errors
/// Any error from evaluating defaults.
pub(in crate::architecture) fn denied_head<'m>(
    table: &Table,
    dialect: &Dialect,
    config: &Config,
    tensors: &'m [Tensor],
) -> Result<Option<Denied<'m>>> {
    for entry in &table.config {
        let denied = denied(entry, table, dialect, config, tensors)?;
        if denied.as_ref().is_some_and(|denied| denied.is_head) {
            return Ok(denied);
        }
    }
    Ok(None)
}

/// The tensor that a flag denies: the flag's default follows from such tensors, and it is stated as it would be without them.
fn denied<'m>(
    entry: &ConfigName,
    table: &Table,
    dialect: &Dialect,
    config: &Config,
    tensors: &'m [Tensor],
) -> Result<Option<Denied<'m>>> {
    let stated = config.get(&entry.name).filter(|_| entry.kind == Kind::Bool);
    let (Some(default), Some(stated)) = (&entry.default, stated) else { return Ok(None) };
    let dimensions = dimensions(table, &dialect.id, tensors);
    let there = RefCell::new(None);
    let with = default.value(&ConfigScope::new(table, config, &|name, axis| {
        let size = dimensions(name, axis)?;
        there.borrow_mut().get_or_insert_with(|| name.to_owned());
        Some(size)
    }))?;
    let without = default.value(&ConfigScope::new(table, config, &|_, _| None))?;
    let without = without.unwrap_or(Scalar::Bool(false));
    if with.as_ref() == Some(&without) || without != *stated {
        return Ok(None);
    }
    let there = there.into_inner();
    let Some(rule) = there.and_then(|name| table.rule_of(&name)) else { return Ok(None) };
    let Some(image) = images(rule, &dialect.id).0.first() else { return Ok(None) };
    let tensor = tensors.iter().find(|tensor| image.numbers(&tensor.name).is_some());
    let key = escape(key_of(table, &dialect.id, &entry.name), 80).to_string();
    let is_head = rule.role.as_deref() == Some("output");
    Ok(tensor.map(|tensor| Denied { key, stated: stated.clone(), tensor, is_head }))
}

/// A norm that a flag claims and the model lacks, in words. The library would fill in its weights with ones, which is not the
/// same as no norm.
fn claimed_norm(entry: &ConfigName, table: &Table, model: &Stated<'_>) -> Result<Option<String>> {
    let claimed = claimed(entry, table, model.scope.config, model.scope.dimensions)?;
    let is_norm =
        |claimed: &Claimed<'_>| claimed.rule.role.as_deref().is_some_and(|role| role.ends_with(".norm"));
    let Some(Claimed { stated, rule }) = claimed.filter(is_norm) else { return Ok(None) };
    let Some(image) = images(rule, &model.dialect.id).0.first() else { return Ok(None) };
    let key = escape(key_of(table, &model.dialect.id, &entry.name), 80);
    Ok(Some(format!("`{key}` is {stated}, but the model has no `{}`", escape(image.text(), 120))))
}

/// Returns whether a flag claims a head of its own that the model lacks. A flag whose default is another flag says nothing of it.
///
/// # Errors
/// Any error from evaluating defaults.
pub(in crate::architecture) fn claims_head(
    table: &Table,
    config: &Config,
    dimensions: Dimensions<'_>,
) -> Result<bool> {
    for entry in &table.config {
        let follows_a_flag = entry.default.as_ref().is_some_and(|default| !default.names().is_empty());
        if !follows_a_flag
            && claimed(entry, table, config, dimensions)?.is_some_and(|claimed| claimed.is_head())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tensors that a flag claims and the model lacks.
pub(in crate::architecture) struct Claimed<'t> {
    /// What the flag says.
    pub stated: Scalar,
    /// The rule of the tensors.
    pub rule: &'t Rule,
}

impl Claimed<'_> {
    /// Returns whether they are the head.
    pub fn is_head(&self) -> bool {
        self.rule.role.as_deref() == Some("output")
    }
}

/// The tensors that a flag claims and the model lacks: the flag's default follows from them, and it is stated as it would be with
/// them.
///
/// # Errors
/// Any error from evaluating the default.
pub(in crate::architecture) fn claimed<'t>(
    entry: &ConfigName,
    table: &'t Table,
    config: &Config,
    dimensions: Dimensions<'_>,
) -> Result<Option<Claimed<'t>>> {
    let stated = config.get(&entry.name).filter(|_| entry.kind == Kind::Bool);
    let (Some(default), Some(stated)) = (&entry.default, stated) else { return Ok(None) };
    let asked = RefCell::new(None);
    let with = default.value(&ConfigScope::new(table, config, &|name, _| {
        asked.borrow_mut().get_or_insert_with(|| name.to_owned());
        Some(1)
    }))?;
    let Some(asked) = asked.into_inner() else { return Ok(None) };
    let without = default.value(&ConfigScope::new(table, config, &|_, _| None))?;
    if with.as_ref() != Some(stated) || without == with || dimensions(&asked, 0).is_some() {
        return Ok(None);
    }
    Ok(table.rule_of(&asked).map(|rule| Claimed { stated: stated.clone(), rule }))
}
