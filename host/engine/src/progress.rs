//! Progress reports of long-running work. The library never prints.

use apr_sdk::LogLevel;

/// Receives progress of the current work; called from several threads.
pub trait Progress: Send + Sync {
    /// `done` of `total` bytes are finished; `what` is the tensor being worked on.
    fn bytes(&self, done: u64, total: u64, what: &str);

    /// A plugin logged a message.
    fn log(&self, level: LogLevel, message: &str);

    /// The engine warns of something that makes the result doubtful.
    fn warn(&self, message: &str) {
        self.log(LogLevel::Warning, message);
    }
}

/// Ignores everything.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _done: u64, _total: u64, _what: &str) {}

    fn log(&self, _level: LogLevel, _message: &str) {}
}
