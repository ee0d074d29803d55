//! `apr run`: what does this model say?

mod answer;
mod embedding;
mod ids;
mod logits;
mod question;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::verbs::running::args::{ModelArgs, SamplingArgs};
use crate::cli::verbs::running::loading::{Ready, Wishes, load_for_ids, load_model};
use crate::cli::verbs::running::signs::{explained, unknown_in};
use crate::cli::verbs::running::stdout::Stdout;
use answer::Answered;
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::{Facts, Wanted};
use apr_host::sizes::show_number_of;
use apr_inference::generation::{Answer, Decoder, End, Generator, Model, Request, Surroundings};
use apr_inference::runner::Runner;
use apr_inference::sampling::Sampler;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};
use logits::{Recorded, Writer};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
    args.sampling.check()?;
    let ids = args.question.ids();
    let question = if ids.is_none() { Some(args.question.read()?) } else { None };
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
    let Some(question) = question else {
        let ids = ids.unwrap_or_default();
        let Ready { mut runner, tokens, facts, time } = load_for_ids(&args.file, &wishes, &host, context)?;
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
        };
        return asked.answer(&mut runner, file).map(boxed);
    };
    let loaded = load_model(&args.file, &wishes, &host, context)?;
    if args.embed {
        let warn = |text: &str| context.terminal.warn_of_answer(text);
        return embedding::run(loaded, &question, &args.file, &warn).map(boxed);
    }
    let Ready { mut runner, tokens, facts, time } = loaded;
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
    };
    asked.answer(&mut runner, file).map(boxed)
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
}

impl Asked<'_> {
    /// Generates the answer, and writes the logits of every token to a file if there is one.
    fn answer(&self, runner: &mut Runner, file: Option<OutputFile>) -> Result<Answered> {
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

    /// Generates the answer, and prints it as it comes.
    fn generate(
        &self,
        request: &Request<'_>,
        mut sampler: Sampler,
        model: &mut dyn Model,
    ) -> Result<(Answer, Sampler)> {
        let out = Stdout::new();
        let began = Instant::now();
        let json = self.context.terminal.json;
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
