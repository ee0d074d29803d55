//! What a model's names for itself say of it, where its files say it nowhere else.

use crate::architecture::language::members::{list, only, read_tables, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::Error;
use toml::Table as Toml;

/// Names that set a flag of the configuration.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Parts of the model's names, in lower case with hyphens, any of which is sufficient.
    parts: Vec<String>,
    /// The flag.
    pub sets: String,
}

impl Naming {
    /// Parses a dialect's `named` entries.
    ///
    /// # Errors
    /// InvalidArgument for an entry without parts, or without a name that it sets.
    pub(super) fn read(dialect: &Toml) -> Read<Vec<Naming>> {
        read_tables(dialect, "named", |entry| {
            only(entry, &["parts", "sets"], "`named`")?;
            let naming =
                Naming { parts: list(entry, "parts")?, sets: words(entry, "sets")?.unwrap_or_default() };
            if naming.parts.is_empty() || naming.sets.is_empty() {
                return Err(Error::invalid_argument("`named` requires `parts` and `sets`").into());
            }
            Ok(naming)
        })
    }

    /// Whether a model has such a name.
    pub fn fits(&self, names: &[String]) -> bool {
        self.parts.iter().any(|part| names.iter().any(|name| name.contains(part)))
    }
}
