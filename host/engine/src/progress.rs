//! Progress reports of long-running work. The library never prints.

use apr_sdk::LogLevel;

/// Receives progress of the current work; called from several threads.
pub trait Progress: Send + Sync {
    /// `done` of `total` bytes are finished; `what` is the tensor being worked on.
    fn bytes(&self, done: u64, total: u64, what: &str);

    /// Work begins of which nothing is counted yet, or has ended.
    fn stage(&self, _what: Option<&str>) {}

    /// A plugin logged a message.
    fn log(&self, level: LogLevel, message: &str);

    /// The engine warns of something that makes the result doubtful.
    fn warn(&self, message: &str) {
        self.log(LogLevel::Warning, message);
    }
}

/// Work that is shown for as long as this lives, by its name or by how far it is.
pub struct Stage<'p>(&'p dyn Progress);

impl<'p> Stage<'p> {
    /// Shows work of this name.
    pub fn new(progress: &'p dyn Progress, what: &str) -> Stage<'p> {
        progress.stage(Some(what));
        Stage(progress)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.0.stage(None);
    }
}

/// Ignores everything.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _done: u64, _total: u64, _what: &str) {}

    fn log(&self, _level: LogLevel, _message: &str) {}
}
