//! Comparison of what a model computes on two devices, operation by operation.

use super::device_report::{Checked, Limits};
use super::{Args, ids_of, text_of};
use crate::cli::context::Context;
use crate::cli::verbs::running::loading::open_model;
use crate::cli::verbs::running::prompt::ids_without_pattern;
use apr_engine::crew::Crew;
use apr_engine::progress::Stage;
use apr_host::running::{Backend, Facts, LoadOptions, Loaded, Wanted, load};
use apr_inference::compare::{Side, compare};
use apr_sdk::{Error, Options, Result};

/// Tokens that follow no pattern, where there is no text.
const TOKENS: u32 = 64;
/// Error that the order of sums and the rounding of intermediate results may cause in floats.
const BOUND: f64 = 1e-3;
/// With weights in blocks, devices round activations to 8 bits, each in groups of its own size.
const BOUND_OF_BLOCKS: f64 = 0.05;

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
    let limits = Limits { bound, divergence: args.max_divergence };
    Ok(Checked::new([&tested.facts, &against.facts], forms, limits, has_text, warnings))
}

fn side(loaded: &mut Loaded) -> Side<'_> {
    Side { runner: &mut loaded.runner, built: &loaded.built }
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
