//! What kills the process inside a plugin (a fault, an abort, an overflow of the stack) cannot be caught. It can be named: one
//! line on stderr says whose code it was, and the signal goes on as it would have.

use super::running::running;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals of faults and aborts, and their names.
const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];

/// What was done on each of these signals before. For two of them that is the standard library, which looks for overflows of
/// the stack, and gives every thread the other stack that a handler needs then.
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// Has the program say which plugin it was in when a signal of a fault ends it.
///
/// Where a handler cannot be installed the signal does what it does without: that is no reason to refuse work.
pub fn name_crashes() {
    for ((signal, _), slot) in SIGNALS.iter().zip(&BEFORE) {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null action asks for the present one, which is written to `before`; all zeros are a sound value.
        let before = unsafe {
            libc::sigaction(*signal, std::ptr::null(), before.as_mut_ptr());
            before.assume_init()
        };
        // Before the handler is there, which needs it.
        if slot.set(before).is_err() {
            continue;
        }
        let mut action = before;
        action.sa_sigaction = on_signal as extern "C" fn(_, _, _) as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and only does what a handler may: it reads
        // thread-locals and statics that are there, fills a buffer on its stack, and calls write, sigaction and raise.
        unsafe {
            libc::sigaction(*signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Has this thread, which runs no plugin, leave those signals to others when they are sent to the process: one that runs a
/// plugin is to name it. Threads that it starts from now on would leave them too.
pub fn leave_crashes_to_others() {
    let mut signals = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is emptied, which makes it one, before anything else is done with it; what was blocked is not asked.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for (signal, _) in SIGNALS {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some(at) = SIGNALS.iter().position(|(known, _)| *known == signal) else { return };
    say(SIGNALS[at].1);
    // SAFETY: as where the handler is installed; the action is the one that was there before. `info` is the kernel's.
    unsafe {
        // A fault comes again once this returns; what was sent does not, and who was here before would wait for it.
        let was_sent = !info.is_null() && (*info).si_code <= 0;
        match BEFORE[at].get().filter(|_| !was_sent) {
            Some(before) => {
                libc::sigaction(signal, before, std::ptr::null_mut());
            }
            None => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

/// Writes the line, once: an overflow of the stack becomes an abort after its fault was told.
fn say(signal: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let Some(call) = running() else { return };
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut line = [0u8; 512];
    let mut len = 0;
    for text in ["apr: ", call.whose, " crashed (", signal, ") while ", call.doing, "\n"] {
        for byte in text.bytes().take(line.len() - len) {
            line[len] = byte;
            len += 1;
        }
    }
    // Nobody is left to tell that stderr is closed.
    let _ = rustix::io::write(std::io::stderr(), &line[..len]);
}
