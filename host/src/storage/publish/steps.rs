//! Every change that publishing makes to names on disk is announced before it is made, so that tests can end the
//! process, or have the change fail, at each of them.

use std::io;
use std::path::Path;

/// A change of names, or what makes one durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file or folder is made.
    Create,
    /// A name becomes another.
    Rename,
    /// A name is removed.
    Remove,
    /// A file or folder is made durable.
    Sync,
}

/// Hears of each step before it is made.
pub trait Steps: Send + Sync {
    /// Called before `step` is done to `path`.
    ///
    /// # Errors
    /// One stands for the system's refusal of the step.
    fn before(&self, step: Step, path: &Path) -> io::Result<()>;
}

/// Lets every step happen.
pub struct Unwatched;

impl Steps for Unwatched {
    fn before(&self, _: Step, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
