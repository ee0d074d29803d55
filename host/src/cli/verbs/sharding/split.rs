//! `apr split`: a model in several files.

use super::{Sharding, rewrite};
use crate::cli::context::Context;
use crate::cli::flags::open_args::only_a_path;
use crate::cli::verbs::convert::Outcome;
use apr_engine::convert::output::Shards;
use apr_host::sizes::parse_size;
use apr_sdk::{Error, Result};
use clap::value_parser;
use std::path::PathBuf;

/// Split a model into files of a limited size, or with a limited number of tensors
///
/// The model keeps its format, and every tensor its name, type and values. OUT is
/// a folder, or the name after which the files are called: out.gguf becomes
/// out-00001-of-00003.gguf. It works for every format with shards; any of them
/// opens the whole model. `apr join` is the way back.
///
/// Examples:
///   apr split model.gguf split/ --max-shard-size 2G
///   apr split model.gguf model-2G.gguf --split-max-size 2G
///   apr split model.gguf parts/ --split-max-tensors 128
///   apr split model.safetensors parts/ --max-shard-size 500M
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output folder, or the name of the files
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// At most SIZE bytes of weights per file: 5G, 500M, 2GiB
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_size,
        visible_alias = "split-max-size",
        required_unless_present = "max_shard_tensors"
    )]
    max_shard_size: Option<u64>,
    /// At most N tensors per file
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), visible_alias = "split-max-tensors")]
    max_shard_tensors: Option<u64>,
    /// What both verbs take.
    #[command(flatten)]
    pub sharding: Sharding,
}

/// Splits, or plans to.
///
/// # Errors
/// As `convert`.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    only_a_path(&args.out)?;
    if args.out.is_file() {
        let error =
            Error::invalid_argument("this is a file, and a split model is several; nothing was written");
        let hint = "specify a folder, or a name for the files that is not taken";
        return Err(error.in_file(args.out.display().to_string()).hint(hint));
    }
    let shards = Shards { size: args.max_shard_size, tensors: args.max_shard_tensors };
    rewrite(&args.file, &args.out, |_| shards, &args.sharding, context)
}
