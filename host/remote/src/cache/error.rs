//! Converts the system's errors to ours.

use apr_sdk::Error;
use std::io::ErrorKind;
use std::path::Path;

/// The error of reading or writing `path`; `verb` is what was tried.
pub(super) fn io_error(error: &std::io::Error, verb: &str, path: &Path) -> Error {
    let converted = match error.kind() {
        ErrorKind::NotFound => Error::not_found("no such file or folder"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::io("the disk is full")
            .hint("free some space with `apr cache gc`, or set APR_CACHE to a folder on another disk"),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied | ErrorKind::NotADirectory => {
            Error::io(format!("cannot {verb}: {}", reason(error)))
                .hint("set APR_CACHE to a folder that you can write to")
        }
        _ => Error::io(format!("cannot {verb}: {}", reason(error))),
    };
    converted.in_file(path.display().to_string())
}

/// The system's words, without Rust's number behind them.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let bare = text.split_once(" (os error").map_or(text.as_str(), |(bare, _)| bare);
    let mut chars = bare.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
