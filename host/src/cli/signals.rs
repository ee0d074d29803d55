//! Signals: the first Ctrl-C or polite kill asks the work to stop and keep what a resume needs, a later one ends the process
//! at once. The main thread waits for them, and for the work, which has a thread of its own.

use apr_host::host::Host;
use apr_host::plugins::leave_crashes_to_others;
use apr_host::threads::on_stack;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Exit code of a process that the user stopped.
const STOPPED: i32 = 130;
/// Signals within this time of the first are one: a terminal sends its Ctrl-C to the program, and a supervisor that saw it too
/// sends its own.
const TOGETHER: Duration = Duration::from_millis(500);
/// Time that work that was asked to stop may go on if it leaves nothing behind: some loops do not hear that they are to stop.
const PATIENCE: Duration = Duration::from_secs(3);
/// The stack of the work, whatever the shell allows: what a system usually gives.
const STACK: usize = 8 << 20;
/// Byte written to the main thread when the work is done.
const DONE: u8 = b'.';
/// Byte written to it when the work did as the first signal asked, and goes on.
const FORGIVEN: u8 = b',';

/// The way to the main thread, if it waits for signals.
static MAIN: OnceLock<Main> = OnceLock::new();

struct Main {
    wake: UnixStream,
    /// Set when a further signal is a second one.
    is_late: Arc<AtomicBool>,
    /// Number of outputs that are being written.
    outputs: OnceLock<Arc<AtomicUsize>>,
    /// The state in which to leave the terminal.
    terminal: OnceLock<Termios>,
}

/// Does `work` on a stack of its own, if the system gives a thread for it, while this thread waits for signals.
pub fn attend(work: fn() -> ExitCode) -> ExitCode {
    // A file that becomes too large is an error of the write then, and not the end of the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let Ok((wait, wake)) = UnixStream::pair() else { return work() };
    let is_late = Arc::new(AtomicBool::new(false));
    let begun = on_stack(STACK, move || {
        let _ = MAIN.set(Main { wake, is_late, outputs: OnceLock::new(), terminal: OnceLock::new() });
        let code = std::panic::catch_unwind(work);
        if let Some(main) = MAIN.get() {
            let told = (&main.wake).write_all(&[DONE]);
            // The main thread must not wait for ever.
            let _ = told.or_else(|_| main.wake.shutdown(Shutdown::Both));
        }
        code.unwrap_or_else(|panic| resume_unwind(panic))
    });
    let Some(begun) = begun else { return work() };
    leave_crashes_to_others();
    wait_for(wait);
    begun.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns when the work is done. Once the first signal is some time ago, the next one is a second; what writes nothing and
/// does not stop by itself is ended then.
fn wait_for(mut wait: UnixStream) {
    let mut first: Option<Instant> = None;
    loop {
        if let (Some(since), Some(main)) = (first.map(|first| first.elapsed()), MAIN.get()) {
            main.is_late.store(since >= TOGETHER, Ordering::Relaxed);
            let is_writing = main.outputs.get().is_some_and(|outputs| outputs.load(Ordering::Relaxed) > 0);
            if since >= PATIENCE && !is_writing {
                if let Some(modes) = main.terminal.get() {
                    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
                }
                signal_hook::low_level::exit(STOPPED);
            }
        }
        let mut byte = [0];
        let read = wait.set_read_timeout(first.map(|_| TOGETHER / 5)).and_then(|()| wait.read(&mut byte));
        match read {
            Ok(1) if byte[0] == FORGIVEN => {
                first = None;
                if let Some(main) = MAIN.get() {
                    main.is_late.store(false, Ordering::Relaxed);
                }
            }
            Ok(1) if byte[0] != DONE => first = first.or_else(|| Some(Instant::now())),
            Err(e) if is_passing(e.kind()) => {}
            // It is done; or cannot say so, and is waited for without an ear for signals.
            _ => return,
        }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Makes Ctrl-C (and a polite kill, and a terminal that goes) cancel the host's work; a second one exits at once.
///
/// A handler that cannot be installed leaves the system's own, which ends the process: that is no reason to refuse work.
pub fn on_interrupt(host: &Host) {
    let cancel = &host.cancel;
    if let Some(main) = MAIN.get() {
        let _ = main.outputs.set(Arc::clone(&host.outputs));
    }
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        let woken = MAIN.get().filter(|main| {
            let wake = main.wake.try_clone();
            wake.and_then(|wake| signal_hook::low_level::pipe::register(signal, wake)).is_ok()
        });
        // Without a main thread that waits, whatever comes after the first is the second.
        let is_second = woken.map_or(cancel, |main| &main.is_late);
        // The order matters: the first handler sees the flag as the second left it on the previous signal.
        let second = signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(is_second));
        if second.is_ok() {
            let _ = signal_hook::flag::register(signal, Arc::clone(cancel));
        }
    }
}

/// Takes the next signal for a first one again: the work did what the last one asked, and goes on.
pub fn forgive() {
    if let Some(main) = MAIN.get() {
        let _ = (&main.wake).write_all(&[FORGIVEN]);
    }
}

/// Gives the terminal on stdin its present modes back if a signal ends the process: a line editor may have changed them.
pub fn keep_terminal() {
    if let (Some(main), Ok(modes)) = (MAIN.get(), tcgetattr(std::io::stdin())) {
        let _ = main.terminal.set(modes);
    }
}

/// A flag that is set by a polite kill, and by a terminal that goes: what ends more than the work at hand.
pub fn flag_of_end() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

/// A flag that the first of these signals sets, for a verb that must put something right before it ends.
pub fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

/// Sets the flag when the terminal on stdin goes, and soon ends the process: whoever reads from a terminal that is not there, where
/// its hang-up is ignored, may read for ever.
pub fn watch_terminal(flag: &Arc<AtomicBool>) {
    let flag = Arc::clone(flag);
    drop(on_stack(STACK, move || {
        let stdin = std::io::stdin();
        // Nothing is asked for: what is told without asking is that it hung up.
        let mut ears = [PollFd::new(&stdin, PollFlags::empty())];
        while poll(&mut ears, None) == Err(Errno::INTR) {}
        if ears[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            flag.store(true, Ordering::Relaxed);
            std::thread::sleep(TOGETHER);
            signal_hook::low_level::exit(STOPPED);
        }
    }));
}

/// Returns whether whoever started this process wants it to ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // A system that does not say so leaves the signal as it is.
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
