//! Takes from the worker what it does not need: files, sockets, other processes.

use crate::limits::{Limits, STACK};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Confines this process for the rest of its life. Returns a remark on what the system does not take away; empty if all.
pub fn confine() -> String {
    // A crash is an answer here: an image of the memory would only take time. 1, as the kernel writes none then even where it
    // hands images to a program.
    bound(Resource::Core, 1);
    bound(Resource::Stack, STACK);
    without_files().err().unwrap_or_default()
}

/// Bounds what a request may take from now on.
pub fn bound_request(limits: Limits) {
    let spent = u64::try_from(clock_gettime(ClockId::ProcessCPUTime).tv_sec).unwrap_or(0);
    bound(Resource::Data, limits.memory);
    bound(Resource::Cpu, spent.saturating_add(limits.seconds));
}

/// Sets a soft limit, as far as the hard one allows. A system that knows no such limit is no reason not to work.
fn bound(resource: Resource, most: u64) {
    let known = getrlimit(resource);
    let most = known.maximum.map_or(most, |maximum| maximum.min(most));
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: known.maximum });
}

#[cfg(target_os = "linux")]
fn without_files() -> Result<(), String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
    fn failed(error: impl std::fmt::Display) -> String {
        format!("the kernel cannot restrict its system calls: {error}")
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(u32::try_from(libc::EPERM).unwrap_or(1));
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, arch);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
    apply_filter(&program).map_err(failed)
}

#[cfg(not(target_os = "linux"))]
fn without_files() -> Result<(), String> {
    Err("this system cannot restrict its system calls".to_owned())
}

/// All that a worker does: read and write what is open, memory, its own limits and clock, and to end.
#[cfg(target_os = "linux")]
const ALLOWED: [i64; 24] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_prlimit64,
    libc::SYS_gettid,
];

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::ErrorKind::PermissionDenied;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    #[test]
    fn a_confined_thread_opens_neither_files_nor_sockets_and_starts_nothing() {
        // The filter holds for the thread that asked for it.
        let confined = std::thread::spawn(|| {
            let outcome = without_files();
            let errors = [
                File::open("/dev/null").err(),
                File::create("/tmp/apr-sandbox-was-here").err(),
                UdpSocket::bind("127.0.0.1:0").err(),
                UnixStream::pair().err(),
                Command::new("/bin/true").spawn().err(),
            ];
            (outcome, errors, vec![1u8; 32 << 20].len())
        });
        let (outcome, errors, room) = confined.join().unwrap();
        assert_eq!((outcome, room), (Ok(()), 32 << 20));
        assert_eq!(errors.map(|error| error.map(|error| error.kind())), [Some(PermissionDenied); 5]);
    }
}
