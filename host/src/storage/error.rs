//! The system's errors as ours.

use apr_sdk::Error;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// An I/O error as ours: NotFound has its own exit code.
pub fn io_error(error: &std::io::Error, verb: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found("no such file or folder"),
        std::io::ErrorKind::StorageFull => {
            Error::io("the disk is full").hint("free some space, or write elsewhere")
        }
        std::io::ErrorKind::FileTooLarge => {
            Error::io(format!("cannot {verb}: a file may not become this large here"))
                .hint("raise the limit (`ulimit -f`), or write to a file system that takes larger files")
        }
        _ if error.raw_os_error().map(Errno::from_raw_os_error) == Some(Errno::MFILE) => {
            // The soft limit was raised to the hard one when the program began.
            let may = getrlimit(Resource::Nofile).current.map(|n| format!("{n} ")).unwrap_or_default();
            Error::io(format!("cannot {verb}: apr may have no more than {may}files open at once")).hint(
                "raise the hard limit (`ulimit -Hn`), which needs the administrator: apr uses all of it",
            )
        }
        _ => Error::io(format!("cannot {verb}: {error}")),
    }
}
