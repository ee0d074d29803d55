//! `apr import`: a model whose architecture is understood, in the program's own format.

use crate::cli::context::Context;
use crate::cli::verbs::convert::{self, Outcome};
use apr_sdk::Result;

/// The format of an imported model if nothing else is asked for.
const OWN_FORMAT: &str = "apr";

/// Convert a model to APR, translating its tensor names
///
/// The same as `apr convert IN --to apr`, but a model whose architecture has no
/// table is refused instead of keeping its own names.
///
/// Examples:
///   apr import model/
///   apr import model.safetensors -o model.apr --arch llama
///   apr import checkpoint.pt --prefix model --tensor-mapping names.toml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub struct Args {
    /// What `convert` takes.
    #[command(flatten)]
    pub convert: convert::Args,
}

/// Imports.
///
/// # Errors
/// As `convert`; Unsupported for an architecture without a table.
pub fn run(mut args: Args, context: &Context) -> Result<Outcome> {
    let says_a_format = args.convert.output().is_some_and(|output| output.extension().is_some());
    if args.convert.to.is_none() && !says_a_format {
        args.convert.to = Some(OWN_FORMAT.to_owned());
    }
    args.convert.wants_architecture = true;
    convert::run(&args.convert, context)
}
