//! `apr plugins`: what can this installation do, and how do I add to it?

mod check;
mod checks;
mod info;
mod install;
mod list;
pub mod load_child;
mod new;
mod path;
mod remove;
mod templates;

use crate::cli::context::{Context, LOAD_CHILD};
use crate::cli::output::verb_report::{Report, boxed};
use apr_engine::registry::Tier;
use apr_sdk::Result;

/// List, check, create, install and remove plugins
///
/// Every format is a plugin: a library next to apr, in your data folder, or
/// given by --plugin or `APR_PLUGIN_PATH`. A plugin is native code: it can do
/// whatever you can do.
///
/// Examples:
///   apr plugins list
///   apr plugins info gguf
///   apr plugins new my-format && cd my-format && cargo test
///   apr plugins check target/release/libapr_plugin_my_format.so
///   apr plugins install target/release/libapr_plugin_my_format.so
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    List(list::Args),
    Info(info::Args),
    Check(check::Args),
    Path(path::Args),
    New(new::Args),
    Install(install::Args),
    Remove(remove::Args),
    #[command(name = check::CHILD, hide = true)]
    CheckChild(check::ChildArgs),
    #[command(name = LOAD_CHILD, hide = true)]
    LoadChild(load_child::Args),
}

impl Args {
    /// Returns whether the action itself tells of a named plugin that is refused, or tries one for the program that
    /// started this.
    pub fn tells_of_refused(&self) -> bool {
        matches!(
            self.action,
            Action::List(_) | Action::Check(_) | Action::CheckChild(_) | Action::LoadChild(_)
        )
    }
}

/// Runs the action.
///
/// # Errors
/// The action's.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    match &args.action {
        Action::List(args) => list::run(args, context).map(boxed),
        Action::Info(args) => info::run(args, context).map(boxed),
        Action::Check(args) => check::run(args, context).map(boxed),
        Action::Path(args) => path::run(args, context).map(boxed),
        Action::New(args) => new::run(args).map(boxed),
        Action::Install(args) => install::run(args, context).map(boxed),
        Action::Remove(args) => remove::run(args, context).map(boxed),
        Action::CheckChild(args) => check::run_child(args, context).map(boxed),
        Action::LoadChild(args) => load_child::run(args, context).map(boxed),
    }
}

/// A tier in a word.
fn tier_word(tier: Tier) -> &'static str {
    match tier {
        Tier::Bundled => "bundled",
        Tier::System => "system",
        Tier::User => "user",
        Tier::Named => "named",
    }
}
