//! Finds what a dialect's keys and computed tensors do not tell its readers about a configuration.

use crate::architecture::config::generation::{Part, follows_from, recover};
use crate::architecture::config::keys::value_of;
use crate::architecture::config::refusal::not_covered;
use crate::architecture::config::{Config, ConfigScope};
use crate::architecture::language::expression::{Scalar, same};
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::{ConfigName, Dialect, Table};
use apr_sdk::{Result, Value, escape};
use std::collections::BTreeSet;

/// What was written in a dialect.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The target's dialect.
    pub dialect: &'a Dialect,
    /// The keys that were written.
    pub keys: &'a [(String, Value)],
    /// Names and bytes of tensors computed from the configuration.
    pub computed: &'a [(String, Vec<u8>)],
}

/// What was written nowhere.
#[derive(Debug, Default)]
pub struct Lost {
    /// Configuration names without further consequences.
    pub names: Vec<String>,
    /// Consequences of others, in words.
    pub effects: Vec<String>,
}

/// Finds the configuration that the written data does not tell.
///
/// # Errors
/// Unsupported if some of it changes what the model computes; any error from reading and evaluating.
pub fn lost(scope: &ConfigScope<'_>, written: &Written<'_>) -> Result<Lost> {
    let config = scope.config;
    let whole = told(scope, written)?;
    let untold = config.beyond(&scope.over(&whole))?;
    // What only apr reads is carried, but other programs compute without it.
    let read = read_by_others(written);
    let others = told(scope, &Written { keys: &read, ..*written })?;
    let mut lost = Lost::default();
    let mut changes = Vec::new();
    for name in config.beyond(&scope.over(&others))? {
        let is_untold = untold.contains(&name);
        let (Some(entry), Some(value)) = (scope.table.entry(&name), config.get(&name)) else {
            lost.names.extend(is_untold.then_some(name));
            continue;
        };
        let shown = escape(&name, 80);
        let whose = &written.dialect.id;
        match (&entry.covers, &entry.effect) {
            (Some(covers), _) if covers.iter().any(|covered| same(covered, value)) => {}
            // What follows from others that are carried for apr is their effect.
            (Some(_), _) if !is_untold && follows(scope, entry, value)? => {}
            (Some(_), _) => {
                changes.push(format!("`{shown}` {value} (the dialect `{whose}` cannot represent it)"))
            }
            (None, Some((effect, when))) => {
                if when.as_ref().map_or(Ok(true), |when| when.holds(&scope.over(config)))? {
                    let how = if is_untold { "not carried over" } else { "carried over for apr only" };
                    lost.effects.push(format!("{how}: `{shown}` {value} of the configuration: {effect}"));
                } else {
                    lost.names.extend(is_untold.then_some(name));
                }
            }
            (None, None) => lost.names.extend(is_untold.then_some(name)),
        }
    }
    not_covered(scope.table, changes)?;
    Ok(lost)
}

/// Whether a file in a dialect states a name itself, and its class does not say it alone.
pub fn is_stated(
    table: &Table,
    dialect: &Dialect,
    lookup: &dyn Fn(&str) -> Option<Value>,
    name: &str,
) -> bool {
    let names = table.entry(name).into_iter().flat_map(|entry| names_in(entry, dialect));
    let keys = dialect.keys.iter().filter(|key| key.sets.iter().any(|(set, _)| set == name));
    let mut names = names.chain(keys.map(|key| key.key.as_str()));
    names.any(|name| dialect.roots.stated(name, lookup).is_some())
}

/// Whether a value is what the table's default makes of the other names.
fn follows(scope: &ConfigScope<'_>, entry: &ConfigName, value: &Scalar) -> Result<bool> {
    let Some(default) = &entry.default else { return Ok(false) };
    let default = default.value(&scope.over(scope.config))?;
    Ok(default.is_some_and(|default| same(&default, value)))
}

/// Fails for what a dialect cannot say and nobody computes: `used` are the names that decide what is computed.
///
/// # Errors
/// Unsupported, naming it; any error from reading, writing and evaluating.
pub fn refuse_unused(scope: &ConfigScope<'_>, dialect: &Dialect, used: &BTreeSet<String>) -> Result<()> {
    let config = scope.config;
    let open = scope.table.config.iter().filter(|entry| {
        entry.covers.is_some() && !used.contains(&entry.name) && config.get(&entry.name).is_some()
    });
    let mut open = open.peekable();
    if open.peek().is_none() {
        return Ok(());
    }
    let keys = scope.write(dialect)?;
    // A key that only apr reads says that the name is carried, not that the computation follows it.
    let keys = read_by_others(&Written { dialect, keys: &keys, computed: &[] });
    let read_back = told(scope, &Written { dialect, keys: &keys, computed: &[] })?;
    let untold = config.beyond(&scope.over(&read_back))?;
    let mut changes = Vec::new();
    for entry in open.filter(|entry| untold.contains(&entry.name)) {
        let (Some(value), Some(covers)) = (config.get(&entry.name), &entry.covers) else { continue };
        if !covers.iter().any(|covered| same(covered, value)) && !follows(scope, entry, value)? {
            changes.push(format!(
                "`{}` {value} (its effect on the computation is not defined)",
                escape(&entry.name, 80)
            ));
        }
    }
    not_covered(scope.table, changes)
}

/// The keys that other programs read too.
fn read_by_others(written: &Written<'_>) -> Vec<(String, Value)> {
    let Written { dialect, keys, .. } = written;
    let mut keys = keys.to_vec();
    keys.retain(|(path, _)| {
        !dialect.keys.iter().any(|key| key.unread && dialect.roots.path(&key.key) == *path)
    });
    keys
}

/// The configuration that a reader would find.
///
/// # Errors
/// Any error from reading and evaluating.
pub fn told(scope: &ConfigScope<'_>, written: &Written<'_>) -> Result<Config> {
    let Written { dialect, keys, computed } = written;
    let (mut told, _) = Config::read(scope.table, dialect, &|path| value_of(keys, path), scope.dimensions)?;
    for side in scope.table.rules.iter().filter_map(|rule| rule.side(&dialect.id)) {
        let (Some(generator), Some(image)) = (&side.generated, side.images.first()) else { continue };
        let parts = Part::all(image, computed.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())));
        if parts.is_empty() {
            continue;
        }
        if let Some(recovered) = recover(generator, &parts, scope)? {
            for (name, value) in recovered {
                told.set(&name, value);
            }
            continue;
        }
        // Names and values in the model's own words: even if the tensor cannot be traced back to them, it
        // conveys them.
        for name in follows_from(generator) {
            if let Some(value) = scope.config.get(name) {
                told.set(name, value.clone());
            }
        }
    }
    Ok(told)
}
