//! `apr cache clear`: how does everything leave the cache?

use super::removal::{Removed, subject_lines};
use crate::cli::context::Context;
use apr_host::sizes::show_size;
use apr_remote::cache::{Cache, Removal};
use apr_sdk::{Error, Result};
use std::io::{self, BufRead, IsTerminal, Read};

/// Bytes of an answer.
const LONGEST_ANSWER: u64 = 1024;

/// Remove everything that apr downloaded
///
/// The cache is shared with other programs: what they downloaded stays, and
/// what they refer to as well. With --all everything goes, after a question.
///
/// Examples:
///   apr cache clear -n         show what would go
///   apr cache clear
///   apr cache clear --all      also what other programs downloaded
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Remove also what other programs downloaded
    #[arg(long)]
    all: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Removes what apr put into the cache, or everything. JSON: what `apr.cache.rm/1` has.
///
/// # Errors
/// InvalidArgument if nobody can be asked; Cancelled if the answer is no; Io.
pub fn run(args: &Args, cache: &Cache, context: &Context) -> Result<Removed> {
    let plan = cache.plan_clear(&cache.contents()?, args.all)?;
    let takes_others = plan.subjects.iter().any(|subject| !subject.is_own);
    if takes_others && !args.yes && !args.dry_run {
        ask(&plan, context)?;
    }
    Removed::by(&plan, cache, args.dry_run, "apr.cache.clear/1")
}

/// Asks whether to remove what other programs may need.
fn ask(plan: &Removal, context: &Context) -> Result<()> {
    let size = show_size(plan.bytes());
    if context.globals.no_input || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!("this would remove {size}, also what other programs downloaded");
        let error = Error::invalid_argument(message);
        return Err(error.hint("pass --yes to remove it, or --dry-run to list it"));
    }
    context.terminal.relay(&format!("{}Remove all of it, {size}? [y/N] ", subject_lines(plan)));
    let mut answer = String::new();
    let read = io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer);
    let is_yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if is_yes { Ok(()) } else { Err(Error::cancelled("nothing was removed")) }
}
