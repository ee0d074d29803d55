//! The child that a library is loaded in before it is loaded in earnest.

use crate::cli::context::Context;
use crate::cli::verbs::plugins::check::Nothing;
use apr_host::plugins::SURVIVED;
use apr_sdk::{Error, Look, Result};
use std::io::Write;
use std::path::PathBuf;

/// Load a plugin and end, for programs that are about to load it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The library
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Loads the library and has it do what every file asks of it: make its readers, and look. Why it is refused, if it is, the
/// parent will find itself: only survival is told.
///
/// # Errors
/// NotFound; Io if stdout is closed.
pub fn run(args: &Args, context: &Context) -> Result<Nothing> {
    let mut registry = context.registry_of(&args.file)?;
    registry.load_all();
    let nothing = Look { name: "", len: 0, head: &[], tail: &[], is_folder: false, entries: &[] };
    for format in registry.formats() {
        drop(format.reader().map(|reader| reader.probe(&nothing)));
        drop(format.writer());
    }
    drop(registry.quantizers());
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{SURVIVED}").and_then(|()| out.flush()).map_err(|error| Error::io(error.to_string()))?;
    Ok(Nothing)
}
