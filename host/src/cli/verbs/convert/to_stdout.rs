//! A conversion whose output goes to standard output: written to a file that is verified, and then copied.

use crate::cli::context::Context;
use crate::cli::verbs::convert::outcome::Shown;
use crate::cli::verbs::convert::{Detail, Outcome};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{Error, Result};
use std::fs::{DirBuilder, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns whether a path is that of standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A folder for one file, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        // A process of this number may have left one.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!(".apr-stdout-{}-{}", std::process::id(), since.as_nanos());
        let path = std::env::temp_dir().join(name);
        let failed = |e: io::Error| {
            Error::io(format!("cannot make a folder: {e}")).in_file(path.display().to_string())
        };
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|e| failed(e).hint("name another with TMPDIR"))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Converts, and copies the verified output to standard output.
///
/// # Errors
/// InvalidArgument for `--json`, a terminal, an output of several files, and a format that nothing names; as [`convert`].
pub fn to_stdout(host: &Host, options: &ConvertOptions, context: &Context) -> Result<Outcome> {
    let Some(to) = &options.to else {
        return Err(Error::invalid_argument("standard output has no extension, and no format was given")
            .hint("pass --to FORMAT"));
    };
    if context.terminal.json {
        return Err(Error::invalid_argument("the model and --json cannot both go to standard output")
            .hint("name an output file, or leave out --json"));
    }
    if io::stdout().is_terminal() {
        return Err(Error::invalid_argument("a model is not written to a terminal")
            .hint("redirect the output, or name a file"));
    }
    let format = host.registry.format(to)?;
    if format.manifest.folder || options.shards().is_limited() {
        let message = format!(
            "{} is written as several files, which standard output cannot hold",
            format.manifest.name
        );
        return Err(Error::invalid_argument(message).hint("name a folder"));
    }
    let scratch = Scratch::new()?;
    let extension = format.manifest.extensions.first().map_or("", String::as_str);
    let path = scratch.0.join(format!("output.{extension}"));
    let options = ConvertOptions { output: Some(path.clone()), ..options.clone() };
    let mut done = convert(host, &options)?;
    if let [file] = &mut done.files[..] {
        file.path = "-".to_owned();
    }
    let failed = |e: io::Error| Error::io(format!("cannot write to standard output: {e}"));
    let mut file = File::open(&path).map_err(failed)?;
    let mut out = io::stdout().lock();
    match io::copy(&mut file, &mut out).and_then(|_| out.flush()) {
        // Whoever reads it has enough, as in `apr convert ... - | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.map_err(failed)?,
    }
    // What is said of the output goes where it does not become a part of it.
    if !context.terminal.quiet {
        context.terminal.relay(&Shown(&done, Detail::Short).to_string());
    }
    Ok(Outcome::Streamed(Box::new(done)))
}
