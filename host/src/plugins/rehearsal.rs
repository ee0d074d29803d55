//! Loads a library that the user named or installed in a child process first: what kills a process during
//! loading (a fault, an abort, an exit) cannot be caught, and would take the user's work with it. Libraries
//! that passed are remembered by digest.

use super::lock::sha256;
use apr_engine::registry::Origin;
use apr_sdk::{Error, Result, escape};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The way to try libraries.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The program and its arguments, followed by the library's path. It loads the library and prints
    /// [`SURVIVED`].
    pub command: Vec<PathBuf>,
    /// The folder that remembers what passed; `None` to remember nothing.
    pub remembered: Option<PathBuf>,
    /// True to also try libraries that came with the program or the system, which are otherwise trusted to work.
    pub every: bool,
}

/// The line that the child prints on stdout once the library is loaded, or refused by an ordinary error.
pub const SURVIVED: &str = "survived";

/// Loading takes milliseconds; a library that takes this long is waiting for something.
const PATIENCE: Duration = Duration::from_secs(10);

impl Rehearsal {
    /// Returns whether a library found this way is to be tried.
    pub(super) fn concerns(&self, origin: Origin) -> bool {
        self.every || matches!(origin, Origin::Flag | Origin::VariableFile | Origin::Variable | Origin::User)
    }

    /// Tries the library of plugin `id` at `path`, unless one with its digest passed before.
    ///
    /// # Errors
    /// Plugin with `E_PLUGIN` if loading ends or stops the process; Io if no child can be started.
    pub(super) fn pass(&self, path: &Path, id: &str) -> Result<()> {
        let known = match &self.remembered {
            Some(folder) => Some(folder.join(sha256(path)?)),
            None => None,
        };
        if known.as_ref().is_some_and(|known| known.exists()) {
            return Ok(());
        }
        self.try_in_child(path, id)?;
        // A verdict that cannot be stored only costs another child next time.
        if let Some(known) = known {
            let created = known.parent().map_or(Ok(()), std::fs::create_dir_all);
            drop(created.and_then(|()| std::fs::write(known, "")));
        }
        Ok(())
    }

    fn try_in_child(&self, path: &Path, id: &str) -> Result<()> {
        let Some((program, args)) = self.command.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(args).arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let ran = command.spawn().and_then(|mut child| {
            let ended = wait(&mut child)?;
            Ok((child, ended))
        });
        let (mut child, ended) =
            ran.map_err(|error| Error::io(format!("cannot start a process to try it in: {error}")))?;
        let mut output = String::new();
        if let (Some(_), Some(out)) = (ended, child.stdout.take()) {
            // Any further output comes from the plugin.
            let _ = out.take(64 * 1024).read_to_string(&mut output);
        }
        if output.lines().any(|line| line == SURVIVED) {
            return Ok(());
        }
        let what = match ended {
            Some(status) => format!("terminated the process that loaded it: {status}"),
            None => format!("did not finish loading within {} s", PATIENCE.as_secs()),
        };
        Err(Error::plugin(format!("plugin `{}` {what}", escape(id, 80))).code("E_PLUGIN").hint(
            "get the file again if it may be corrupt, or report this to the plugin's author; it was \
             loaded in a separate process, so nothing was lost",
        ))
    }
}

/// Waits for the child to end; `None` if that took too long and it was killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
