//! `apr run`: what does this model say?

mod answer;
mod embedding;
pub mod ids;
pub mod logits;
pub mod question;
mod tracing;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::verbs::running::args::{Bound, ModelArgs, SamplingArgs};
use crate::cli::verbs::running::loading::{Computation, Ready, Wishes, load_for_ids, load_model_seen};
use crate::cli::verbs::running::signs::{explained, unknown_in};
use crate::cli::verbs::running::stdout::Stdout;
use crate::cli::verbs::running::summary::word_of;
use crate::cli::verbs::trace::subject::{Config, Said, SamplingOf};
use crate::cli::verbs::trace::timestamp::Timestamp;
use answer::Answered;
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::{Facts, Wanted};
use apr_host::sizes::show_number_of;
use apr_inference::generation::{Answer, Decoder, End, Generator, Model, Request, Surroundings};
use apr_inference::runner::Runner;
use apr_inference::sampling::Sampler;
use apr_inference::trace::{Subject, Tracer};
use apr_sandbox::Tokens;
use apr_sdk::{Error, ErrorKind, Result};
use logits::{Recorded, Writer};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::Before;

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
///   apr run model.safetensors --ids 1,15043,29892 --temperature 0 -n 8
///   apr run model.gguf 'Hello' --trace --trace-output trace.json
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    mut_arg("ids", |ids| ids.conflicts_with("stop")),
    group(clap::ArgGroup::new("written").args(["logits_out", "trace_output"]).multiple(true))
)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Print the embedding of the prompt, normalized to length 1, instead of an answer
    #[arg(long, conflicts_with_all = ["logits_out", "max_tokens", "stop", "ids", "chat", "system", "template"])]
    embed: bool,
    /// Write the logits after every token to FILE, as a NumPy array of tokens x vocabulary in 32-bit floats
    #[arg(long, value_name = "FILE")]
    logits_out: Option<PathBuf>,
    /// Replace the file of --logits-out or --trace-output if it exists
    #[arg(long, requires = "written")]
    force: bool,
    /// The trace.
    #[command(flatten)]
    trace: tracing::TraceArgs,
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
    args.sampling.check()?;
    args.trace.check(context.terminal.json)?;
    let ids = args.question.ids();
    let question = if ids.is_none() { Some(args.question.read()?) } else { None };
    let file = match &args.logits_out {
        Some(path) => Some(OutputFile::new(path, "file of logits", args.force)),
        None => args.trace.file(args.force),
    };
    let seen = args.trace.seen();
    let host = context.host();
    let wanted = if args.embed { Wanted::Embedding } else { Wanted::Logits };
    let wishes = Wishes {
        open: &args.open,
        model: &args.model,
        wanted,
        reads: args.question.file(),
        writes: file.as_ref(),
    };
    let Some(question) = question else {
        let ids = ids.unwrap_or_default();
        let Ready { mut runner, tokens, facts, time, computation } =
            load_for_ids(&args.file, &wishes, seen, &host, context)?;
        ids::check(ids, facts.vocabulary)?;
        let ends = tokens.as_ref().map_or(&[][..], |tokens| &tokens.facts().ends);
        let asked = Asked {
            args,
            context,
            host: &host,
            facts: &facts,
            time,
            decoder: &ids::Ids,
            tokens: None,
            prompt: ids.to_vec(),
            ends: facts.suggested.ends(ends),
            text: None,
            tokenizing: Duration::ZERO,
        };
        return asked.answer(&mut runner, &computation, file).map(boxed);
    };
    let loaded = load_model_seen(&args.file, &wishes, seen, &host, context)?;
    if args.embed {
        let warn = |text: &str| context.terminal.warn_of_answer(text);
        return embedding::run(loaded, &question, &args.file, &warn).map(boxed);
    }
    let Ready { mut runner, tokens, facts, time, computation } = loaded;
    let since = Instant::now();
    let prompt = question.tokens(&tokens)?;
    if let Some(hint) = unknown_in(&prompt, &tokens)? {
        context.terminal.warn_of_answer(&hint);
    }
    let asked = Asked {
        args,
        context,
        host: &host,
        facts: &facts,
        time,
        decoder: &tokens,
        tokens: Some(&tokens),
        prompt,
        ends: facts.suggested.ends(&tokens.facts().ends),
        text: Some(question.text()),
        tokenizing: since.elapsed(),
    };
    asked.answer(&mut runner, &computation, file).map(boxed)
}

/// A question to a model that is loaded.
struct Asked<'a> {
    args: &'a Args,
    context: &'a Context,
    host: &'a Host,
    facts: &'a Facts,
    /// Duration of loading.
    time: Duration,
    /// The decoder of the answer.
    decoder: &'a dyn Decoder,
    /// The tokenizer, unless the model is given ids.
    tokens: Option<&'a Tokens>,
    prompt: Vec<u32>,
    ends: Vec<u32>,
    /// The text of the question; `None` for ids.
    text: Option<&'a str>,
    /// Duration of making tokens of it.
    tokenizing: Duration,
}

