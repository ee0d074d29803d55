//! NameMapper plugins: architecture tables, which the host's one engine interprets. An outline: the manifest kind is
//! known, the host lists such plugins, and nothing calls them yet.

use crate::Result;

/// Gives architecture tables as TOML (design section 6).
pub trait NameMapper: Send + Sync {
    /// The ids of the architectures it has tables for.
    fn architectures(&self) -> Vec<String>;

    /// The table of one architecture, as TOML text.
    ///
    /// # Errors
    /// InvalidArgument for an id it lacks.
    fn table(&self, architecture: &str) -> Result<String>;
}
