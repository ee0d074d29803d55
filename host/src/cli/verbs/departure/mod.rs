//! The comparison of two models: `apr check A B` and `apr trace A B --diff`.

mod report;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::running::args::ModelArgs;
use crate::cli::verbs::running::loading::open_model;
use crate::cli::verbs::running::prompt::{ids_without_pattern, of_text};
use apr_engine::crew::Crew;
use apr_engine::open::OpenedModel;
use apr_engine::progress::Stage;
use apr_engine::wording::n_of;
use apr_host::host::Host;
use apr_host::running::{LoadOptions, Loaded, Wanted, WeightValues, load_with_values};
use apr_inference::departure::compare_models;
use apr_inference::stages::LEAST_TOKENS;
use apr_inference::tapped::Tapped;
use apr_sdk::Result;
pub use report::Compared;
use report::{Prompt, Verdicts};
use std::path::Path;

/// The text that runs unless the user names one.
pub const TEXT: &str = "The lighthouse stood at the end of a long pier. Every evening, when the sun went down, its \
keeper climbed the stairs and lit the lamp, so that ships at sea could find their way home. One night in 1893 a storm \
came up from the west, and the wind was so strong that the waves broke over the roof.";
/// Tokens that run unless the user says how many.
const TOKENS: usize = 64;
/// Error of an operation by itself, relative to its result, that is not a departure: both run on one device, so that even
/// rounding is the same unless weights or parameters are others.
pub const BOUND: f64 = 1e-3;

/// A comparison as the user asked for it.
pub struct Question<'a> {
    /// The model that is judged.
    pub suspect: &'a Path,
    /// The model that is right.
    pub reference: &'a Path,
    /// The text to run.
    pub text: Option<String>,
    /// The most tokens to run.
    pub tokens: Option<u32>,
    /// Error of an operation that is not a departure.
    pub bound: f64,
    /// Mean divergence of the logits that is none.
    pub max_divergence: f64,
    /// How both are opened.
    pub open: &'a OpenArgs,
    /// How both are loaded.
    pub model: &'a ModelArgs,
}

/// Loads both models and compares them.
///
/// # Errors
/// InvalidArgument for no tokens, or more than a step takes; what loading and computing raised.
pub fn run(question: &Question<'_>, context: &Context) -> Result<Compared> {
    let host = context.host();
    let stage = Stage::new(host.progress.as_ref(), "loading the models");
    let suspect = open_model(question.suspect, question.open, &host)?;
    let reference = open_model(question.reference, question.open, &host)?;
    let options = question.model.to_options(host.threads().width(), Wanted::Logits)?;
    let options = LoadOptions { taps: true, ..options };
    let [(mut first, first_values), (mut second, second_values)] =
        load_both(&host, [&suspect, &reference], &options)?;
    drop(stage);
    let prompts =
        [prompt(question, &host, &suspect, context)?, prompt(question, &host, &reference, context)?];
    let most = question.tokens.map_or(TOKENS, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let known = first.facts.vocabulary.min(second.facts.vocabulary);
    let (ids, of_text) = match prompts.iter().rev().flatten().next() {
        Some(ids) => (ids.clone(), true),
        None => (ids_without_pattern(u32::try_from(most).unwrap_or(u32::MAX), known), false),
    };
    let ids: Vec<u32> =
        ids.into_iter().take(most.min(first.runner.rows()).min(second.runner.rows())).collect();
    let is_known = ids.iter().all(|id| *id < known);
    let ids = match is_known {
        true => ids,
        false => ids_without_pattern(u32::try_from(ids.len()).unwrap_or(u32::MAX), known),
    };
    let of_text = of_text && is_known;
    let stage = Stage::new(host.progress.as_ref(), "comparing operations");
    let facts = [first.facts.clone(), second.facts.clone()];
    let mut sides = [tapped(&mut first, &first_values), tapped(&mut second, &second_values)];
    let [one, two] = &mut sides;
    let found = compare_models(one, two, &ids, question.bound, &|| host.check_cancelled())
        .map_err(|error| error.in_file(question.suspect.display().to_string()))?;
    drop(stage);
    let mut warnings = suspect.warnings.clone();
    for warning in reference.warnings.iter().chain(facts.iter().flat_map(|facts| &facts.warnings)) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    if !is_known {
        warnings.push(
            "only one of the models knows all tokens of the text: both were given a pseudo-random sequence"
                .to_owned(),
        );
    }
    if ids.len() < LEAST_TOKENS {
        warnings.push(format!(
            "only {} ran: what depends on positions hardly shows with fewer than {LEAST_TOKENS}",
            n_of(ids.len(), "token")
        ));
    }
    if facts[0].vocabulary != facts[1].vocabulary {
        warnings.push(format!(
            "the models know {} and {} tokens: logits are compared for the first {known}",
            facts[0].vocabulary, facts[1].vocabulary
        ));
    }
    let limits = Verdicts { bound: question.bound, divergence: question.max_divergence };
    let prompt = Prompt { ids, of_text, prompts };
    Ok(Compared::new([question.suspect, question.reference], &facts, found, prompt, limits, warnings))
}

/// A loaded model with the values of its weights.
type Side<'a> = (Loaded, WeightValues<'a>);

/// Loads both, with weights as floats where their types differ: devices round what they multiply with blocks.
fn load_both<'a>(
    host: &'a Host,
    opened: [&'a OpenedModel; 2],
    options: &LoadOptions,
) -> Result<[Side<'a>; 2]> {
    let [suspect, reference] = opened;
    let first = load_with_values(host, suspect, options)?;
    let second = load_with_values(host, reference, options)?;
    let [a, b] = [&first.0.facts, &second.0.facts];
    if a.dtype == b.dtype && a.has_blocks == b.has_blocks {
        return Ok([first, second]);
    }
    let (in_blocks, other_in_blocks) = (a.has_blocks, b.has_blocks);
    let floats = LoadOptions { as_floats: true, ..options.clone() };
    let first = if in_blocks { reload(host, suspect, &floats, first)? } else { first };
    let second = if other_in_blocks { reload(host, reference, &floats, second)? } else { second };
    Ok([first, second])
}

/// Loads again, once the memory of the first time is free.
fn reload<'a>(
    host: &'a Host,
    opened: &'a OpenedModel,
    options: &LoadOptions,
    before: Side<'a>,
) -> Result<Side<'a>> {
    drop(before);
    load_with_values(host, opened, options)
}

fn tapped<'a>(loaded: &'a mut Loaded, values: &'a WeightValues<'_>) -> Tapped<'a> {
    Tapped::new(&mut loaded.runner, &loaded.built, loaded.device.as_ref(), &loaded.weights, values)
}

/// The tokens that a model makes of the text; `None` if it has no tokenizer and the user named no text.
fn prompt(
    question: &Question<'_>,
    host: &Host,
    opened: &OpenedModel,
    context: &Context,
) -> Result<Option<Vec<u32>>> {
    let text = question.text.as_deref().unwrap_or(TEXT);
    match Given::of(host, opened).and_then(|given| tokens_of(given, host, opened, context)) {
        Ok(tokens) => of_text(&tokens, text).map(Some),
        Err(error) if question.text.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}
