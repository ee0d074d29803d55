//! `apr cache gc`: what in the cache is of no use?

use super::removal::Removed;
use apr_remote::cache::Cache;
use apr_sdk::Result;

/// Remove interrupted downloads and files that no model refers to
///
/// Removes only what apr itself left behind, and nothing that is being
/// downloaded. An interrupted download would be resumed: it is fetched from
/// its beginning instead.
///
/// Examples:
///   apr cache gc -n            show what would go
///   apr cache gc
///   apr cache gc --all         also what other programs left behind
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Remove also what other programs left behind
    #[arg(long)]
    all: bool,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Removes what is of no use. JSON: what `apr.cache.rm/1` has.
///
/// # Errors
/// Io.
pub fn run(args: &Args, cache: &Cache) -> Result<Removed> {
    let plan = cache.plan_gc(&cache.contents()?, args.all)?;
    Removed::by(&plan, cache, args.dry_run, "apr.cache.gc/1")
}
