//! `apr edit`: the same model with other metadata, in the same place.

use crate::cli::context::Context;
use crate::cli::flags::key_args::KeyArgs;
use crate::cli::flags::open_args::{OpenArgs, only_a_path};
use crate::cli::verbs::convert::{Outcome, with};
use apr_engine::open::check_options;
use apr_host::convert::ConvertOptions;
use apr_host::destination::in_place::own;
use apr_sdk::{Error, Result};
use std::path::PathBuf;

/// Change a model's metadata
///
/// The model is rewritten next to the old one, in the same format and with the
/// same weights, verified, and only then moved into place. If apr is interrupted,
/// either the old model or the new one is complete; for a folder of several
/// files, an error explains how to finish. This requires disk space for a copy.
///
/// Keys and values are as in `apr convert`: a key keeps its type, and a new one is
/// added as KEY:TYPE=VALUE. `apr inspect FILE --metadata` lists the keys.
///
/// Examples:
///   apr edit model.gguf --set general.name="My model"
///   apr edit model.gguf --set tokenizer.chat_template=@template.jinja -n
///   apr edit model.gguf --set my.note:str=tested --unset general.url
///   apr edit model/ --set max_position_embeddings=32768 -o longer/
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which metadata is changed.
    #[command(flatten)]
    keys: KeyArgs,
    /// Write the changed model to OUT, and leave FILE unchanged
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace an existing OUT, once the new file is complete
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Print what would change, without writing anything
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    plan: bool,
    /// Resume an interrupted edit; file and arguments must be the same
    #[arg(long)]
    resume: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// Edits, or plans to: a conversion to the model's own format that changes names, rows and types of nothing.
///
/// # Errors
/// InvalidArgument if there is nothing to change; as `convert`.
pub fn run(args: &Args, context: &Context) -> Result<Outcome> {
    let shown = args.file.display().to_string();
    let set = args.keys.all_set();
    let unset = args.keys.unset.clone();
    if set.is_empty() && unset.is_empty() {
        let hint = format!("run `apr edit {shown} --set KEY=VALUE`, or use --unset KEY");
        return Err(
            Error::invalid_argument("nothing to change: neither --set nor --unset was given").hint(hint)
        );
    }
    only_a_path(args.output.as_ref().unwrap_or(&args.file))?;
    let host = context.host();
    let in_place = args.output.is_none();
    let own = own(&host, &args.file, &args.open.to_options(), in_place)?;
    check_options(&host.registry, &[host.registry.format(&own.format)?], &args.open.options)?;
    let options = ConvertOptions {
        set,
        unset,
        force: in_place || args.force,
        resume: args.resume,
        ..args.open.rewriting(own, args.output.as_deref(), context)
    };
    with(&host, &options, args.plan, context)
}
