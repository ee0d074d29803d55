//! Loads a model for a verb, with something that moves meanwhile, and says what there is to say about it.

use super::args::ModelArgs;
use super::spinner::Spinner;
use super::summary::show_time;
use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::sandbox_worker::{Given, tokens_of};
use apr_engine::architecture::refuse_adapter;
use apr_engine::crew::Crew;
use apr_engine::open::{OpenedModel, check_options};
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::{Facts, LoadOptions, Loaded, Wanted, load};
use apr_host::sizes::{show_count, show_number_of, show_size};
use apr_inference::runner::Runner;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// A model that is ready to answer.
pub struct Ready {
    /// The runner.
    pub runner: Runner,
    /// Its tokenizer.
    pub tokens: Tokens,
    /// The facts found out while loading.
    pub facts: Facts,
    /// Duration of loading.
    pub time: Duration,
}

/// A verb's wishes about a model.
pub struct Wishes<'a> {
    /// The options for opening it.
    pub open: &'a OpenArgs,
    /// The options for loading it.
    pub model: &'a ModelArgs,
    /// The purpose of loading it.
    pub wanted: Wanted,
    /// A file that is read besides it.
    pub reads: Option<&'a Path>,
    /// A file that is written once it has been run.
    pub writes: Option<&'a OutputFile>,
}

impl Wishes<'_> {
    /// Refuses, before a model is loaded, to write over what is read.
    fn check_output(&self, opened: &OpenedModel, host: &Host, context: &Context) -> Result<()> {
        let Some(file) = self.writes else { return Ok(()) };
        let mut inputs = context.inputs(&host.registry);
        inputs.add_model(opened);
        self.reads.into_iter().for_each(|path| inputs.add(path));
        file.check(&inputs)
    }
}

/// Loads a model and its tokenizer.
///
/// # Errors
/// As [`load`]; Unsupported for a model without a tokenizer; Malformed if that has more tokens than the model knows.
pub fn load_model(path: &Path, wishes: &Wishes<'_>, host: &Host, context: &Context) -> Result<Ready> {
    let began = Instant::now();
    let options = wishes.model.to_options(host.threads().width(), wishes.wanted)?;
    let spinner =
        Spinner::showing("loading the model", context.settings.text("defaults.progress"), &context.terminal);
    let (loaded, tokens, opening) = all(path, wishes, &options, host, context)?;
    drop(spinner);
    let time = began.elapsed();
    let Loaded { runner, mut facts, .. } = loaded;
    facts.warnings.splice(0..0, opening);
    check_vocabulary(&tokens, &facts).map_err(|error| error.in_file(path.display().to_string()))?;
    if !context.terminal.json {
        // The document has them itself.
        facts.warnings.iter().for_each(|warning| context.terminal.warn(warning));
    }
    if context.terminal.verbose > 0 {
        tell(&facts, time, context);
    }
    Ok(Ready { runner, tokens, facts, time })
}

/// Loads a model whose tokens need no text, for so many sequences of so many tokens, unless the user said how many.
///
/// # Errors
/// As [`load`].
pub fn load_without_tokens(
    path: &Path,
    wishes: &Wishes<'_>,
    sequences: u32,
    tokens: u32,
    host: &Host,
    context: &Context,
) -> Result<Loaded> {
    let options = wishes.model.to_options(host.threads().width(), wishes.wanted)?;
    let options = LoadOptions { sequences, usual_context: tokens, ..options };
    let spinner =
        Spinner::showing("loading the model", context.settings.text("defaults.progress"), &context.terminal);
    let opened = open_model(path, wishes.open, host)?;
    wishes.check_output(&opened, host, context)?;
    let mut loaded = load(host, &opened, &options)?;
    drop(spinner);
    loaded.facts.warnings.splice(0..0, opened.warnings.clone());
    Ok(loaded)
}

/// Opens a model; options that its format does not have are refused, and so are adapters.
///
/// # Errors
/// What opening raised; InvalidArgument for an option that is none; Unsupported for an adapter.
pub fn open_model(path: &Path, open: &OpenArgs, host: &Host) -> Result<OpenedModel> {
    let opened = open.open(host, path)?;
    check_options(&host.registry, &[host.registry.format(&opened.format)?], &open.options)?;
    // Before anything that it may lack, such as a tokenizer.
    refuse_adapter(&opened.model, &host.registry)
        .map_err(|error| error.in_file(path.display().to_string()))?;
    Ok(opened)
}

/// The model, its tokenizer, and what opening both warned of.
fn all(
    path: &Path,
    wishes: &Wishes<'_>,
    options: &LoadOptions,
    host: &Host,
    context: &Context,
) -> Result<(Loaded, Tokens, Vec<String>)> {
    let opened = open_model(path, wishes.open, host)?;
    let given = Given::of(host, &opened)?;
    let mut warnings = opened.warnings.clone();
    given.warn(&mut warnings);
    let mut tokens = tokens_of(given, host, &opened, context)?;
    wishes.check_output(&opened, host, context)?;
    // The worker makes the tokenizer ready while the weights are loaded.
    tokens.prepare();
    Ok((load(host, &opened, options)?, tokens, warnings))
}

/// Refuses a tokenizer with tokens that the model does not know.
fn check_vocabulary(tokens: &Tokens, facts: &Facts) -> Result<()> {
    let has = tokens.facts().n_tokens;
    let knows = facts.vocabulary;
    if has <= usize::try_from(knows).unwrap_or(usize::MAX) {
        return Ok(());
    }
    Err(Error::malformed(format!("the tokenizer has {has} tokens, but the model's vocabulary is {knows}"))
        .hint("use the tokenizer that the model was trained with: this one belongs to another model"))
}

/// Tells of loading, for `-v`.
fn tell(facts: &Facts, time: Duration, context: &Context) {
    let kept = if facts.images_were_kept { ", prepared earlier" } else { "" };
    context.terminal.note(&format!(
        "loaded in {}: {}, {} parameters, {} of weights, mostly {}{kept}",
        show_time(time),
        facts.architecture,
        show_count(facts.parameters.into()),
        show_size(facts.bytes),
        facts.dtype,
    ));
    context.terminal.note(&format!(
        "running on {} ({}), {}; {} for the cache",
        facts.backend,
        facts.device,
        show_number_of(facts.threads, "thread"),
        show_size(facts.cache_bytes)
    ));
    facts.notes.iter().for_each(|note| context.terminal.note(note));
}
