//! Architectures are data (design section 6): tables say what each tensor and key is called in each dialect, and this
//! engine translates a model from one to another.

mod array;
mod base;
mod called;
mod check;
mod codes;
mod concerns;
mod config;
mod counts;
mod draft;
mod expected;
mod expression;
mod forward;
mod generate;
mod group;
mod ledger;
mod lost;
mod model;
mod nearest;
mod operation;
mod pattern;
mod refusal;
mod table;
mod translate;

pub use called::called;
pub use check::{Findings, Tried, check, try_on};
pub use concerns::{Concern, Concerns, ContractTensor, concerns, contract};
pub use draft::draft;
pub use expected::{Expected, Figure};
pub use forward::{Forward, forward};
pub use ledger::Ledger;
pub use model::{Wishes, translate_model};
pub use pattern::Pattern;
pub use table::Table;

use crate::registry::Registry;
use apr_sdk::{Error, Result, Value, escape};

/// The tables that are present.
pub struct Tables {
    tables: Vec<Table>,
    broken: Vec<(String, Error)>,
}

impl Tables {
    /// Parses the tables of every plugin, and those that lie in plugin folders. One that is wrong hides no other.
    pub fn load(registry: &Registry) -> Tables {
        let text = |id: &str| registry.architecture(id);
        let bases = base::Bases::new(&text);
        let mut all = Tables { tables: Vec::new(), broken: Vec::new() };
        for id in registry.architectures() {
            match registry.architecture(id).and_then(|text| Table::on(&text, &bases)) {
                Ok(table) => all.tables.push(table),
                Err(error) => all.broken.push((id.to_owned(), error)),
            }
        }
        all
    }

    /// The tables that are wrong, and what is wrong.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.broken.iter().map(|(id, error)| (id.as_str(), error))
    }

    /// The tables of architectures, bases aside.
    pub fn all(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| !table.is_base)
    }

    /// The table of an architecture.
    ///
    /// # Errors
    /// InvalidArgument for an architecture without one, or with a wrong one.
    pub fn find(&self, id: &str) -> Result<&Table> {
        if let Some((_, error)) = self.broken.iter().find(|(broken, _)| broken == id) {
            return Err(error.clone());
        }
        self.all().find(|table| table.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.all().map(|table| table.id.as_str()).collect();
            let message = format!("no table for architecture `{}`", escape(id, 80));
            Error::invalid_argument(message).hint(format!("known are {}, and none", known.join(", ")))
        })
    }

    /// The table that a model's keys in `dialect` mark: the one of which most conditions hold.
    ///
    /// # Errors
    /// InvalidArgument if two fit equally well.
    pub fn detect(&self, dialect: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Result<Option<&Table>> {
        let marks = |table: &Table| table.dialect(dialect).and_then(|d| config::marks(d, lookup));
        let mut found: Vec<(usize, &Table)> =
            self.all().filter_map(|table| marks(table).map(|n| (n, table))).collect();
        found.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        match found[..] {
            [] => Ok(None),
            [(n, first), (m, second), ..] if n == m => {
                let message = format!("the model could be of architecture `{}` or `{}`", first.id, second.id);
                Err(Error::invalid_argument(message).hint("choose one: --arch ID"))
            }
            [(_, first), ..] => Ok(Some(first)),
        }
    }
}
