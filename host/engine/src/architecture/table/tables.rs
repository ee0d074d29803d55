//! The available tables. A table is parsed on demand; the heads tell which one a model belongs to.

use crate::architecture::table::Table;
use crate::architecture::table::base::Bases;
use crate::architecture::table::head::{Head, cut};
use crate::registry::{Registry, TableTexts};
use apr_sdk::{Error, Result, Value, escape};
use std::sync::{Arc, OnceLock};

/// Returns the text of a table by its id.
type TextOf = Box<dyn Fn(&str) -> Result<String> + Send + Sync>;

/// The available tables.
pub struct Tables {
    slots: Vec<Slot>,
    bases: Bases<TextOf>,
    heads_of_bases: Bases<TextOf>,
}

/// A table that a plugin provides.
struct Slot {
    id: String,
    /// Its file, if it is one of its own.
    file: Option<String>,
    /// `None` if it is broken.
    head: OnceLock<Option<Head>>,
    whole: OnceLock<Result<Table>>,
}

impl Tables {
    /// The tables of every plugin, and those in plugin folders. A broken one does not hide the others.
    pub fn of(registry: &Registry) -> Tables {
        let texts: Arc<TableTexts> = Arc::new(registry.table_texts());
        let slots = texts.ids().map(|id| Slot {
            id: id.to_owned(),
            file: registry.table_file(id).map(|path| path.display().to_string()),
            head: OnceLock::new(),
            whole: OnceLock::new(),
        });
        let slots = slots.collect();
        let again = Arc::clone(&texts);
        let text: TextOf = Box::new(move |id| texts.get(id));
        let head: TextOf = Box::new(move |id| again.get(id).map(|text| cut(&text).into_owned()));
        Tables { slots, bases: Bases::new(text), heads_of_bases: Bases::new(head) }
    }

    fn whole<'t>(&'t self, slot: &'t Slot) -> Result<&'t Table> {
        let whole = slot.whole.get_or_init(|| {
            let text = self.bases.text(&slot.id)?;
            Table::on(&text, &self.bases).map_err(|error| match &slot.file {
                Some(file) => error.in_file(file),
                None => error,
            })
        });
        whole.as_ref().map_err(Error::clone)
    }

    /// The heads of the tables of architectures, without bases and those known to be broken.
    fn heads(&self) -> impl Iterator<Item = (&Slot, &Head)> {
        let heads = self.slots.iter().filter_map(move |slot| {
            let head = slot.head.get_or_init(|| {
                let text = self.heads_of_bases.text(&slot.id).ok()?;
                Head::on(&text, &self.heads_of_bases).ok()
            });
            Some((slot, head.as_ref()?))
        });
        heads.filter(|(_, head)| !head.is_base)
    }

    /// The broken tables with their errors.
    pub fn broken(&self) -> impl Iterator<Item = (&str, Error)> {
        self.slots.iter().filter_map(|slot| Some((slot.id.as_str(), self.whole(slot).err()?)))
    }

    /// The tables of architectures, without bases.
    pub fn all(&self) -> impl Iterator<Item = &Table> {
        self.slots.iter().filter_map(|slot| self.whole(slot).ok()).filter(|table| !table.is_base)
    }

    /// How many tables build on this one.
    pub(in crate::architecture) fn built_on(&self, id: &str) -> usize {
        let line = format!("\nbase = \"{id}\"\n");
        self.slots
            .iter()
            .filter(|slot| self.bases.text(&slot.id).is_ok_and(|text| text.contains(&line)))
            .count()
    }

    /// The table of an architecture.
    ///
    /// # Errors
    /// InvalidArgument for an architecture without a table, or with a broken one.
    pub fn find(&self, id: &str) -> Result<&Table> {
        // Plugins name their tables by id; if this one does not, search them all.
        if let Some(slot) = self.slots.iter().find(|slot| slot.id == id) {
            let table = self.whole(slot)?;
            if table.id == id && !table.is_base {
                return Ok(table);
            }
        }
        self.all().find(|table| table.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.all().map(|table| table.id.as_str()).collect();
            let message = format!("no table for architecture `{}`", escape(id, 80));
            Error::invalid_argument(message).hint(format!("use one of {}, or none", known.join(", ")))
        })
    }

    /// The table that a model's keys in `dialect` mark: the one with most conditions fulfilled.
    ///
    /// # Errors
    /// InvalidArgument if two fit equally well, or if the one that fits best is broken.
    pub fn detect(&self, dialect: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Result<Option<&Table>> {
        let marked = self.heads().filter_map(|(slot, head)| Some((head.marks(dialect, lookup)?, slot)));
        let mut found: Vec<(usize, &Table)> = Vec::new();
        let mut broken: Vec<(usize, Error)> = Vec::new();
        for (n, slot) in marked {
            match self.whole(slot) {
                Ok(table) => found.push((n, table)),
                Err(error) => broken.push((n, error)),
            }
        }
        found.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        // The table that is meant must not give way to one that fits less well.
        let most = found.first().map_or(0, |(n, _)| *n);
        if let Some((_, error)) = broken.into_iter().filter(|(n, _)| *n > most).max_by_key(|(n, _)| *n) {
            return Err(
                error.hint("run `apr arch check FILE.toml` on that table, or specify another with --arch ID")
            );
        }
        match found[..] {
            [] => Ok(None),
            [(n, first), (m, second), ..] if n == m => {
                let message =
                    format!("the model matches both architecture `{}` and `{}`", first.id, second.id);
                Err(Error::invalid_argument(message).hint("specify one with --arch ID"))
            }
            [(_, first), ..] => Ok(Some(first)),
        }
    }

    /// The architectures that a model's keys in `dialect` would mark if it stated more, with the keys it
    /// lacks.
    pub(in crate::architecture) fn nearly<'t>(
        &'t self,
        dialect: &str,
        lookup: &dyn Fn(&str) -> Option<Value>,
    ) -> Vec<(&'t str, Vec<&'t str>)> {
        let nearly = self.heads().filter_map(|(slot, head)| {
            let lacking = head.unstated(dialect, lookup)?;
            Some((self.whole(slot).ok()?.id.as_str(), lacking))
        });
        nearly.collect()
    }

    /// The dialect's keys that identify architectures, sorted.
    pub(in crate::architecture) fn marking_keys(&self, dialect: &str) -> Vec<String> {
        let mut keys: Vec<String> =
            self.heads().flat_map(|(_, head)| head.marking_keys(dialect)).map(str::to_owned).collect();
        keys.sort();
        keys.dedup();
        keys
    }
}
