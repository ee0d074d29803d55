//! `apr check`: does this device compute what another computes?

mod verdict;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, parse_pair};
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::loading::open_model;
use crate::cli::verbs::running::prompt::{ids_without_pattern, of_text};
use crate::cli::verbs::tokenizer::text::{Text, read};
use apr_engine::crew::Crew;
use apr_engine::open::OpenedModel;
use apr_engine::progress::Stage;
use apr_host::host::Host;
use apr_host::running::{Backend, Facts, LoadOptions, Loaded, Wanted, load};
use apr_inference::compare::{Side, compare};
use apr_sdk::{Error, Options, Result};
use std::path::PathBuf;
pub use verdict::Checked;

/// Tokens that follow no pattern, where there is no text.
const TOKENS: u32 = 64;
/// Error that the order of sums and the rounding of intermediate results may cause in floats.
const BOUND: f64 = 1e-3;
/// With weights in blocks, devices round activations to 8 bits, each in groups of its own size.
const BOUND_OF_BLOCKS: f64 = 0.05;

/// Compare what a model computes on two devices, operation by operation
///
/// Runs the same tokens on the device that --backend names and on a reference,
/// the CPU unless --against names another: half of them together, as a prompt,
/// the others one at a time, as an answer. Compares the result of every operation
/// and the logits after every token. An operation departs if its error is above
/// --bound and more than 4 times as large as the error in what it reads: the
/// first one is where to look for a mistake. Exit 5 if one departs, or if the
/// logits are further apart than --max-divergence.
///
/// Examples:
///   apr check model.gguf --backend cuda
///   apr check model.gguf -f book.txt --tokens 512
///   apr check model.gguf --backend cpu --against-f32
///   apr check model/ --quantize Q4_K_M --backend cpu --against-option level=scalar
///   apr check model.gguf --json | jq '.forms[].operations[] | select(.departs)'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    /// Text to run, instead of pseudo-random tokens
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
    /// Maximum number of tokens [default: all of a text, else 64]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    tokens: Option<u32>,
    /// Relative error up to which an operation never departs [default: 0.05 with block weights, else 0.001]
    #[arg(long, value_name = "X", value_parser = parse_bound)]
    bound: Option<f64>,
    /// Maximum mean Kullback-Leibler divergence of the logits, in nats
    #[arg(long, value_name = "X", default_value_t = 0.01, value_parser = parse_bound)]
    max_divergence: f64,
    /// Backend of the reference [default: the CPU]
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

/// Loads the model on both devices and compares them.
///
/// # Errors
/// InvalidArgument for fewer than two tokens, or if both sides are the same; what loading and computing raised.
pub fn run(args: &Args, context: &Context) -> Result<Checked> {
    let text = text_of(args)?;
    let host = context.host();
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(&args.file, &args.open, &host)?;
    let known = text.map(|text| ids_of(&host, &opened, &text, context)).transpose()?;
    let device = args.model.to_options(host.threads().width(), Wanted::Logits)?;
    let device = LoadOptions { taps: true, ..device };
    let reference = reference(args, &device);
    let mut tested = load(&host, &opened, &device)?;
    refuse_the_same(&tested.facts, &device, &reference)?;
    let mut against = load(&host, &opened, &reference)?;
    drop(stage);
    let count = args.tokens.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let has_text = known.is_some();
    let ids = match known {
        Some(ids) => ids.into_iter().take(count).collect(),
        None => ids_without_pattern(args.tokens.unwrap_or(TOKENS), tested.facts.vocabulary),
    };
    if ids.len() < 2 {
        return Err(
            Error::invalid_argument("the text has fewer than two tokens").hint("specify a longer text")
        );
    }
    let count = ids.len();
    let room = tested.runner.context();
    if u32::try_from(count).map_or(true, |count| count > room) {
        let message = format!("{count} tokens do not fit in the context of {room}");
        return Err(
            Error::invalid_argument(message).hint(format!("pass --context {count}, or --tokens {room}"))
        );
    }
    let stage = Stage::new(host.progress.as_ref(), "comparing");
    let bound = args.bound.unwrap_or(if tested.facts.has_blocks { BOUND_OF_BLOCKS } else { BOUND });
    let mut sides = [side(&mut tested), side(&mut against)];
    let forms = compare(&mut sides, &ids, bound, &|| host.check_cancelled())
        .map_err(|error| error.in_file(args.file.display().to_string()))?;
    drop(stage);
    let mut warnings = opened.warnings.clone();
    for warning in tested.facts.warnings.iter().chain(&against.facts.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    let limits = verdict::Limits { bound, divergence: args.max_divergence };
    Ok(Checked::new([&tested.facts, &against.facts], forms, limits, has_text, warnings))
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

fn side(loaded: &mut Loaded) -> Side<'_> {
    Side { runner: &mut loaded.runner, built: &loaded.built }
}

/// The tokens of a text.
fn ids_of(host: &Host, opened: &OpenedModel, text: &str, context: &Context) -> Result<Vec<u32>> {
    of_text(&tokens_of(Given::of(host, opened)?, host, opened, context)?, text)
}

/// The options for loading the reference.
fn reference(args: &Args, device: &LoadOptions) -> LoadOptions {
    let mut options = Options::new();
    args.against_option.iter().for_each(|(name, value)| options.set(name, value));
    LoadOptions {
        backend: args.against.as_ref().map_or(Backend::Host, |id| match id.as_str() {
            "auto" => Backend::Auto,
            id => Backend::Named(id.to_owned()),
        }),
        device: args.against_device,
        options,
        as_floats: args.against_f32,
        ..device.clone()
    }
}

/// A device agrees with itself, which says nothing.
///
/// # Errors
/// InvalidArgument.
fn refuse_the_same(tested: &Facts, device: &LoadOptions, reference: &LoadOptions) -> Result<()> {
    if reference.as_floats {
        if tested.has_blocks {
            return Ok(());
        }
        let message = "the model has no quantized weights, so `--against-f32` has no effect";
        return Err(
            Error::invalid_argument(message).hint("remove it and specify another device with --against")
        );
    }
    let is_same = match &reference.backend {
        Backend::Named(id) => *id == tested.backend,
        Backend::Host => !tested.own_memory,
        Backend::Auto => device.backend == Backend::Auto,
    };
    if !is_same || device.device != reference.device || device.options != reference.options {
        return Ok(());
    }
    let message = format!(
        "nothing to compare: both are device {} of `{}` with the same options",
        device.device, tested.backend
    );
    Err(Error::invalid_argument(message).hint(
        "specify another device with --backend or --against, or different options with --against-option \
         NAME=VALUE",
    ))
}
