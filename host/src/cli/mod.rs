//! The command line: one parser, one file per verb, and one place where a result or an error meets the terminal.

mod context;
mod flags;
mod folders;
mod output;
mod parser;
mod planned_verbs;
mod sandbox_worker;
mod settings;
mod signals;
mod usage;
mod verbs;

use apr_remote::typed::TypedAddresses;
use apr_sdk::{Error, Result};
use clap::{Parser, Subcommand};
use context::Context;
use flags::globals::Globals;
use flags::open_args::OpenArgs;
use flags::remote_args::RemoteArgs;
use output::terminal::Terminal;
use output::verb_report::{Report, boxed};
use parser::Parsed;
use std::ffi::OsString;
use std::process::ExitCode;
use verbs::lineage::{derives, hash, provenance, reproduce};
use verbs::sharding::{join, split};
use verbs::{
    arch, bench, cache, chat, check, completions, config, convert, diff, edit, explain, export, imatrix,
    import, inspect, kernels, man, perplexity, plugins, profile, pull, quality, report, rosetta, run, scan,
    tensors, tokenizer, trace, tui, upgrade, validate,
};

/// Convert, inspect, check and run machine-learning models; every format is a plugin
///
/// Examples:
///   apr convert model.gguf model.apr       convert any format to any other
///   apr convert model.gguf model.apr -n    show what it would do, to the byte
///   apr inspect model.safetensors          show a model's metadata and size
///   apr inspect hf://org/name              the same of one on the Hugging Face hub
///   apr tensors model.gguf --json          list all tensors as JSON
///   apr edit model.gguf --set KEY=VALUE    change metadata in place
///   apr diff model.gguf model.apr          compare two models
///   apr validate model.apr --checksum      verify the checksums a file stores
///   apr report model.gguf                  write an HTML page about a model
///   apr run model.gguf 'Why is it so?'     run a model on a prompt
///   apr chat model.gguf                    chat with a model
///   apr plugins list                       list the available plugins
///
/// apr has no telemetry and makes no network connection that you did not ask for.
#[derive(Debug, Parser)]
#[command(name = "apr", verbatim_doc_comment, disable_version_flag = true)]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Convert(convert::Args),
    Import(import::Args),
    Export(export::Args),
    Edit(edit::Args),
    Split(split::Args),
    Join(join::Args),
    Upgrade(upgrade::Args),
    Inspect(inspect::Args),
    Scan(scan::Args),
    Tensors(tensors::Args),
    Tokenizer(tokenizer::Args),
    Run(run::Args),
    Chat(chat::Args),
    Bench(bench::Args),
    Profile(profile::Args),
    Trace(trace::Args),
    #[command(visible_alias = "ppl")]
    Perplexity(perplexity::Args),
    Imatrix(imatrix::Args),
    Check(check::Args),
    Kernels(kernels::Args),
    Diff(diff::Args),
    Quality(quality::Args),
    Validate(validate::Args),
    Hash(hash::Args),
    Provenance(provenance::Args),
    Reproduce(reproduce::Args),
    Derives(derives::Args),
    Report(report::Args),
    Tui(tui::Args),
    Rosetta(rosetta::Args),
    #[command(visible_alias = "download")]
    Pull(pull::Args),
    Cache(cache::Args),
    Plugins(plugins::Args),
    Arch(arch::Args),
    Explain(explain::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Verb {
    /// The arguments for opening the model, for a verb that opens one.
    fn open_args(&mut self) -> Option<&mut OpenArgs> {
        match self {
            Verb::Convert(args) => Some(&mut args.open),
            Verb::Import(args) => Some(&mut args.convert.open),
            Verb::Export(args) => Some(&mut args.convert.open),
            Verb::Edit(args) => Some(&mut args.open),
            Verb::Split(args) => Some(&mut args.sharding.open),
            Verb::Join(args) => Some(&mut args.sharding.open),
            Verb::Upgrade(args) => Some(&mut args.open),
            Verb::Inspect(args) => Some(&mut args.open),
            Verb::Scan(args) => Some(&mut args.open),
            Verb::Tensors(args) => Some(&mut args.open),
            Verb::Tokenizer(args) => Some(&mut args.open),
            Verb::Run(args) => Some(&mut args.open),
            Verb::Chat(args) => Some(&mut args.open),
            Verb::Bench(args) => Some(&mut args.open),
            Verb::Profile(args) => Some(&mut args.open),
            Verb::Trace(args) => Some(&mut args.open),
            Verb::Perplexity(args) => Some(&mut args.open),
            Verb::Imatrix(args) => Some(&mut args.open),
            Verb::Check(args) => Some(&mut args.open),
            Verb::Diff(args) => Some(&mut args.open),
            Verb::Quality(args) => Some(&mut args.open),
            Verb::Validate(args) => Some(&mut args.open),
            Verb::Hash(args) => Some(&mut args.open),
            Verb::Provenance(args) => Some(&mut args.open),
            Verb::Report(args) => Some(&mut args.open),
            Verb::Tui(args) => Some(&mut args.open),
            _ => None,
        }
    }

    /// The arguments for models from elsewhere, for a verb that takes these.
    fn remote_args(&mut self) -> Option<RemoteArgs> {
        match self {
            Verb::Pull(args) => Some(args.remote.clone()),
            Verb::Reproduce(args) => Some(args.remote.clone()),
            Verb::Derives(args) => Some(args.remote.clone()),
            Verb::Convert(args) => Some(args.remote()),
            Verb::Import(args) => Some(args.convert.remote()),
            Verb::Export(args) => Some(args.convert.remote()),
            other => other.open_args().map(|open| open.remote.clone()),
        }
    }
}

/// Runs the program on its own arguments and says how it ended.
pub fn run() -> ExitCode {
    apr_host::plugins::name_crashes();
    signals::attend(work)
}

fn work() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // Before anything can print them.
    let typed = TypedAddresses::take(&mut args);
    let before = Terminal::before_parsing(&args);
    match check_memory(&args).and_then(|()| parser::parse(args)) {
        Err(error) => before.fail(&error),
        Ok(Parsed::Text(text)) => before.text(&text),
        Ok(Parsed::Usage(text)) => before.usage(&text),
        Ok(Parsed::Verb(cli)) => match Context::new(cli.globals) {
            Err(error) => before.fail(&error),
            Ok(mut context) => {
                context.typed = typed;
                let mut verb = cli.verb;
                if let Some(remote) = verb.remote_args() {
                    context.remote = remote;
                }
                let outcome = dispatch(verb, &context);
                context.terminal.finish(outcome)
            }
        },
    }
}

