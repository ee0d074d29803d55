//! NameMapper plugins: architecture tables, which the host's engine interprets.

use crate::Result;

/// Provides architecture tables as TOML text; `plugins/architectures/README.md` describes their form.
pub trait NameMapper: Send + Sync {
    /// The table of `architecture`, one of the ids that the manifest lists.
    ///
    /// # Errors
    /// InvalidArgument for any other id.
    fn table(&self, architecture: &str) -> Result<String>;
}
