//! The work in a process of its own, with bounds: a model's chat template is a program, and its tokenizer has rules that may
//! make much of little. What cannot be counted in steps (a list of a list of a list, printed) ends that process alone.

use crate::cli::terminal::Terminal;
use apr_sdk::{Error, Result};
use std::env;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};

/// Set in the process that does the work.
const MARK: &str = "APR_TOKENIZER_CHILD";
/// What the process may say on stderr. 1 MiB: an error and some warnings.
const MAX_SAID: u64 = 1 << 20;
/// Memory that any work may take. 1 GiB.
const MEMORY: u64 = 1 << 30;
/// Memory for each byte of the text: itself, and 4 bytes for each token of two lists that grow.
const MEMORY_OF_BYTE: u64 = 32;
/// Memory for each token of a vocabulary, which is in several tables.
const MEMORY_OF_TOKEN: u64 = 2 << 10;
/// Seconds of a processor that any work may take from now on, and those for each MiB of the text: many times what it needs.
const SECONDS: u64 = 10;
const SECONDS_OF_MIB: u64 = 10;

/// Whether this process is to start another one for the work.
pub fn is_wanted() -> bool {
    env::var_os(MARK).is_none()
}

/// Starts this program once more with the same arguments, and ends as it ends.
pub fn run(terminal: &Terminal) -> ExitCode {
    relay(terminal).unwrap_or_else(|error| terminal.fail(&error))
}

fn relay(terminal: &Terminal) -> Result<ExitCode> {
    let failed = |error: std::io::Error| Error::io(format!("cannot start the worker process: {error}"));
    let mut command = Command::new(env::current_exe().map_err(failed)?);
    command.args(env::args_os().skip(1)).env(MARK, "1").stderr(Stdio::piped());
    if terminal.color {
        command.env("APR_COLOR", "always");
    }
    let mut child = command.spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // What is more is not needed, and no error of the work.
        let _ = stderr.take(MAX_SAID).read_to_end(&mut said);
    }
    let status = child.wait().map_err(failed)?;
    let said = String::from_utf8_lossy(&said);
    let Some(code) = status.code() else {
        // A plugin that crashed was named by the process itself.
        let crashed = said.lines().find(|line| line.starts_with("apr: ") && line.contains(" crashed ("));
        return Err(match crashed {
            Some(line) => Error::plugin(line.trim_start_matches("apr: ").to_owned())
                .hint("report this to the plugin's author"),
            None => Error::limit("the tokenizer or its chat template used too much memory or time and was stopped")
                .hint("give a shorter text or fewer messages; if that does not help, get the model from a source you trust: no real model needs this much"),
        });
    };
    terminal.relay(&said);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Bounds what this process may take from now on, for a text of so many bytes and a vocabulary of so many tokens. A system that
/// knows no such bounds is no reason not to work.
pub fn bound(text: usize, tokens: usize) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        use rustix::time::{ClockId, clock_gettime};
        if is_wanted() {
            return;
        }
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let memory = MEMORY
            .saturating_add(number(text).saturating_mul(MEMORY_OF_BYTE))
            .saturating_add(number(tokens).saturating_mul(MEMORY_OF_TOKEN));
        let spent = u64::try_from(clock_gettime(ClockId::ProcessCPUTime).tv_sec).unwrap_or(0);
        let seconds = spent + SECONDS + (number(text) >> 20) * SECONDS_OF_MIB;
        for (resource, most) in [(Resource::Data, memory), (Resource::Cpu, seconds)] {
            let known = getrlimit(resource);
            let most = known.maximum.map_or(most, |maximum| maximum.min(most));
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: known.maximum });
        }
    }
}
