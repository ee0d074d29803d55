//! `apr run`: what does this model say?

mod answer;
mod embedding;
mod logits;
mod question;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, only_a_path};
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::verbs::running::args::{ModelArgs, SamplingArgs};
use crate::cli::verbs::running::loading::{Wishes, load_model};
use crate::cli::verbs::running::signs::explained;
use crate::cli::verbs::running::stdout::Stdout;
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::Wanted;
use apr_host::sizes::show_number_of;
use apr_inference::generation::{Answer, End, Generator, Model, Request, Surroundings};
use apr_inference::sampling::Sampler;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};
use logits::{Recorded, Writer};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Run a model on a prompt
///
/// The answer goes to stdout as it is generated, and nothing else does; -v
/// prints times and rates on stderr. Works with every format that holds weights
/// and a tokenizer. If the model has a chat template, the prompt is a message of
/// the user; with --raw, or without a template, it is a text to continue.
/// Without a PROMPT, it is read from stdin. Ctrl-C ends the answer.
///
/// Examples:
///   apr run model.gguf 'Why is the sky blue?'
///   apr run model.gguf --raw 'In the beginning' --max-tokens 50
///   apr run model/ --quantize Q8_0 --temperature 0 -f question.txt
///   echo 'Summarize this.' | apr run model.apr -v
///   apr run model.gguf 'Hello' --embed --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Print the embedding of the prompt, normalized to length 1, instead of an answer
    #[arg(long, conflicts_with_all = ["logits_out", "max_tokens", "stop"])]
    embed: bool,
    /// Write the logits after every token to FILE, as a NumPy array of tokens x vocabulary in 32-bit floats
    #[arg(long, value_name = "FILE")]
    logits_out: Option<PathBuf>,
    /// Replace the file of --logits-out if it exists
    #[arg(long, requires = "logits_out")]
    force: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// What the model is asked.
    #[command(flatten)]
    question: question::QuestionArgs,
    /// How tokens are chosen.
    #[command(flatten)]
    sampling: SamplingArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// Loads the model and answers.
///
/// # Errors
/// InvalidArgument for a prompt or settings that are none; what loading and computing raised; Cancelled after Ctrl-C.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    only_a_path(&args.file)?;
    args.sampling.check()?;
    let question = args.question.read()?;
    let file = args.logits_out.as_deref().map(|path| OutputFile::new(path, "file of logits", args.force));
    let host = context.host();
    let wanted = if args.embed { Wanted::Embedding } else { Wanted::Logits };
    let wishes = Wishes {
        open: &args.open,
        model: &args.model,
        wanted,
        reads: args.question.file(),
        writes: file.as_ref(),
    };
    let mut loaded = load_model(&args.file, &wishes, &host, context)?;
    let warn = |text: &str| context.terminal.warn_of_answer(text);
    if args.embed {
        return embedding::run(loaded, &question, &args.file, &warn).map(boxed);
    }
    let prompt = question.tokens(&loaded.tokens)?;
    let facts = &loaded.facts;
    let sampler = args.sampling.sampler(&facts.suggested, facts.vocabulary, &warn)?;
    let stops = args.sampling.stops(&facts.suggested);
    let bound = args.sampling.bound(&facts.suggested, prompt.len());
    let ends = facts.suggested.ends(&loaded.tokens.facts().ends);
    let request = Request { prompt: &prompt, stops: &stops, ends: &ends, max_tokens: bound.most };
    let Some(file) = file else {
        let (answer, sampler) =
            answer(args, context, &host, &loaded.tokens, &request, sampler, &mut loaded.runner)?;
        return answer::report(args, context, &host, &loaded, bound, answer, &sampler).map(boxed);
    };
    let mut recorded = Recorded::new(&mut loaded.runner, Writer::new(file)?);
    if bound.most == Some(0) {
        // Nothing is chosen, but the prompt's logits are wanted.
        recorded.feed(&prompt).map_err(|error| explained(error, &args.file))?;
    }
    let (answer, sampler) = answer(args, context, &host, &loaded.tokens, &request, sampler, &mut recorded)?;
    recorded.finish()?;
    answer::report(args, context, &host, &loaded, bound, answer, &sampler).map(boxed)
}

/// Generates the answer, and prints it as it comes.
fn answer(
    args: &Args,
    context: &Context,
    host: &Host,
    tokens: &Tokens,
    request: &Request<'_>,
    mut sampler: Sampler,
    model: &mut dyn Model,
) -> Result<(Answer, Sampler)> {
    let out = Stdout::new();
    let began = Instant::now();
    let json = context.terminal.json;
    let mut around = Surroundings {
        now: &|| began.elapsed(),
        is_cancelled: &|| out.is_closed() || host.cancel.load(Ordering::Relaxed),
        give: &mut |text| if json { Ok(()) } else { out.give(text) },
    };
    let answer = Generator::new(model).generate(tokens, &mut sampler, request, &mut around);
    out.end_line()?;
    let answer = answer.map_err(|error| explained(error, &args.file))?;
    if answer.end == End::Cancelled && !out.is_closed() {
        let count = show_number_of(answer.ids.len(), "token");
        return Err(Error::cancelled(format!("stopped after {count}")));
    }
    Ok((answer, sampler))
}
