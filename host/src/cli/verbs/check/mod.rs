//! `apr check`: does a model compute what it must, what another device computes, what another model computes?

mod device_report;
mod devices;
mod stage_report;
mod stages;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, parse_pair};
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::departure::{self, Question};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::prompt::of_text;
use crate::cli::verbs::tokenizer::text::{Text, read};
use apr_engine::open::OpenedModel;
use apr_host::host::Host;
use apr_sdk::Result;
use std::path::PathBuf;

/// Check that a model computes what it must, stage by stage
///
/// Runs a text through the model and judges its ten stages, from the tokenizer
/// to the sampler, each by a figure. A stage that the model does not have is not
/// applicable. Exit 5 if one fails.
///
/// With REFERENCE, compares two models: logits, their divergence, and each
/// operation by itself on the same input. Names the first one that departs and
/// the mistake that it looks like. Exit 5 if one departs.
///
/// With --against, --against-f32 or --against-option, compares two devices
/// instead: half of the tokens run together, as a prompt, the others one at a
/// time, as an answer. An operation departs if its error is above --bound and
/// more than 4 times as large as the error in what it reads: the first one is
/// where to look for a mistake. Exit 5 if one departs, or if the logits are
/// further apart than --max-divergence.
///
/// Examples:
///   apr check model.gguf
///   apr check model.gguf -p 'a text of at least sixteen tokens' --json
///   apr check converted.gguf original/
///   apr check model.gguf --backend cuda --against cpu
///   apr check model.gguf --backend cpu --against-f32
///   apr check model/ --quantize Q4_K_M --against-option level=scalar
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Model that is right, to compare with
    #[arg(value_name = "REFERENCE", conflicts_with_all = ["against", "against_f32", "against_option"])]
    reference: Option<PathBuf>,
    /// Text to run [default: a paragraph of English; pseudo-random tokens for devices]
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        conflicts_with = "prompt_file",
        allow_hyphen_values = true
    )]
    prompt: Option<String>,
    /// Read the text from FILE; - for stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    prompt_file: Option<String>,
    /// Maximum number of tokens [default: 64; all of a text for devices]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    /// Relative error up to which an operation never departs [default: 0.05 for devices with block weights, else 0.001]
    #[arg(long, value_name = "X", value_parser = parse_bound)]
    bound: Option<f64>,
    /// Maximum mean Kullback-Leibler divergence of the logits, in nats
    #[arg(long, value_name = "X", default_value_t = 0.01, value_parser = parse_bound)]
    max_divergence: f64,
    /// Compare with another backend, the reference
    #[arg(long, value_name = "ID")]
    against: Option<String>,
    /// Number of the reference's device
    #[arg(long, value_name = "N", default_value_t = 0)]
    against_device: u32,
    /// Set an option of the reference's backend; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    against_option: Vec<(String, String)>,
    /// Dequantize the reference's block weights to F32, and do not round its activations
    #[arg(long, conflicts_with = "quantize")]
    against_f32: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_bound(text: &str) -> std::result::Result<f64, String> {
    let bound = text.parse::<f64>().ok().filter(|bound| bound.is_finite() && *bound >= 0.0);
    bound.ok_or_else(|| format!("expected a number that is not negative, found `{text}`"))
}

/// Judges the model's stages, or compares it with another device.
///
/// # Errors
/// InvalidArgument for options that do not fit together; what loading and computing raised.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    if let Some(reference) = &args.reference {
        let question = Question {
            suspect: &args.file,
            reference,
            text: text_of(args)?,
            tokens: args.tokens,
            bound: args.bound.unwrap_or(departure::BOUND),
            max_divergence: args.max_divergence,
            open: &args.open,
            model: &args.model,
        };
        return departure::run(&question, context).map(boxed);
    }
    if args.names_reference() {
        return devices::run(args, context).map(boxed);
    }
    stages::run(args, context).map(boxed)
}

impl Args {
    /// True if a second device is named, or the first in another setting.
    fn names_reference(&self) -> bool {
        self.against.is_some()
            || self.against_f32
            || self.against_device != 0
            || !self.against_option.is_empty()
    }
}

/// The text whose tokens are compared, if one is given.
fn text_of(args: &Args) -> Result<Option<String>> {
    match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => Ok(Some(text.clone())),
        (None, Some(file)) if file == "-" => read(&Text::Stdin).map(Some),
        (None, Some(file)) => read(&Text::File(file.clone())).map(Some),
        (None, None) => Ok(None),
    }
}

/// The tokens of a text.
fn ids_of(host: &Host, opened: &OpenedModel, text: &str, context: &Context) -> Result<Vec<u32>> {
    of_text(&tokens_of(Given::of(host, opened)?, host, opened, context)?, text)
}
