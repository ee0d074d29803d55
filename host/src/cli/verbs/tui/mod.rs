//! `apr tui`: explore a model on the terminal.

mod contents;
mod cursor;
pub mod keys;
pub mod screen;
mod state;
pub mod views;
mod worker;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::Report;
use crate::cli::signals;
use apr_engine::open::check_options;
use apr_sdk::{Error, Result};
use contents::Contents;
use screen::{Watch, Wires, explore, give_back_on_panic};
use serde_json::Value as Json;
use state::{App, End, View};
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use views::Theme;
use worker::{Models, work};

/// Explore a model on the terminal
///
/// Lists the tensors, measures their values in the background, shows their
/// distribution, groups them by layers, and compares two models. The keys
/// are listed below each view; ? lists them all, q quits.
///
/// A tensor is BAD if it breaks a rule of the layout contract or leaves the
/// range that its architecture's table expects; the line below says which.
///
/// Examples:
///   apr tui model.gguf
///   apr tui old.safetensors new.gguf --compare
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The model: a file, any part of it, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Second model to compare with
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Start with the comparison
    #[arg(long, requires = "other")]
    compare: bool,
    /// How the models are opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// That the user has seen enough: nothing is printed.
#[derive(Debug)]
pub struct Seen;

/// Opens the models and shows them until the user leaves.
///
/// # Errors
/// InvalidArgument without a terminal; what opening raised; Cancelled for Ctrl-C.
pub fn run(args: &Args, context: &Context) -> Result<Seen> {
    let file = args.file.display();
    let hint = format!("run `apr inspect {file}` or `apr tensors {file} --stats`, with --json for a program");
    check_terminal("apr tui", &hint, context)?;
    give_back_on_panic();
    let mut host = context.host();
    // From here on, or a signal that comes while the models are opened would be forgotten.
    let stopped = signals::flag();
    signals::watch_terminal(&stopped);
    let model = args.open.open(&host, &args.file)?;
    let other = args.other.as_ref().map(|other| args.open.open(&host, other)).transpose()?;
    let formats = [Some(&model), other.as_ref()].into_iter().flatten();
    let formats = formats.map(|opened| host.registry.format(&opened.format)).collect::<Result<Vec<_>>>()?;
    check_options(&host.registry, &formats, &args.open.options)?;
    let contents = Contents::of(&host, &model, other.as_ref())?;
    // From here on stderr is the screen's.
    let watch = Arc::new(Watch::default());
    host.progress = watch.clone();
    let host = host;
    let mut app = App::new(contents, if args.compare { View::Compare } else { View::Tensors });
    let models = Models { host: &host, model: &model, other: other.as_ref() };
    let ((jobs, next), (tell, news)) = (mpsc::channel(), mpsc::channel());
    let end = host.threads().beside(
        move || work(models, next, &tell),
        |is_there| {
            if !is_there {
                return Err(Error::io("cannot start a thread for measuring"));
            }
            let cancel = host.cancel.as_ref();
            let wires = Wires { jobs, news, cancel, stopped: &stopped, watch: &watch };
            let end = explore(&mut app, &wires, Theme { color: context.terminal.color });
            cancel.store(true, Ordering::Relaxed);
            end
        },
    )??;
    watch.warnings().iter().for_each(|warning| context.terminal.warn(warning));
    match end {
        End::Quit => Ok(Seen),
        End::Stopped => Err(Error::cancelled("stopped")),
    }
}

/// Refuses what is no terminal for a command, before anything is opened.
///
/// # Errors
/// InvalidArgument, with a hint at what to do instead.
pub fn check_terminal(command: &str, hint: &str, context: &Context) -> Result<()> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let why = match () {
        () if context.terminal.json => format!("`{command}` does not support --json"),
        () if !io::stdin().is_terminal() => "stdin is not a terminal".to_owned(),
        () if !io::stdout().is_terminal() => "stdout is not a terminal".to_owned(),
        () if is_dumb => "the terminal cannot move its cursor (`TERM` is `dumb`)".to_owned(),
        () => return Ok(()),
    };
    Err(Error::invalid_argument(why).hint(hint))
}

impl Report for Seen {
    fn json(&self) -> Result<Json> {
        Ok(Json::Null)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
