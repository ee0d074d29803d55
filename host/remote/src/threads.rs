//! Threads that wait for the network. They do with fewer than were asked for.

use apr_sdk::{Error, Result};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, scope};

/// Starts up to `n` threads that all do the same; the first must start, and the others need not.
///
/// # Errors
/// Io if none starts.
pub fn start_all<T: Send + Sync + 'static>(
    n: usize,
    name: &str,
    shared: &Arc<T>,
    work: fn(&T),
) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::with_capacity(n);
    for _ in 0..n {
        let own = Arc::clone(shared);
        match Builder::new().name(name.to_owned()).spawn(move || work(&own)) {
            Ok(thread) => threads.push(thread),
            Err(_) if !threads.is_empty() => break,
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(threads)
}

/// Starts one thread.
///
/// # Errors
/// Io.
pub fn start<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<JoinHandle<R>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| failed(&error))
}

/// Does the same on this thread and on up to `n - 1` others, and waits for all.
pub fn side_by_side(n: usize, work: &(dyn Fn() + Sync)) {
    scope(|threads| {
        for _ in 1..n {
            if Builder::new().spawn_scoped(threads, work).is_err() {
                break;
            }
        }
        work();
    });
}

fn failed(error: &std::io::Error) -> Error {
    Error::io(format!("cannot start a thread: {error}"))
        .hint("raise the limit of processes (`ulimit -u`), or stop other programs")
}
