//! NameMapper plugins: architecture tables, which the host's one engine interprets (design section 6).

use crate::Result;

/// Gives architecture tables as TOML text; their form is described in `plugins/architectures/README.md`.
pub trait NameMapper: Send + Sync {
    /// The table of one of the architectures that the manifest names.
    ///
    /// # Errors
    /// InvalidArgument for an id it lacks.
    fn table(&self, architecture: &str) -> Result<String>;
}
