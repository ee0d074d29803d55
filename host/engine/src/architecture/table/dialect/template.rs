//! Chat templates that a dialect's readers want of some models beside the models' own.

use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{expression, only, read_tables, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::{Error, Result};
use toml::Table as Toml;

/// A chat template of the table's own.
#[derive(Clone, Debug)]
pub struct Template {
    /// The name that readers know it by.
    pub name: String,
    /// The text.
    pub text: String,
    when: Option<Expression>,
}

impl Template {
    /// Parses a dialect's `template` entries.
    ///
    /// # Errors
    /// InvalidArgument for an entry without a name or without a text.
    pub(super) fn read(dialect: &Toml) -> Read<Vec<Template>> {
        read_tables(dialect, "template", |entry| {
            only(entry, &["name", "text", "when"], "`template`")?;
            let template = Template {
                name: words(entry, "name")?.unwrap_or_default(),
                text: words(entry, "text")?.unwrap_or_default(),
                when: expression(entry, "when")?,
            };
            if template.name.is_empty() || template.text.is_empty() {
                return Err(Error::invalid_argument("`template` requires `name` and `text`").into());
            }
            Ok(template)
        })
    }

    /// Whether a model of this configuration has it.
    ///
    /// # Errors
    /// Any error from evaluating the condition.
    pub fn applies(&self, scope: &dyn Scope) -> Result<bool> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(scope))
    }

    /// The condition.
    pub(in crate::architecture) fn condition(&self) -> Option<&Expression> {
        self.when.as_ref()
    }
}
