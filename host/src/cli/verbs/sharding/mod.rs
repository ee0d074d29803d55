//! A model's files: one or several.

pub mod join;
pub mod split;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::verbs::convert::{Outcome, with};
use apr_engine::convert::output::Shards;
use apr_engine::open::check_options;
use apr_host::convert::ConvertOptions;
use apr_host::destination::in_place::own;
use apr_sdk::Result;
use std::path::Path;

/// What both verbs take.
#[derive(Debug, clap::Args)]
pub struct Sharding {
    /// Print what would be done, exact to the byte, without writing anything
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    plan: bool,
    /// Replace an existing output, once the new one is complete
    #[arg(short, long)]
    force: bool,
    /// Resume an interrupted run; input and arguments must be the same
    #[arg(long)]
    resume: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// Rewrites the model in its own format, with names, types and values as they are, in files of this size.
fn rewrite(
    file: &Path,
    out: &Path,
    shards: impl Fn(bool) -> Shards,
    args: &Sharding,
    context: &Context,
) -> Result<Outcome> {
    let host = context.host();
    let own = own(&host, file, &args.open.to_options(), false)?;
    let format = host.registry.format(&own.format)?;
    check_options(&host.registry, &[format], &args.open.options)?;
    let in_folder =
        format.manifest.folder || out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
    let shards = shards(in_folder);
    let options = ConvertOptions {
        max_shard_size: shards.size,
        max_shard_tensors: shards.tensors,
        force: args.force,
        resume: args.resume,
        ..args.open.rewriting(own, Some(out), context)
    };
    with(&host, &options, args.plan, context)
}
