//! Announces every change that publishing makes to names on disk before it is made, so that tests can end the
//! process, or make the change fail, at each.

use std::io;
use std::path::Path;

/// A change of names, or a sync that makes one durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a file or folder.
    Create,
    /// Renames a file or folder.
    Rename,
    /// Removes a name.
    Remove,
    /// Makes a file or folder durable.
    Sync,
}

/// Notified of each step before it happens.
pub trait Steps: Send + Sync {
    /// Called before `step` is applied to `path`.
    ///
    /// # Errors
    /// An error simulates the system's refusal of the step.
    fn before(&self, step: Step, path: &Path) -> io::Result<()>;
}

/// Lets every step happen.
pub struct Unwatched;

impl Steps for Unwatched {
    fn before(&self, _: Step, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
