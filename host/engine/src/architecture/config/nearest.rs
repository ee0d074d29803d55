//! Finds the table closest to a model that none fits: for messages, and as the basis of a draft.

use crate::architecture::config::Config;
use crate::architecture::language::expression::same;
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::dialect::roots::Lookup;
use crate::architecture::table::rule::images;
use crate::architecture::table::tables::Tables;
use crate::architecture::table::{CANONICAL, Rule, Source, Table};
use std::cmp::Reverse;
use std::collections::HashMap;

/// How many tables build on one whose models others follow.
const MANY: usize = 5;

/// How well a table knows a model's names in one of its dialects.
pub struct Near<'t> {
    /// The candidate table.
    pub table: &'t Table,
    /// The dialect compared.
    pub dialect: String,
    /// How many of the names it knows.
    pub known: usize,
}

impl Tables {
    /// The table that knows most of `names` in `dialect`, or in any if that is `none`; among several the one
    /// that the configuration fits best, then one that many tables build on, then the one that requires the fewest other
    /// names. `lookup` returns the model's keys.
    pub fn nearest(&self, names: &[&str], dialect: &str, lookup: Lookup<'_>) -> Option<Near<'_>> {
        let kinds = kinds(names);
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        let mut near: Vec<Near<'_>> = Vec::new();
        for table in self.all() {
            let own = table.dialects.iter().map(|d| d.id.as_str());
            for id in own.filter(|id| dialect == "none" || dialect == *id || dialect == CANONICAL) {
                let known = kinds.iter().filter(|(name, _)| knows(table, id, name)).map(|(_, n)| n).sum();
                near.push(Near { table, dialect: id.to_owned(), known });
            }
        }
        let most = near.iter().map(|near| near.known).max().filter(|most| *most > 0)?;
        // Among equals, the first.
        near.into_iter().filter(|near| near.known == most).rev().max_by_key(|near| {
            let lacks = lacking(near.table, &near.dialect, &names).count();
            let misfits = misfits(near.table, &near.dialect, lookup);
            let built = self.built_on(&near.table.id);
            (Reverse(misfits), built >= MANY, Reverse(lacks), built)
        })
    }
}

/// How many values of a configuration the table does not cover, and how many of its places they do not count.
fn misfits(table: &Table, dialect: &str, lookup: Lookup<'_>) -> usize {
    let own = canonical();
    let dialect = table.dialect(dialect).unwrap_or(&own);
    let Ok((config, _)) = Config::read(table, dialect, lookup, &|_, _| None) else { return usize::MAX };
    let mut misfits = 0;
    for entry in table.config.iter().filter(|entry| !is_carried(table, &entry.name)) {
        let (Some(covers), Some(value)) = (&entry.covers, config.get(&entry.name)) else { continue };
        if !covers.is_empty() && !covers.iter().any(|covered| same(covered, value)) {
            misfits += 1;
        }
    }
    for (_, count) in &table.places {
        if count.names().iter().any(|name| config.get(name).is_none()) {
            misfits += 1;
        }
    }
    // What no model is recognised by is another table's part.
    misfits + table.dialects.iter().filter(|dialect| dialect.detect.is_empty()).count()
}

/// Returns whether other programs read a name of the configuration in any of the table's dialects.
fn is_carried(table: &Table, name: &str) -> bool {
    let mut keys = table.dialects.iter().flat_map(|dialect| &dialect.keys).filter(|key| !key.unread);
    keys.any(|key| match &key.value {
        Source::Expression(value) => value.names().iter().any(|own| own == name),
        Source::Constant(_) => false,
    })
}

/// Names that differ only in numbers are of one kind: the first of each kind, and their number. If there are
/// more kinds than any architecture has, the first ones are sufficient.
fn kinds<'n>(names: &[&'n str]) -> Vec<(&'n str, usize)> {
    const MOST: usize = 1000;
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for name in names {
        let words = name.split('.').map(|word| if is_number(word) { "0" } else { word });
        let kind = words.collect::<Vec<_>>().join(".");
        match numbers.get(&kind) {
            Some(&number) => kinds[number].1 += 1,
            None if kinds.len() < MOST => {
                numbers.insert(kind, kinds.len());
                kinds.push((name, 1));
            }
            None => {}
        }
    }
    kinds
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a table knows a tensor of a dialect, even if it is dropped or renamed.
pub(in crate::architecture) fn knows(table: &Table, dialect: &str, name: &str) -> bool {
    table.names(dialect, name) || table.own_name(dialect, name).is_some()
}

/// The rules that every model of the table has but none of `names` matches.
pub(in crate::architecture) fn missing<'t>(
    table: &'t Table,
    dialect: &str,
    names: &[&str],
) -> impl Iterator<Item = &'t Rule> {
    lacking(table, dialect, names).filter(|rule| rule.when.is_none())
}

/// The rules that models of the table usually have but none of `names` matches.
fn lacking<'t>(table: &'t Table, dialect: &str, names: &[&str]) -> impl Iterator<Item = &'t Rule> {
    let own = names.iter().map(|name| table.own_name(dialect, name).unwrap_or_else(|| (*name).to_owned()));
    let names: Vec<String> = own.collect();
    table.rules.iter().filter(move |rule| {
        let (patterns, side) = images(rule, dialect);
        let is_dropped = side.is_some_and(|side| side.dropped.is_some());
        let has = names.iter().any(|name| patterns.iter().any(|pattern| pattern.numbers(name).is_some()));
        rule.is_required() && !is_dropped && !has
    })
}
