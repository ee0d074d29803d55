//! Contradictions: keys that state one thing with different values, and flags that deny tensors which the model has. Programs
//! differ in which of them they take, so none of them is chosen here.

use crate::architecture::config::dimension;
use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope, is_unlimited, key_of};
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
    let stated = |(path, value)| {
        let value = from_value(&value).filter(|value| !is_null(value) && !is_unlimited(entry, value))?;
        Some((path, value))
    };
    let values =
        names_in(entry, model.dialect).flat_map(|name| model.dialect.roots.stated_all(name, model.lookup));
    let all: Vec<(String, Scalar)> = values.filter_map(stated).collect();
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
    let dimensions = |name: &str, axis: usize| model.scope.dimension(name, axis);
    let without = |object: &str| {
        let lookup = |path: &str| match is_inside(model.dialect, path, object) {
            true => None,
            false => (model.lookup)(path),
        };
        Config::read(table, model.dialect, &lookup, &dimensions).map(|(config, _)| config)
    };
    let (by_one, by_other) = (without(other)?, without(one)?);
    let (of_one, of_other) =
        (ConfigScope::new(table, &by_one, &dimensions), ConfigScope::new(table, &by_other, &dimensions));
    let mut found = Vec::new();
    for entry in &table.config {
        if !by_one.values().iter().chain(by_other.values()).any(|(name, _)| *name == entry.name) {
            continue;
        }
        let (value, differs) = (of_one.value(&entry.name)?, of_other.value(&entry.name)?);
        let is_same = match (&value, &differs) {
            (Some(value), Some(differs)) => same(value, differs),
            (value, differs) => value.is_none() == differs.is_none(),
        };
        if !is_same {
            let shown = |value: Option<Scalar>| value.map_or("not stated".to_owned(), |it| it.to_string());
            let (name, value, differs) = (escape(&entry.name, 80), shown(value), shown(differs));
            found.push(format!(
                "`{name}` is {value} according to `{one}`, but {differs} according to `{other}`"
            ));
        }
    }
    Ok(found)
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
    let there = RefCell::new(None);
    let dimensions = |name: &str, axis: usize| {
        let size = dimension(table, &dialect.id, tensors, name, axis)?;
        there.borrow_mut().get_or_insert_with(|| name.to_owned());
        Some(size)
    };
    let with = default.value(&ConfigScope::new(table, config, &dimensions))?;
    let without = default.value(&ConfigScope::new(table, config, &|_, _| None))?;
    let without = without.unwrap_or(Scalar::Bool(false));
    if with.as_ref() == Some(&without) || without != *stated {
        return Ok(None);
    }
    let there = there.into_inner();
    let is_it = |rule: &&Rule| rule.members.iter().any(|member| Some(member.text()) == there.as_deref());
    let Some(rule) = table.rules.iter().find(is_it) else { return Ok(None) };
    let Some(image) = images(rule, &dialect.id).0.first() else { return Ok(None) };
    let tensor = tensors.iter().find(|tensor| image.numbers(&tensor.name).is_some());
    let key = escape(key_of(table, &dialect.id, &entry.name), 80).to_string();
    let is_head = rule.role.as_deref() == Some("output");
    Ok(tensor.map(|tensor| Denied { key, stated: stated.clone(), tensor, is_head }))
}
