//! The machine's threads: as a crew for loops, and as a team for compute backends. The system may refuse any of
//! them; the calling thread is always there.

mod granted_threads;
mod signal;
mod team;

pub use granted_threads::Threads;
pub use team::Team;

use std::thread::{self, JoinHandle};

/// Runs the program itself on a thread with a stack of this size; `None` if refused. Messages call it the
/// main thread.
pub fn on_stack<T: Send + 'static>(
    stack: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    thread::Builder::new().name("main".to_owned()).stack_size(stack).spawn(work).ok()
}

/// Starts a thread that lives as long as it has work; `None` if refused.
fn persistent(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).ok()
}
