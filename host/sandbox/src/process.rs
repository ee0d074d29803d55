//! A worker process, seen from outside: started, asked, and ended if it takes too long.

use crate::limits::{Limits, answer};
use crate::wire::answer_of;
use crate::worker::ASKED;
use apr_sdk::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Interval at which a waiting thread asks whether the user stopped the work.
const TICK: Duration = Duration::from_millis(50);
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The program whose `main` calls [`crate::worker::serve_if_asked`].
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// The program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Program {
        Program(path.into())
    }

    /// The program that is running, even if its file was replaced meanwhile.
    ///
    /// # Errors
    /// Io if the system does not say where it is.
    pub fn this() -> Result<Program> {
        if cfg!(target_os = "linux") {
            return Ok(Program::at("/proc/self/exe"));
        }
        std::env::current_exe().map(Program).map_err(|error| cannot_start(&error))
    }
}

/// A worker that answers requests.
pub struct Process {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    /// The length and the limits of a request whose answer nobody has waited for.
    pending: Option<(usize, Limits)>,
    /// The worker's confinement, in words for `-v`; empty if it is confined in every way.
    pub remark: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is no longer there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts a worker: without environment, in a group of its own, so that Ctrl-C is heard here.
    ///
    /// # Errors
    /// Io if it cannot be started.
    pub fn start(program: &Program, is_cancelled: &dyn Fn() -> bool) -> Result<Process> {
        let mut command = Command::new(&program.0);
        command.arg(ASKED).env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| cannot_start(&error))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::io("cannot start the worker process: it has no pipes"));
        };
        let mut process = Process { child, to, from, pending: None, remark: String::new() };
        for pipe in [process.to.as_fd(), process.from.as_fd()] {
            let set = fcntl_getfl(pipe).and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK));
            set.map_err(|error| cannot_start(&error.into()))?;
        }
        let limits = Limits::of(0, 0);
        let hello = process.receive(0, limits, is_cancelled).map_err(|error| match error.kind() {
            apr_sdk::ErrorKind::LimitExceeded => {
                Error::io("cannot start the worker process: it exited immediately")
            }
            _ => error,
        })?;
        process.remark = String::from_utf8_lossy(answer_of(&hello)?).into_owned();
        Ok(process)
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// LimitExceeded if the worker ended, or was ended for what it took; Cancelled. After an error it is of no use.
    pub fn ask(
        &mut self,
        request: &[u8],
        limits: Limits,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>> {
        if let Some((request, limits)) = self.pending.take() {
            self.receive(request, limits, is_cancelled)?;
        }
        self.send_request(request, limits, is_cancelled)?;
        self.receive(request.len(), limits, is_cancelled)
    }

    /// Sends a request whose answer says nothing; the worker works meanwhile.
    ///
    /// # Errors
    /// As [`Process::ask`].
    pub fn begin(&mut self, request: &[u8], limits: Limits, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.send_request(request, limits, is_cancelled)?;
        self.pending = Some((request.len(), limits));
        Ok(())
    }

    fn send_request(
        &mut self,
        request: &[u8],
        limits: Limits,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut whole = [limits.seconds, limits.memory, length(request)].map(u64::to_le_bytes).concat();
        whole.extend_from_slice(request);
        self.send(&whole, limits, is_cancelled)
    }

    fn send(&mut self, bytes: &[u8], limits: Limits, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        let began = Instant::now();
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if is_passing(error.kind()) => {
                    wait(&self.to, PollFlags::OUT, began, limits, is_cancelled)?;
                }
                Err(_) => return Err(too_much()),
            }
        }
        Ok(())
    }

    /// Receives an answer to a request of so many bytes.
    fn receive(
        &mut self,
        request: usize,
        limits: Limits,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>> {
        let began = Instant::now();
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            if let Some((head, rest)) = bytes.split_first_chunk::<8>() {
                let expected = u64::from_le_bytes(*head);
                if expected > answer(request) {
                    return Err(too_much());
                }
                if length(rest) >= expected {
                    bytes.drain(..8);
                    return Ok(bytes);
                }
            }
            match self.from.read(&mut chunk) {
                Ok(0) => return Err(too_much()),
                Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(error) if is_passing(error.kind()) => {
                    wait(&self.from, PollFlags::IN, began, limits, is_cancelled)?;
                }
                Err(_) => return Err(too_much()),
            }
        }
    }
}

/// Waits until a pipe is ready.
fn wait(
    pipe: &impl AsFd,
    ready: PollFlags,
    began: Instant,
    limits: Limits,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    loop {
        let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        match poll(&mut [PollFd::new(pipe, ready)], Some(&tick)) {
            Ok(1..) => return Ok(()),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io(format!("cannot wait for the worker process: {error}"))),
        }
        if is_cancelled() {
            return Err(Error::cancelled("stopped"));
        }
        if began.elapsed().as_secs() > limits.patience() {
            return Err(too_much());
        }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn cannot_start(error: &std::io::Error) -> Error {
    Error::io(format!("cannot start the worker process: {error}"))
}

fn too_much() -> Error {
    Error::limit("the tokenizer or its chat template used too much memory or time and was stopped").hint(
        "use a shorter text or fewer messages; if that does not help, get the model from a trusted \
         source: no real model needs this much",
    )
}
