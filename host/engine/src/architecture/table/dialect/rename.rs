//! Names in some files that start or end differently from the table's.

use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{expression, list, only, read_tables, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::{Error, Result};
use toml::Table as Toml;

/// A different start or a different end.
#[derive(Clone, Debug)]
pub struct Rename {
    /// What such names start with.
    pub start: Option<String>,
    /// What such names end with.
    pub end: Option<String>,
    /// The table's text in its place.
    pub to: String,
    /// The condition for writing names from another dialect this way too.
    pub written: Option<Expression>,
    /// Starts of names that are not written this way.
    pub but: Vec<String>,
}

impl Rename {
    /// Parses a dialect's `rename` entries.
    ///
    /// # Errors
    /// InvalidArgument for an entry without exactly one of `start` and `end`, or without `to`.
    pub(in crate::architecture) fn read(dialect: &Toml) -> Read<Vec<Rename>> {
        read_tables(dialect, "rename", Rename::entry)
    }

    fn entry(toml: &Toml) -> Read<Rename> {
        only(toml, &["start", "end", "to", "written", "but"], "a rename")?;
        let rename = Rename {
            start: words(toml, "start")?,
            end: words(toml, "end")?,
            to: words(toml, "to")?.ok_or_else(|| Error::invalid_argument("a rename has no `to`"))?,
            written: expression(toml, "written")?,
            but: list(toml, "but")?,
        };
        if rename.start.is_some() == rename.end.is_some() {
            return Err(Error::invalid_argument("a rename requires `start` or `end`").into());
        }
        Ok(rename)
    }

    /// The table's name for a file's, if it applies.
    pub fn apply(&self, name: &str) -> Option<String> {
        let middle = name.strip_prefix(self.start.as_deref().unwrap_or_default())?;
        let middle = middle.strip_suffix(self.end.as_deref().unwrap_or_default())?;
        Some(match self.start {
            Some(_) => format!("{}{middle}", self.to),
            None => format!("{middle}{}", self.to),
        })
    }

    /// Whether names from other dialects are written this way in a model with this configuration.
    ///
    /// # Errors
    /// Any error from evaluating the condition.
    pub fn is_written(&self, scope: &dyn Scope) -> Result<bool> {
        self.written.as_ref().map_or(Ok(false), |when| when.holds(scope))
    }

    /// The file's name for the table's, if names are written this way.
    pub fn undo(&self, name: &str) -> Option<String> {
        if self.but.iter().any(|start| name.starts_with(start)) {
            return None;
        }
        Some(match (&self.start, &self.end) {
            (Some(start), _) => format!("{start}{}", name.strip_prefix(&self.to)?),
            (None, Some(end)) => format!("{}{end}", name.strip_suffix(&self.to)?),
            (None, None) => return None,
        })
    }
}
