//! `apr scan`: would loading this file elsewhere run code?

use crate::cli::context::Context;
use crate::cli::declared_report::{self, Made};
use crate::cli::open_args::OpenArgs;
use apr_sdk::Result;
use std::path::PathBuf;

/// Say whether a checkpoint asks to run code
///
/// Some formats are programs: loading them in their own library can import and
/// call anything. apr runs nothing; this lists what a file would import and call,
/// with a verdict: exit 5 if it asks for more than rebuilding tensors. It works
/// for files that do not load, too. --json has every step.
///
/// Examples:
///   apr scan pytorch_model.bin
///   apr scan download.pt --json | jq .verdict
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the file is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The report that formats which can hold code declare.
const SCAN: &str = "scan";

/// Scans the file.
///
/// # Errors
/// Unsupported for a format that declares no scan; what reading raised.
pub fn run(args: &Args, context: &Context) -> Result<Made> {
    declared_report::run(SCAN, &args.file, &args.open, context)
}