/// Address space that every verb has room in, with all plugins mapped. Less was measured to be too little, and then the
/// allocator can only abort. 192 MiB.
const ADDRESS_SPACE: u64 = 192 << 20;

/// Refuses a limit on address space in which not even plugins can be loaded.
fn check_memory(args: &[OsString]) -> Result<()> {
    let is_version = matches!(args, [_, only] if only == "--version" || only == "-V");
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    match limit {
        Some(limit) if limit < ADDRESS_SPACE && !is_version => {
            let message = format!(
                "the limit on address space is {limit} bytes, but apr needs at least {ADDRESS_SPACE}"
            );
            Err(Error::io(message).hint("raise it (`ulimit -v`), or limit resident memory instead"))
        }
        _ => Ok(()),
    }
}

fn dispatch(verb: Verb, context: &Context) -> Result<Box<dyn Report>> {
    if !matches!(&verb, Verb::Plugins(args) if args.tells_of_refused()) {
        context.check_named_plugins()?;
    }
    match verb {
        Verb::Convert(args) => convert::run(&args, context).map(boxed),
        Verb::Import(args) => import::run(args, context).map(boxed),
        Verb::Export(args) => export::run(&args, context).map(boxed),
        Verb::Edit(args) => edit::run(&args, context).map(boxed),
        Verb::Split(args) => split::run(&args, context).map(boxed),
        Verb::Join(args) => join::run(&args, context).map(boxed),
        Verb::Upgrade(args) => upgrade::run(&args, context).map(boxed),
        Verb::Inspect(args) => inspect::run(&args, context),
        Verb::Scan(args) => scan::run(&args, context),
        Verb::Tensors(args) => tensors::run(&args, context),
        Verb::Tokenizer(args) => tokenizer::run(&args, context),
        Verb::Run(args) => run::run(&args, context),
        Verb::Chat(args) => chat::run(&args, context).map(boxed),
        Verb::Bench(args) => bench::run(&args, context),
        Verb::Profile(args) => profile::run(&args, context),
        Verb::Trace(args) => trace::run(&args, context),
        Verb::Check(args) => check::run(&args, context),
        Verb::Perplexity(args) => perplexity::run(&args, context).map(boxed),
        Verb::Imatrix(args) => imatrix::run(&args, context),
        Verb::Kernels(args) => kernels::run(&args, context),
        Verb::Diff(args) => diff::run(&args, context).map(boxed),
        Verb::Quality(args) => quality::run(&args, context).map(boxed),
        Verb::Validate(args) => validate::run(&args, context).map(boxed),
        Verb::Hash(args) => hash::run(&args, context).map(boxed),
        Verb::Provenance(args) => provenance::run(&args, context).map(boxed),
        Verb::Reproduce(args) => reproduce::run(&args, context).map(boxed),
        Verb::Derives(args) => derives::run(&args, context).map(boxed),
        Verb::Report(args) => report::run(&args, context).map(boxed),
        Verb::Tui(args) => tui::run(&args, context).map(boxed),
        Verb::Rosetta(args) => rosetta::run(&args, context),
        Verb::Pull(args) => pull::run(&args, context).map(boxed),
        Verb::Cache(args) => cache::run(&args, context),
        Verb::Plugins(args) => plugins::run(&args, context),
        Verb::Arch(args) => arch::run(&args, context),
        Verb::Explain(args) => explain::run(&args).map(boxed),
        Verb::Config(args) => config::run(&args, context).map(boxed),
        Verb::Completions(args) => completions::run(&args, context).map(boxed),
        Verb::Man(args) => man::run(&args, context).map(boxed),
    }
}
