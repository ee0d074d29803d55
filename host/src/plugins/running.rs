//! Tracks which plugin this thread is in, so that it can be named if a signal ends the process there.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

/// A call into a plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// `plugin `x` 1.0`, escaped.
    pub whose: &'static str,
    /// The activity: `opening`.
    pub doing: &'static str,
}

thread_local! {
    // No destructor and no lazy initialization: a signal handler may read it.
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// The innermost plugin call of this thread.
pub(super) fn running() -> Option<Running> {
    RUNNING.try_with(Cell::get).ok().flatten()
}

/// Runs `f` as a call into a plugin.
pub(super) fn within<T>(call: Running, f: impl FnOnce() -> T) -> T {
    let before = set(Some(call));
    let _after = Restore(before);
    f()
}

fn set(call: Option<Running>) -> Option<Running> {
    let before = RUNNING.try_with(|running| running.replace(call)).ok().flatten();
    // The plugin's code must not be moved before this: only a handler would notice.
    compiler_fence(Ordering::SeqCst);
    before
}

/// Restores the previous call, even after a panic.
struct Restore(Option<Running>);

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_call_is_known_and_left_by_a_panic_too() {
        let opening = Running { whose: "plugin `x` 1", doing: "opening" };
        within(opening, || {
            assert_eq!(doing(), Some("opening"));
            let probed = std::panic::catch_unwind(|| {
                let probing = Running { whose: "plugin `x` 1", doing: "probing" };
                within(probing, || panic!("{:?}", doing()))
            });
            assert!(probed.is_err());
            assert_eq!(doing(), Some("opening"));
        });
        assert_eq!(doing(), None);
    }

    fn doing() -> Option<&'static str> {
        running().map(|running| running.doing)
    }
}
