//! The machine's threads: as a crew for loops, and as a team for compute backends. The system may refuse any of
//! them; the calling thread is always there.

mod granted_threads;
mod signal;
mod team;

use granted_threads::persistent;
pub use granted_threads::{Threads, on_stack};
pub use team::Team;
