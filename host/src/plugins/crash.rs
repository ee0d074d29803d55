//! A plugin that kills the process (a fault, an abort, a stack overflow) cannot be caught, but it can be
//! named: one line on stderr says whose code it was, and the signal takes its course.

use super::running::running;
use crate::storage::mapping;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals of faults and aborts, with their names.
const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];

/// The previous handlers of these signals. Two of them belong to the standard library, which detects stack
/// overflows and gives every thread the alternate stack that a handler needs then.
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// Makes the program name the current plugin when the signal of a fault ends it.
///
/// If a handler cannot be installed, the signal has its usual effect: that is no reason to refuse work.
pub fn name_crashes() {
    for ((signal, _), slot) in SIGNALS.iter().zip(&BEFORE) {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null action queries the current one, which is written to `before`; all zeros are a valid
        // value.
        let before = unsafe {
            libc::sigaction(*signal, std::ptr::null(), before.as_mut_ptr());
            before.assume_init()
        };
        // Before the handler is installed, which needs it.
        if slot.set(before).is_err() {
            continue;
        }
        let mut action = before;
        action.sa_sigaction = on_signal as extern "C" fn(_, _, _) as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature for SA_SIGINFO, and only does what a handler may: it reads
        // existing thread-locals and statics, fills a buffer on its stack, and calls write, sigaction and
        // raise.
        unsafe {
            libc::sigaction(*signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Makes this thread, which runs no plugin, leave these signals to others when they are sent to the process,
/// so that a thread in a plugin can name it. Threads that it starts from now on do the same.
pub fn leave_crashes_to_others() {
    let mut signals = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is initialized by emptying it before anything else; the previous mask is not requested.
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
    // SAFETY: `info` comes from the kernel, and a SIGBUS that was not sent by anyone has an address.
    let address = (signal == libc::SIGBUS && !info.is_null())
        .then(|| unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) })
        .flatten();
    // A mapped file became shorter: no one's crash, and the access goes on.
    if address.is_some_and(mapping::absorb) {
        return;
    }
    say(SIGNALS[at].1);
    // SAFETY: as where the handler is installed; the action is the previous one. `info` comes from the
    // kernel.
    unsafe {
        // A fault recurs when this returns; a sent signal does not, and the previous handler would wait for
        // it.
        let was_sent = !info.is_null() && (*info).si_code <= 0;
        if was_sent || BEFORE[at].get().is_none() {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        // All of them: the standard library aborts after a stack overflow, and the alternate stack may have no room for
        // the frames of this handler above its own.
        for ((signal, _), before) in SIGNALS.iter().zip(&BEFORE) {
            if let Some(before) = before.get() {
                libc::sigaction(*signal, before, std::ptr::null_mut());
            }
        }
    }
}

/// Writes the line, once.
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
    // There is no one to tell that stderr is closed.
    let _ = rustix::io::write(std::io::stderr(), &line[..len]);
}
