//! Records what a translation did with each key and tensor of its source, so that everything can be accounted
//! for.

use crate::architecture::table::dialect::canonical;
use crate::architecture::table::{Dialect, Table};
use std::collections::{HashMap, HashSet};

/// The reason for dropping a key that no table mentions.
const OF_FORM: &str = "is stated outside the configuration, and the output cannot hold it";

/// The keys in which a table's dialects state its configuration.
fn said(table: &Table) -> HashSet<String> {
    let keys = table.dialects.iter().flat_map(|dialect| &dialect.keys);
    let mut names: HashSet<String> = keys.map(|key| key.key.clone()).collect();
    for entry in &table.config {
        names.insert(entry.name.clone());
        names.extend(entry.names.iter().flat_map(|(_, names)| names).cloned());
    }
    names
}

/// A record of a translation.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    table: String,
    /// Keys of the source that state the configuration.
    used: HashSet<String>,
    /// Tensors and keys that the table drops, with the reason.
    tensors: HashMap<String, String>,
    from: Dialect,
    /// Names of the canonical configuration.
    names: HashSet<String>,
    /// Keys in which the table's dialects state the configuration.
    said: HashSet<String>,
    dialects: Vec<Dialect>,
}

impl Ledger {
    /// The ledger of a translation: keys that state the configuration, dropped tensors with reasons, and for
    /// all tensors the table's name and the file's.
    pub(super) fn new<'a>(
        table: &Table,
        from: &str,
        used: HashSet<String>,
        dropped: &[(String, String)],
        called: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Ledger {
        let mut tensors: HashMap<String, String> = dropped.iter().cloned().collect();
        for (own, file) in called.filter(|(own, file)| own != file) {
            if let Some(reason) = tensors.get(own).cloned() {
                tensors.entry(file.to_owned()).or_insert(reason);
            }
        }
        Ledger {
            table: table.id.clone(),
            used,
            tensors,
            from: table.dialect(from).cloned().unwrap_or_else(canonical),
            said: said(table),
            dialects: table.dialects.clone(),
            names: table.config.iter().map(|entry| entry.name.clone()).collect(),
        }
    }

    /// The id of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The reason for which the table drops a tensor.
    pub fn dropped_tensor(&self, name: &str) -> Option<&str> {
        self.tensors.get(name).map(String::as_str)
    }

    /// Returns whether a key states part of the configuration.
    pub fn is_used(&self, key: &str) -> bool {
        self.used.contains(key) && !self.from.ignores(key)
    }

    /// Returns whether the configuration has this canonical name.
    pub fn is_known(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns whether a key in any of the table's dialects states something that the table translates into
    /// the output, or that says nothing about the model.
    pub fn is_said(&self, key: &str) -> bool {
        self.said.contains(key) || self.dialects.iter().any(|dialect| dialect.ignores(key))
    }

    /// Returns whether a key was dropped only because of the source's form, as far as is known.
    pub fn is_of_form(rule: &str) -> bool {
        rule == OF_FORM
    }

    /// The reason for dropping something unknown.
    pub fn unknown(&self) -> String {
        format!("it is not in the table of `{}`", self.table)
    }

    /// The reason for dropping a key that states nothing; `first` says that it is in the file with the configuration.
    pub fn rule_of_key(&self, first: bool, key: &str) -> String {
        let own = self.from.prefix.as_deref().is_some_and(|prefix| key.starts_with(prefix));
        match self.from.reason(key).filter(|_| first) {
            Some(reason) => reason.to_owned(),
            None if first && (own || self.from.same_names) => self.unknown(),
            None => OF_FORM.to_owned(),
        }
    }
}