impl Asked<'_> {
    /// Generates the answer, and writes a trace, or the logits of every token, to a file if there is one.
    fn answer(
        &self,
        runner: &mut Runner,
        computation: &Computation,
        file: Option<OutputFile>,
    ) -> Result<Answered> {
        let args = self.args;
        let suggested = &self.facts.suggested;
        let warn = |text: &str| self.context.terminal.warn_of_answer(text);
        let sampler = args.sampling.sampler(suggested, self.facts.vocabulary, &warn)?;
        // What has no text has no strings that end it.
        let stops = self.tokens.map(|_| args.sampling.stops(suggested)).unwrap_or_default();
        let bound = args.sampling.bound(suggested, self.prompt.len());
        let request =
            Request { prompt: &self.prompt, stops: &stops, ends: &self.ends, max_tokens: bound.most };
        let n_context = runner.context();
        if args.trace.is_wanted() {
            return self.traced(&request, sampler, bound, computation.subject(runner), file);
        }
        let Some(file) = file else {
            let (answer, sampler) = self.generate(&request, sampler, runner)?;
            return answer::report(self, n_context, bound, answer, &sampler);
        };
        let mut recorded = Recorded::new(runner, Writer::new(file)?);
        if bound.most == Some(0) {
            // Nothing is chosen, but the prompt's logits are wanted.
            recorded.feed(&self.prompt).map_err(|error| explained(error, &args.file))?;
        }
        let (answer, sampler) = self.generate(&request, sampler, &mut recorded)?;
        recorded.finish()?;
        answer::report(self, n_context, bound, answer, &sampler)
    }

    /// Generates the answer and its trace.
    fn traced(
        &self,
        request: &Request<'_>,
        sampler: Sampler,
        bound: Bound,
        subject: Subject<'_>,
        file: Option<OutputFile>,
    ) -> Result<Answered> {
        let n_context = subject.runner.context();
        let before = Before {
            text: self.text.map(str::to_owned),
            tokenizing: self.tokenizing,
            began: Timestamp::now(),
            config: Config {
                sampling: Some(SamplingOf::of(sampler.settings(), bound.most)),
                ..Config::of(self.facts, subject.runner)
            },
        };
        let began = Instant::now();
        let now = || began.elapsed();
        let mut tracer = Tracer::new(subject, &now);
        if bound.most == Some(0) {
            // Nothing is chosen, but the prompt is to be traced.
            tracer.feed(&self.prompt).map_err(|error| explained(error, &self.args.file))?;
        }
        let (answer, sampler) = match self.generate(request, sampler, &mut tracer) {
            Ok(generated) => generated,
            Err(error) if error.kind() == ErrorKind::Failed => {
                // How it came to that is what a trace is for.
                let history = tracing::history(self, before, tracer.finish(), Err(&error))?;
                match file {
                    Some(file) => file.write(history.as_bytes())?,
                    None => Stdout::new().give(&history)?,
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let said = Said {
            text: self.tokens.map(|_| answer.text.clone()),
            ids: answer.ids.clone(),
            end: word_of(&answer.end),
        };
        let history = tracing::history(self, before, tracer.finish(), Ok(said))?;
        let mut report = answer::report(self, n_context, bound, answer, &sampler)?;
        match file {
            Some(file) => file.write(history.as_bytes())?,
            None => report.print(history),
        }
        Ok(report)
    }

    /// Generates the answer, and prints it as it comes.
    fn generate(
        &self,
        request: &Request<'_>,
        mut sampler: Sampler,
        model: &mut dyn Model,
    ) -> Result<(Answer, Sampler)> {
        let out = Stdout::new();
        let began = Instant::now();
        let json = self.context.terminal.json || self.args.trace.is_printed();
        // A list of ids does not begin with a comma.
        let mut skipped = if self.tokens.is_none() { "," } else { "" };
        let mut around = Surroundings {
            now: &|| began.elapsed(),
            is_cancelled: &|| out.is_closed() || self.host.cancel.load(Ordering::Relaxed),
            give: &mut |text| {
                let text = text.strip_prefix(std::mem::take(&mut skipped)).unwrap_or(text);
                if json { Ok(()) } else { out.give(text) }
            },
        };
        let answer = Generator::new(model).generate(self.decoder, &mut sampler, request, &mut around);
        out.end_line()?;
        let answer = answer.map_err(|error| explained(error, &self.args.file))?;
        if answer.end == End::Cancelled && !out.is_closed() {
            let count = show_number_of(answer.ids.len(), "token");
            return Err(Error::cancelled(format!("stopped after {count}")));
        }
        Ok((answer, sampler))
    }
}
