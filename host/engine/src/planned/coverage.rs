//! The destinations of everything in a source.

use crate::architecture::Ledger;
use crate::wording::n_of;
use apr_sdk::escape;
use serde::Serialize;
use std::sync::Arc;

/// The destinations of a source's tensors and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The source's tensors.
    pub tensors: Account,
    /// The source's keys: the typed metadata of every format, and the architecture's configuration.
    pub keys: Account,
    /// Tokens of the source that the output's tokenizer lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_tokens: Vec<Dropped>,
    /// Tensors of the output that the user renamed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<Renamed>,
}

/// The destinations of all tensors, or all keys. The four lists together have `total` entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Number in the source.
    pub total: usize,
    /// Those that an architecture's table translates into the output.
    pub mapped: Vec<String>,
    /// Those that are unchanged in the output.
    pub carried: Vec<String>,
    /// Those that the output states in its own form: the tokenizer's, the model card's.
    pub restated: Vec<String>,
    /// Those that are missing from the output.
    pub dropped: Vec<Dropped>,
}

/// Something that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The tensor, key or token.
    pub name: String,
    /// The rule that dropped it, as a reason.
    pub rule: String,
}

impl Account {
    /// Records that `rule` drops it.
    pub fn drop_by(&mut self, name: &str, rule: &str) {
        self.dropped.push(Dropped { name: name.to_owned(), rule: rule.to_owned() });
    }
}

impl Coverage {
    /// The summary's note about keys outside the configuration that the output lacks, if there are any; other
    /// notes report what the table drops.
    pub fn missed(&self) -> Option<String> {
        const SHOWN: usize = 5;
        let missed = self.keys.dropped.iter().filter(|dropped| Ledger::is_of_form(&dropped.rule));
        let names: Vec<String> = missed.map(|dropped| escape(&dropped.name, 80).to_string()).collect();
        if names.is_empty() {
            return None;
        }
        let more = names.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(", and {more} more (-v lists them)") } else { String::new() };
        let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        Some(format!(
            "not carried over: {} outside the configuration: {shown}{more}",
            n_of(names.len(), "key")
        ))
    }

    /// Everything that was dropped and why, one line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let tokens = self.dropped_tokens.iter().map(|d| format!("dropped token {}: {}", d.name, d.rule));
        let accounts =
            [(&self.tensors, "tensor"), (&self.keys, "key")].into_iter().flat_map(|(account, noun)| {
                let names = [
                    (&account.mapped, "mapped"),
                    (&account.carried, "carried"),
                    (&account.restated, "restated"),
                ];
                let names = names.into_iter().flat_map(move |(names, what)| {
                    names.iter().map(move |name| format!("{what} {noun} {}", escape(name, 200)))
                });
                let lines = account.dropped.iter();
                let lines =
                    lines.map(move |d| format!("dropped {noun} {}: {}", escape(&d.name, 200), d.rule));
                names.chain(lines)
            });
        let renamed = self.renamed.iter().map(|one| {
            format!("renamed tensor {} to {}: {}", escape(&one.name, 200), escape(&one.to, 200), one.rule)
        });
        accounts.chain(tokens).chain(renamed)
    }
}

/// A tensor that the user renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renamed {
    /// The name it would have had.
    pub name: String,
    /// The name it has.
    pub to: String,
    /// The reason: the user's rule, or the tensor that it follows.
    pub rule: String,
    /// Index of the tensor in the output.
    #[serde(skip)]
    pub number: usize,
}

/// The fate of a tensor of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Selected, under this name.
    Called(String),
    /// Left out, for this reason.
    Left(Arc<str>),
}
