//! `apr chat`: a conversation with a model.

mod command;
mod conversation;
mod input;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::signals;
use crate::cli::verbs::running::args::{ModelArgs, SamplingArgs};
use crate::cli::verbs::running::loading::{Wishes, load_model};
use crate::cli::verbs::running::prompt::has_template;
use apr_host::running::Wanted;
use apr_sdk::{Error, ErrorKind, Result};
use command::{HELP, Lines, Typed};
use conversation::Conversation;
use input::{Input, Line};
use serde_json::{Value as Json, json};
use std::fmt;
use std::path::PathBuf;

/// Chat with a model
///
/// Type a message and press Enter; the answer appears as it is generated.
/// Ctrl-C ends the answer, Ctrl-D or /exit the chat; /help lists the commands.
/// The model must have a chat template; `apr run --raw` continues a text with
/// any model. Messages can also be piped in, one per line.
///
/// Examples:
///   apr chat model.gguf
///   apr chat model/ --quantize Q4_K_M --system 'Answer in one sentence.'
///   apr chat model.gguf --temperature 0 -v
///   printf 'Hello!\n/exit\n' | apr chat model.gguf
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Instructions for the model, as the conversation's first message
    #[arg(long, aliases = ["system-prompt", "sys"], value_name = "TEXT")]
    system: Option<String>,
    /// Use the chat template of this name
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Do not read or write the history of typed lines
    #[arg(long)]
    no_history: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How tokens are chosen.
    #[command(flatten)]
    sampling: SamplingArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// The end of a chat, of which everything has been said.
#[derive(Debug)]
pub struct Ended;

impl Report for Ended {
    fn json(&self) -> Result<Json> {
        with_schema("apr.chat/1", &json!({}))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Loads the model and talks until the user leaves.
///
/// # Errors
/// InvalidArgument for settings that are none, or `--json`; Unsupported for a model without a chat template; what loading
/// and computing raised; Cancelled after two Ctrl-C.
pub fn run(args: &Args, context: &Context) -> Result<Ended> {
    if context.terminal.json {
        return Err(Error::invalid_argument("`apr chat` does not support --json")
            .hint("remove --json, or run `apr run MODEL PROMPT --json` for each message"));
    }
    args.sampling.check()?;
    let mut input = Input::open(!args.no_history, &context.terminal)?;
    let host = context.host();
    let mut loaded = load_model(
        &args.file,
        &Wishes { open: &args.open, model: &args.model, wanted: Wanted::Logits, reads: None, writes: None },
        &host,
        context,
    )?;
    if !has_template(&loaded.tokens) {
        return Err(Error::unsupported("the model has no chat template")
            .in_file(args.file.display().to_string())
            .hint("continue a text with `apr run MODEL --raw PROMPT`, or use a model trained to chat"));
    }
    if input.is_terminal() {
        signals::keep_terminal();
        if !context.terminal.quiet {
            context.terminal.note("type /help for the commands, /exit to leave");
        }
    }
    let facts = &loaded.facts;
    let sampler =
        args.sampling.sampler(&facts.suggested, facts.vocabulary, &|text| context.terminal.warn(text))?;
    let mut conversation = Conversation::new(args, &mut loaded, sampler, context, &host);
    let mut lines = Lines::default();
    let mut is_interrupted = false;
    loop {
        let line = match input.line(if lines.is_open() { "... " } else { ">>> " })? {
            Line::End => return Ok(Ended),
            Line::Interrupted if is_interrupted => return Err(Error::cancelled("stopped")),
            Line::Interrupted => {
                lines.abandon();
                context.terminal.note("press Ctrl-C again or type /exit to leave");
                is_interrupted = true;
                continue;
            }
            Line::Text(line) => line,
        };
        is_interrupted = false;
        let typed = match lines.push(&line) {
            Ok(typed) => typed,
            Err(error) => {
                context.terminal.fail(&error);
                continue;
            }
        };
        if !line.trim().is_empty() {
            input.remember(&line);
        }
        match typed {
            None | Some(Typed::Nothing) => {}
            Some(Typed::Exit) => return Ok(Ended),
            Some(Typed::Help) => context.terminal.relay(HELP),
            Some(Typed::Clear) => conversation.clear(),
            Some(Typed::System(text)) => conversation.instruct(text),
            Some(Typed::Message(text)) => match conversation.answer(text) {
                Ok(()) => {}
                // What is wrong with one message need not be with the next.
                Err(error) if is_of_the_message(error.kind()) && input.is_terminal() => {
                    context.terminal.fail(&error);
                }
                Err(error) => return Err(error),
            },
        }
    }
}

/// Returns whether an error concerns one message only.
fn is_of_the_message(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidArgument | ErrorKind::LimitExceeded)
}
