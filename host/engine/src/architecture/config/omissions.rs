//! Finds what a dialect's keys and computed tensors do not tell its readers about a configuration.

use crate::architecture::config::generation::{Part, follows_from, recover};
use crate::architecture::config::refusal::not_covered;
use crate::architecture::config::{Config, ConfigScope, Dimensions};
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
pub fn lost(
    table: &Table,
    config: &Config,
    written: &Written<'_>,
    dimensions: Dimensions<'_>,
) -> Result<Lost> {
    let whole = told(table, config, written, dimensions)?;
    let untold = config.beyond(&ConfigScope::new(table, &whole, dimensions))?;
    // What only apr reads is carried, but other programs compute without it.
    let read = read_by_others(written);
    let others = told(table, config, &Written { keys: &read, ..*written }, dimensions)?;
    let (mut lost, mut changes) = (Lost::default(), Vec::new());
    for name in config.beyond(&ConfigScope::new(table, &others, dimensions))? {
        let is_untold = untold.contains(&name);
        let entry = table.config.iter().find(|entry| entry.name == name);
        let (Some(entry), Some(value)) = (entry, config.get(&name)) else {
            lost.names.extend(is_untold.then_some(name));
            continue;
        };
        let (shown, whose) = (escape(&name, 80), &written.dialect.id);
        match (&entry.covers, &entry.effect) {
            (Some(covers), _) if covers.iter().any(|one| same(one, value)) => {}
            // What follows from others that are carried for apr is their effect.
            (Some(_), _) if !is_untold && follows(table, config, entry, value, dimensions)? => {}
            (Some(_), _) => {
                changes.push(format!("`{shown}` {value} (the dialect `{whose}` cannot represent it)"))
            }
            (None, Some((effect, when))) => {
                let scope = ConfigScope::new(table, config, dimensions);
                if when.as_ref().map_or(Ok(true), |when| when.holds(&scope))? {
                    let how = if is_untold { "not carried over" } else { "carried over for apr only" };
                    lost.effects.push(format!("{how}: `{shown}` {value} of the configuration: {effect}"));
                } else {
                    lost.names.extend(is_untold.then_some(name));
                }
            }
            (None, None) => lost.names.extend(is_untold.then_some(name)),
        }
    }
    not_covered(table, changes)?;
    Ok(lost)
}

/// Whether a file in a dialect states a name itself, and its class does not say it alone.
pub fn is_stated(
    table: &Table,
    dialect: &Dialect,
    lookup: &dyn Fn(&str) -> Option<Value>,
    name: &str,
) -> bool {
    let entry = table.config.iter().find(|entry| entry.name == name);
    let keys = dialect.keys.iter().filter(|key| key.sets.iter().any(|(set, _)| set == name));
    let keys = keys.map(|key| key.key.as_str());
    let mut names = entry.into_iter().flat_map(|entry| names_in(entry, dialect)).chain(keys);
    names.any(|name| dialect.roots.stated(name, lookup).is_some())
}

/// Whether a value is what the table's default makes of the other names.
fn follows(
    table: &Table,
    config: &Config,
    entry: &ConfigName,
    value: &Scalar,
    dimensions: Dimensions<'_>,
) -> Result<bool> {
    let Some(default) = &entry.default else { return Ok(false) };
    let made = default.value(&ConfigScope::new(table, config, dimensions))?;
    Ok(made.is_some_and(|made| same(&made, value)))
}

/// Fails for what a dialect cannot say and nobody computes: `used` are the names that decide what is computed.
///
/// # Errors
/// Unsupported, naming it; any error from reading, writing and evaluating.
pub fn refuse_unused(
    table: &Table,
    config: &Config,
    dialect: &Dialect,
    used: &BTreeSet<String>,
    dimensions: Dimensions<'_>,
) -> Result<()> {
    let open = |entry: &&ConfigName| entry.covers.is_some() && !used.contains(&entry.name);
    let mut open =
        table.config.iter().filter(open).filter(|entry| config.get(&entry.name).is_some()).peekable();
    if open.peek().is_none() {
        return Ok(());
    }
    let keys = config.write(table, dialect, dimensions)?;
    // A key that only apr reads says that the name is carried, not that the computation follows it.
    let keys = read_by_others(&Written { dialect, keys: &keys, computed: &[] });
    let told = told(table, config, &Written { dialect, keys: &keys, computed: &[] }, dimensions)?;
    let untold = config.beyond(&ConfigScope::new(table, &told, dimensions))?;
    let mut changes = Vec::new();
    for entry in open.filter(|entry| untold.contains(&entry.name)) {
        let (Some(value), Some(covers)) = (config.get(&entry.name), &entry.covers) else { continue };
        if !covers.iter().any(|one| same(one, value)) && !follows(table, config, entry, value, dimensions)? {
            changes.push(format!(
                "`{}` {value} (its effect on the computation is not defined)",
                escape(&entry.name, 80)
            ));
        }
    }
    not_covered(table, changes)
}

/// The keys that other programs read too.
fn read_by_others(written: &Written<'_>) -> Vec<(String, Value)> {
    let Written { dialect, keys, .. } = written;
    let unread =
        |path: &str| dialect.keys.iter().any(|key| key.unread && dialect.roots.path(&key.key) == path);
    keys.iter().filter(|(path, _)| !unread(path)).cloned().collect()
}

/// The configuration that a reader would find.
///
/// # Errors
/// Any error from reading and evaluating.
pub fn told(
    table: &Table,
    config: &Config,
    written: &Written<'_>,
    dimensions: Dimensions<'_>,
) -> Result<Config> {
    let Written { dialect, keys, computed } = written;
    let lookup = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (mut told, _) = Config::read(table, dialect, &lookup, dimensions)?;
    for side in table.rules.iter().filter_map(|rule| rule.side(&dialect.id)) {
        let (Some(what), Some(image)) = (&side.generated, side.images.first()) else { continue };
        let parts = Part::all(image, computed.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())));
        if parts.is_empty() {
            continue;
        }
        // Names and values in the model's own words: even if the tensor cannot be traced back to them, it
        // conveys them.
        let own = |name: &&str| Some(((*name).to_owned(), config.get(name)?.clone()));
        let recovered = recover(what, &parts, table, config, dimensions)?;
        let recovered = recovered.unwrap_or_else(|| follows_from(what).iter().filter_map(own).collect());
        for (name, value) in recovered {
            told.set(&name, value);
        }
    }
    Ok(told)
}
