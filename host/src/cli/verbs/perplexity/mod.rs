//! `apr perplexity`: how well does this model foretell a text, and how far is it from another?

mod measure;
mod report;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::corpus::{Corpus, first_token};
use crate::cli::verbs::running::loading::open_model;
use apr_engine::crew::Crew;
use apr_engine::open::files::Files;
use apr_engine::open::source::{CallSource, Root};
use apr_engine::progress::Stage;
use apr_host::destination::output_file::OutputFile;
use apr_host::running::{LoadOptions, Wanted, load};
use apr_inference::perplexity::base::Base;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Limits, Result};
use measure::{Measurement, WINDOW, check_window};
pub use report::Measured;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Measure the perplexity of a model on a text, and its distance from another model
///
/// Computes what llama-perplexity computes: the text is cut into windows of 512
/// tokens (--context), the rest is dropped; the tokens in the second half of each
/// window are judged by what stands before them in it. Perplexities of models
/// with one tokenizer can be compared; lower is better.
///
/// --save-base writes the distributions of a model, usually the original one, to
/// a file that llama-perplexity reads too; --kl-base compares a quantized one with
/// it: mean, median and percentiles of the Kullback-Leibler divergence, the
/// change of the right token's probability, and the ratio of the perplexities.
/// Such a file takes 2 bytes for each token of the vocabulary and each token that
/// is judged.
///
/// Examples:
///   apr perplexity model.gguf wiki.test.raw
///   apr ppl model/ book.txt --context 2048 --chunks 20
///   apr perplexity model-f16.gguf wiki.test.raw --save-base wiki.kld
///   apr perplexity model-q4.gguf --kl-base wiki.kld
///   apr perplexity model.gguf wiki.test.raw --json | jq .perplexity.mean
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(mut_arg("context", |arg| arg.help("Number of tokens of a window [default: 512, or as many as the model was trained with]")))]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Text: a file in UTF-8, or - for stdin; --kl-base has one
    #[arg(value_name = "TEXT", required_unless_present_any = ["kl_base", "llama_file", "kl_divergence"])]
    text: Option<PathBuf>,
    /// Compare with the distributions in FILE, which --save-base or llama-perplexity wrote
    #[arg(long, value_name = "FILE", conflicts_with = "save_base")]
    kl_base: Option<PathBuf>,
    /// Write the distributions to FILE, for --kl-base
    #[arg(long, alias = "save-all-logits", value_name = "FILE")]
    save_base: Option<PathBuf>,
    /// Replace the file of --save-base if it exists
    #[arg(long)]
    force: bool,
    /// Maximum number of windows
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    chunks: Option<Count>,
    /// The text, as llama.cpp names it
    #[arg(short = 'f', long = "file", value_name = "FILE", hide = true, conflicts_with = "text")]
    llama_file: Option<PathBuf>,
    /// Compare with the file of --kl-divergence-base instead of writing it
    #[arg(long, hide = true, requires = "kl_divergence_base")]
    kl_divergence: bool,
    /// The base file, as llama.cpp names it
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["kl_base", "save_base"])]
    kl_divergence_base: Option<PathBuf>,
    /// Distance of overlapping windows, which apr does not have
    #[arg(long, value_name = "N", hide = true)]
    ppl_stride: Option<u32>,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// A number of windows; llama.cpp's −1 stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count(Option<usize>);

/// # Errors
/// A sentence saying what is wrong.
fn parse_count(text: &str) -> std::result::Result<Count, String> {
    if text == "-1" {
        return Ok(Count(None));
    }
    let count = text.parse().ok().filter(|count| *count > 0);
    count.map(|count| Count(Some(count))).ok_or_else(|| format!("invalid number of windows `{text}`"))
}

impl Args {
    fn text(&self) -> Option<&Path> {
        self.text.as_deref().or(self.llama_file.as_deref())
    }

    /// The base file to compare with.
    fn base(&self) -> Option<&Path> {
        self.kl_base.as_deref().or(self.kl_divergence_base.as_deref().filter(|_| self.kl_divergence))
    }

    /// The base file to write.
    fn output(&self) -> Option<OutputFile> {
        let of_llama = self.kl_divergence_base.as_deref().filter(|_| !self.kl_divergence);
        let path = self.save_base.as_deref().or(of_llama)?;
        Some(OutputFile::new(path, "base file", self.force))
    }
}

/// Loads the model and measures it.
///
/// # Errors
/// InvalidArgument for a text that is too short, and for a base file of another model or text; Unsupported for a model without
/// a tokenizer; what loading, computing, reading and writing raised.
pub fn run(args: &Args, context: &Context) -> Result<Measured> {
    if args.ppl_stride.is_some_and(|stride| stride > 0) {
        return Err(Error::unsupported("windows that overlap (`--ppl-stride`) are not implemented")
            .hint("remove it: the usual figures of llama-perplexity are without it"));
    }
    let corpus = args.text().map(Corpus::read).transpose()?;
    let host = context.host();
    // The base file is refused before anything is loaded.
    let limits = Limits::default();
    let files = match args.base() {
        Some(path) => Some(Files::new(&host.places.locate(path)?, Arc::clone(&host.cancel))),
        None => None,
    };
    let source = files
        .as_ref()
        .map(|files| CallSource::new(files, Root::WHOLE, &limits.budget, host.progress.as_ref()));
    let base = match (&source, &files) {
        (Some(source), Some(files)) => Some(Base::open(source).map_err(|error| files.show(error))?),
        _ => None,
    };
    let output = args.output();
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(&args.file, &args.open, &host)?;
    if let Some(output) = &output {
        let mut inputs = context.inputs(&host.registry);
        inputs.add_model(&opened);
        args.text().into_iter().for_each(|path| inputs.add(path));
        output.check(&inputs)?;
    }
    let given = Given::of(&host, &opened)?;
    let mut warnings = opened.warnings.clone();
    given.warn(&mut warnings);
    let mut tokens: Tokens = tokens_of(given, &host, &opened, context)?;
    tokens.prepare();
    let mut options = args.model.to_options(host.threads().width(), Wanted::Logits)?;
    if let Some(base) = &base {
        check_window(options.context, base.header.window)?;
        options.context = Some(base.header.window);
    }
    let ids = corpus.as_ref().map(|corpus| corpus.ids(&tokens, false)).transpose()?;
    let first = first_token(&tokens)?;
    let mut loaded = load(&host, &opened, &LoadOptions { usual_context: WINDOW, ..options })?;
    drop(stage);
    warnings.append(&mut loaded.facts.warnings);
    let measurement = Measurement {
        host: &host,
        model: &args.file,
        text: corpus.as_ref().map(|corpus| corpus.name.as_str()),
        first,
        most: args.chunks.and_then(|count| count.0),
    };
    let mut measured = match (base, ids) {
        (Some(base), ids) => measurement
            .compare(&mut loaded, base, ids.as_deref())
            .map_err(|error| files.as_ref().map_or(error.clone(), |files| files.show(error)))?,
        (None, Some(ids)) => measurement.measure(&mut loaded, ids, output)?,
        (None, None) => {
            return Err(Error::invalid_argument("there is no text to measure").hint("specify a text"));
        }
    };
    measured.warnings.splice(0..0, warnings);
    Ok(measured)
}
