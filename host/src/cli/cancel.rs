//! Ctrl-C: the first asks the work to stop and keep what a resume needs, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a process that the user stopped.
const STOPPED: i32 = 130;

/// Makes Ctrl-C (and a polite kill) set `cancel`; a second one exits at once.
///
/// A handler that cannot be installed leaves the system's own, which ends the process: that is no reason to refuse work.
pub fn on_interrupt(cancel: &Arc<AtomicBool>) {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the first handler sees the flag as the second left it on the previous signal.
        let second = signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(cancel));
        if second.is_ok() {
            let _ = signal_hook::flag::register(signal, Arc::clone(cancel));
        }
    }
}
