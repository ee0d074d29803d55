//! `apr upgrade`: the same model in the newest version of its own format.

mod outcome;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, only_a_path};
use crate::cli::verbs::convert::{self, with};
use crate::cli::verbs::upgrade::outcome::{Newest, Outcome};
use apr_engine::open::check_options;
use apr_host::convert::ConvertOptions;
use apr_host::destination::in_place::own;
use apr_host::storage::overwrite::refuse_existing;
use apr_sdk::Result;
use std::path::PathBuf;

/// Rewrite a model in the newest version of its format
///
/// Some formats have had several versions: apr reads the older ones and writes
/// the newest. Names, values and metadata stay what they are. The new file is
/// written next to its final name, verified, and only then moved into place; FILE
/// itself is only replaced with --force. A model that already is in the newest
/// version is left alone, and that is no error.
///
/// Examples:
///   apr upgrade old.gguf -o new.gguf
///   apr upgrade model.apr --force
///   apr upgrade model.apr -n
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the upgraded model to OUT, and leave FILE unchanged
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace FILE, or an existing OUT, once the new file is complete
    #[arg(short, long)]
    force: bool,
    /// Print what would be done, exact to the byte, without writing anything
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    plan: bool,
    /// Resume an interrupted upgrade; file and arguments must be the same
    #[arg(long)]
    resume: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// Upgrades, or plans to: a conversion to the model's own format that changes names, rows and types of nothing.
///
/// # Errors
/// Io if a file exists and may not be replaced; as `convert`.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    only_a_path(args.output.as_ref().unwrap_or(&args.file))?;
    let host = context.host();
    let in_place = args.output.is_none();
    let own = own(&host, &args.file, &args.open.to_options(), in_place)?;
    let format = host.registry.format(&own.format)?;
    check_options(&host.registry, &[format], &args.open.options)?;
    let Some(older) = own.older.clone() else {
        let path = args.file.display().to_string();
        let name = format.manifest.name.clone();
        return Ok(Outcome::Newest(Newest { path, name, format: own.format }));
    };
    if in_place && !args.force && !args.plan {
        refuse_existing(&args.file, &args.file.display().to_string()).map_err(|error| {
            error.with_hint("write to another file with -o OUT, or pass --force to replace it")
        })?;
    }
    let options = ConvertOptions {
        force: in_place || args.force,
        resume: args.resume,
        ..args.open.rewriting(own, args.output.as_deref(), context)
    };
    let mut outcome = with(&host, &options, args.plan, context)?;
    if let convert::Outcome::Done(done, _) = &mut outcome {
        done.notes.insert(0, format!("upgraded from {older}"));
    }
    Ok(Outcome::Rewritten(outcome))
}
