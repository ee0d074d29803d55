//! `apr cache`: which downloads are kept, are they intact, and how do they go?

mod clear;
mod gc;
mod info;
mod ls;
mod removal;
mod rm;
mod table;
mod verify;

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, boxed};
use apr_engine::wording::nearest;
use apr_remote::cache::{Contents, RepositoryContents};
use apr_sdk::{Error, Result, escape};

/// Show, check and clear the download cache
///
/// Models from the Hugging Face hub are kept where the hub's own client
/// keeps them, so that either finds what the other downloaded: in
/// `HF_HUB_CACHE`, or `$HF_HOME/hub`, or ~/.cache/huggingface/hub. Set
/// `APR_CACHE` to keep them in a folder of their own.
///
/// Examples:
///   apr cache ls
///   apr cache rm org/name
///   apr cache rm org/name@main -n      show what would go
///   apr cache verify
///   apr cache gc                       remove interrupted downloads
///   apr cache clear                    remove all that apr downloaded
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    #[command(visible_alias = "list")]
    Ls(ls::Args),
    #[command(visible_alias = "remove")]
    Rm(rm::Args),
    #[command(visible_alias = "prune")]
    Gc(gc::Args),
    Verify(verify::Args),
    Clear(clear::Args),
    Info(info::Args),
}

/// Runs the action.
///
/// # Errors
/// The action's; NotFound if the environment names no folder for a cache.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let cache = context.cache()?;
    match &args.action {
        Action::Ls(args) => ls::run(args, &cache).map(boxed),
        Action::Rm(args) => rm::run(args, &cache).map(boxed),
        Action::Gc(args) => gc::run(args, &cache).map(boxed),
        Action::Verify(args) => verify::run(args, &cache, context).map(boxed),
        Action::Clear(args) => clear::run(args, &cache, context).map(boxed),
        Action::Info(args) => info::run(args, &cache).map(boxed),
    }
}

/// The repository that a user names.
///
/// # Errors
/// NotFound, with the name that was probably meant.
fn find<'c>(contents: &'c Contents, named: &str) -> Result<&'c RepositoryContents> {
    contents.repository(named).ok_or_else(|| {
        let error = Error::not_found(format!("`{}` is not in the cache", escape(named, 200)));
        let names: Vec<String> = contents.repositories.iter().map(RepositoryContents::shown).collect();
        match nearest(named, names.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean `{}`?", escape(near, 200))),
            None => error.hint("run `apr cache ls` to list what is there"),
        }
    })
}
