//! `apr export`: a model for another program.

use crate::cli::context::Context;
use crate::cli::verbs::convert::{self, Outcome};
use apr_sdk::Result;

/// Convert a model for another program
///
/// The same as `apr convert`, under another name.
///
/// Examples:
///   apr export model.apr --format gguf -o model.gguf
///   apr export model.apr --format huggingface -o folder/
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub struct Args {
    /// What `convert` takes.
    #[command(flatten)]
    pub convert: convert::Args,
}

/// Exports.
///
/// # Errors
/// As `convert`.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    convert::run(&args.convert, context)
}
