//! Which classes of a dialect have a head.

use crate::architecture::language::members::{list, only, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::Error;
use toml::Table as Toml;

/// The classes whose models turn vectors into logits.
#[derive(Clone, Debug)]
pub struct Heads {
    /// The key that names a model's classes.
    pub key: String,
    /// Ends of the names of such classes.
    pub classes: Vec<String>,
    /// Keys of models that are used without their head, whatever the class.
    pub without: Vec<String>,
}

impl Heads {
    /// Parses a dialect's `heads`.
    ///
    /// # Errors
    /// InvalidArgument for an unknown member, or one that is missing.
    pub(in crate::architecture) fn read(toml: &Toml) -> Read<Heads> {
        only(toml, &["key", "classes", "without"], "`heads`")?;
        let key = words(toml, "key")?.ok_or_else(|| Error::invalid_argument("`heads` has no `key`"))?;
        Ok(Heads { key, classes: list(toml, "classes")?, without: list(toml, "without")? })
    }

    /// Whether a class has a head.
    pub fn has(&self, class: &str) -> bool {
        self.classes.iter().any(|end| class.ends_with(end.as_str()))
    }
}
