//! `apr rosetta`: does every format turn into every other, and does it come back?

mod chain;
mod inspect;
mod list;
mod plot;
mod run;
mod verify;

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, boxed};
use apr_sdk::Result;

/// Test conversions between formats, there and back again
///
/// Every pair of available formats is tried with small models of every kind.
/// The expected results follow from what each plugin declares its format can
/// hold; any other result is red, exit 5.
///
/// Examples:
///   apr rosetta list
///   apr rosetta run
///   apr rosetta run --formats gguf,apr --models F16
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    List(list::Args),
    Run(run::Args),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Chain(chain::Args),
    Plot(plot::Args),
}

/// Runs the action.
///
/// # Errors
/// The action's.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    match &args.action {
        Action::List(args) => list::run(args, context).map(boxed),
        Action::Run(args) => run::run(args, context).map(boxed),
        Action::Inspect(args) => inspect::run(args, context).map(boxed),
        Action::Verify(args) => verify::run(args, context).map(boxed),
        Action::Chain(args) => chain::run(args, context).map(boxed),
        Action::Plot(args) => plot::run(args, context).map(boxed),
    }
}
