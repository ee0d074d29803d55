//! Where everything of a source went: every tensor and every key is mapped, carried or dropped by a rule that has a name.

use crate::architecture::Ledger;
use crate::making::{Making, Piece, RowScale};
use crate::wording::n_of;
use apr_sdk::{Error, Model, Result, escape};
use serde::Serialize;
use std::collections::HashSet;

/// Where the tensors and the keys of a source went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Its tensors.
    pub tensors: Account,
    /// Its keys: the typed metadata of every format, and the configuration of its architecture.
    pub keys: Account,
}

/// Where things of one sort went. The three lists together have `total` entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// How many the source has.
    pub total: usize,
    /// Those that an architecture's table leads to the output.
    pub mapped: Vec<String>,
    /// Those that are in the output as they were.
    pub carried: Vec<String>,
    /// Those that are not.
    pub dropped: Vec<Dropped>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Its name.
    pub name: String,
    /// Why.
    pub rule: String,
}

impl Account {
    fn drop_by(&mut self, name: &str, rule: &str) {
        self.dropped.push(Dropped { name: name.to_owned(), rule: rule.to_owned() });
    }

    fn figures(&self, noun: &str) -> String {
        let [mapped, carried, dropped] = [self.mapped.len(), self.carried.len(), self.dropped.len()];
        format!("{}: {mapped} mapped, {carried} carried, {dropped} dropped", n_of(self.total, noun))
    }
}

impl Coverage {
    /// The figures in a line, for the summary.
    pub fn summary(&self) -> String {
        format!("{}; {}", self.tensors.figures("tensor"), self.keys.figures("key"))
    }

    /// Everything that was dropped, and why: a line each.
    pub fn lines(&self) -> Vec<String> {
        let of = |account: &Account, noun: &str| -> Vec<String> {
            let line = |d: &Dropped| format!("dropped {noun} {}: {}", escape(&d.name, 200), d.rule);
            let names = |names: &[String], what: &str| -> Vec<String> {
                names.iter().map(|name| format!("{what} {noun} {}", escape(name, 200))).collect()
            };
            let mut lines = names(&account.mapped, "mapped");
            lines.extend(names(&account.carried, "carried"));
            lines.extend(account.dropped.iter().map(line));
            lines
        };
        [of(&self.tensors, "tensor"), of(&self.keys, "key")].concat()
    }
}

/// Accounts for everything of `source` in `planned`, whose tensors `makings` make; `called` is what a renaming made of the
/// source's names, and `ledger` has what a translation did.
///
/// # Errors
/// Failed for a tensor that no output uses, and no rule drops.
pub fn account(
    source: &Model,
    called: &[Option<String>],
    planned: &Model,
    makings: &[Making],
    ledger: Option<&Ledger>,
) -> Result<Coverage> {
    let mut coverage = Coverage::default();
    let used: HashSet<usize> = makings
        .iter()
        .flat_map(|making| &making.pieces)
        .filter_map(|piece| match piece {
            Piece::Box { tensor, .. } => Some(*tensor),
            Piece::Bytes(_) => None,
        })
        .chain(makings.iter().filter_map(|making| match making.row_scale {
            Some(RowScale::Undone { tensor, .. }) => Some(tensor),
            _ => None,
        }))
        .collect();
    let tensors = &mut coverage.tensors;
    tensors.total = source.tensors.len();
    for (number, (tensor, called)) in source.tensors.iter().zip(called).enumerate() {
        let rule = match called {
            Some(name) => ledger.and_then(|ledger| ledger.dropped_tensor(name)),
            None => Some("it does not lie below the path that was asked for"),
        };
        match (rule, used.contains(&number)) {
            (Some(rule), false) => tensors.drop_by(&tensor.name, rule),
            (_, true) if ledger.is_some() => tensors.mapped.push(tensor.name.clone()),
            (_, true) => tensors.carried.push(tensor.name.clone()),
            // Who makes a model anew without a table answers for it.
            (None, false) if ledger.is_none() => tensors.drop_by(&tensor.name, "it was not asked for"),
            (None, false) => {
                let message = "nothing of the output is made of it, and no rule leaves it out";
                let hint = "this is a fault of the architecture's table: --arch none keeps every tensor";
                return Err(Error::failed(message).tensor(&tensor.name).hint(hint));
            }
        }
    }
    keys(source, planned, ledger, &mut coverage.keys);
    Ok(coverage)
}

fn keys(source: &Model, planned: &Model, ledger: Option<&Ledger>, keys: &mut Account) {
    for foreign in &source.foreign {
        let own = ledger.filter(|_| foreign.format == source.format);
        let kept = planned.foreign_of(&foreign.format).into_iter().flat_map(|kept| &kept.files);
        let kept: HashSet<&str> = kept.flat_map(|file| &file.typed).map(|(key, _)| key.as_str()).collect();
        for (at, file) in foreign.files.iter().enumerate() {
            for (key, _) in &file.typed {
                let name = if file.name.is_empty() { key.clone() } else { format!("{}: {key}", file.name) };
                keys.total += 1;
                // Only the first file has the architecture's configuration.
                let first = at == 0;
                match own {
                    Some(ledger) if first && ledger.is_used(key) => keys.mapped.push(name),
                    _ if kept.contains(key.as_str()) => keys.carried.push(name),
                    Some(ledger) => keys.drop_by(&name, &ledger.rule_of_key(first, key)),
                    None => {
                        keys.drop_by(&name, &format!("metadata of {}, which is not carried", foreign.format))
                    }
                }
            }
        }
    }
    // Keys of a canonical configuration have no format.
    let Some(architecture) = &source.architecture else { return };
    let stated = architecture.config.inline().and_then(|json| serde_json::from_slice(json).ok());
    let Some(serde_json::Value::Object(stated)) = stated else { return };
    for key in stated.keys() {
        keys.total += 1;
        match ledger {
            Some(ledger) if !ledger.is_known(key) => keys.drop_by(key, &ledger.unknown()),
            Some(_) => keys.mapped.push(key.clone()),
            None if planned.architecture.is_some() => keys.carried.push(key.clone()),
            None => keys.drop_by(key, "the output has no place for a configuration"),
        }
    }
}
