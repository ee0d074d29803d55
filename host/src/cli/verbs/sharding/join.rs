//! `apr join`: a model of several files in one.

use super::{Sharding, rewrite};
use crate::cli::context::Context;
use crate::cli::flags::open_args::only_a_path;
use crate::cli::verbs::convert::Outcome;
use apr_engine::convert::output::Shards;
use apr_sdk::Result;
use std::path::PathBuf;

/// Join a model's shards in one file
///
/// The model keeps its format, and every tensor its name, type and values. FILE is
/// any of the shards, their index, or their folder. `apr split` is the way back.
///
/// Examples:
///   apr join model-00001-of-00003.gguf model.gguf
///   apr join parts/ model.safetensors
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output file; a folder for a format that is one
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// What both verbs take.
    #[command(flatten)]
    pub sharding: Sharding,
}

/// Joins, or plans to.
///
/// # Errors
/// As `convert`.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    only_a_path(&args.out)?;
    // A folder would keep the model's files as they are.
    let whole = |in_folder: bool| Shards { size: in_folder.then_some(u64::MAX), tensors: None };
    rewrite(&args.file, &args.out, whole, &args.sharding, context)
}
