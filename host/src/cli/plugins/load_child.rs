//! The child that a named library is loaded in before it is loaded in earnest.

use crate::cli::context::Context;
use crate::cli::plugins::check::Nothing;
use apr_host::plugins::SURVIVED;
use apr_sdk::{Error, Result};
use std::io::Write;
use std::path::PathBuf;

/// The name of the hidden action.
pub const NAME: &str = "load-child";

/// Load a plugin and end, for programs that are about to load it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The library
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Loads the library. Why it is refused, if it is, the parent will find itself: only survival is told.
///
/// # Errors
/// NotFound; Io if stdout is closed.
pub fn run(args: &Args, context: &Context) -> Result<Nothing> {
    context.registry_of(&args.file)?.load_all();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{SURVIVED}").and_then(|()| out.flush()).map_err(|error| Error::io(error.to_string()))?;
    Ok(Nothing)
}
