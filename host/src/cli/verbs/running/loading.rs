//! Loads a model for a verb, with something that moves meanwhile, and says what there is to say about it.

use super::args::ModelArgs;
use super::summary::show_time;
use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::sandbox_worker::{Given, tokens_of};
use apr_engine::architecture::{refuse_adapter, way_out_of_lone};
use apr_engine::crew::Crew;
use apr_engine::hints;
use apr_engine::open::{OpenedModel, check_options};
use apr_engine::progress::Stage;
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::{Facts, LoadOptions, Loaded, Wanted, load};
use apr_host::sizes::{show_count, show_number_of, show_size};
use apr_inference::program::Built;
use apr_inference::runner::Runner;
use apr_inference::trace::{Probes, Subject};
use apr_sandbox::Tokens;
use apr_sdk::{Error, ErrorKind, MatrixSpec, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// A model that is ready to answer, with its tokenizer or whatever stands for it.
pub struct Ready<T = Tokens> {
    /// The runner.
    pub runner: Runner,
    /// Its tokenizer.
    pub tokens: T,
    /// The facts found out while loading.
    pub facts: Facts,
    /// Duration of loading.
    pub time: Duration,
    /// Its program, for those who watch it.
    pub computation: Computation,
}

/// A loaded model's program.
pub struct Computation {
    /// The program.
    pub built: Built,
    /// The matrix of each weight.
    pub specs: Vec<MatrixSpec>,
    /// The way in which results are seen.
    pub probes: Probes,
}

impl Computation {
    /// The same with its runner, to be traced.
    pub fn subject<'a>(&'a self, runner: &'a mut Runner) -> Subject<'a> {
        Subject { runner, built: &self.built, specs: &self.specs, probes: &self.probes }
    }
}

/// What is to be seen of a model's computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing but its end.
    #[default]
    Nothing,
    /// Figures of every result.
    Figures,
    /// Every result itself.
    Values,
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
    load_model_seen(path, wishes, Seen::Nothing, host, context)
}

/// The same, with something to be seen of its computation.
///
/// # Errors
/// As [`load_model`].
pub fn load_model_seen(
    path: &Path,
    wishes: &Wishes<'_>,
    seen: Seen,
    host: &Host,
    context: &Context,
) -> Result<Ready> {
    let ready = load_with(path, wishes, seen, host, context, |opened, warnings| {
        let given = Given::of(host, opened).map_err(|error| or_ids(error, opened, host))?;
        given.warn(warnings);
        tokens_of(given, host, opened, context)
    })?;
    check_vocabulary(&ready.tokens, &ready.facts)
        .map_err(|error| error.in_file(path.display().to_string()))?;
    ready.tell(context);
    Ok(ready)
}

/// Adds to an error about a tokenizer that there is a way without one, if only that is missing.
fn or_ids(error: Error, opened: &OpenedModel, host: &Host) -> Error {
    if error.kind() != ErrorKind::Unsupported || way_out_of_lone(&host.registry, &opened.model).is_some() {
        return error;
    }
    let hint = format!(
        "{}; or give `apr run` or `apr trace` token ids, as in --ids 1,2,3",
        error.hint_text().unwrap_or_default()
    );
    error.with_hint(hint)
}

/// Loads a model that is given ids, with its tokenizer if it has one that is understood.
///
/// # Errors
/// As [`load`].
pub fn load_for_ids(
    path: &Path,
    wishes: &Wishes<'_>,
    seen: Seen,
    host: &Host,
    context: &Context,
) -> Result<Ready<Option<Tokens>>> {
    let ready = load_with(path, wishes, seen, host, context, |opened, _| {
        Ok(Given::of(host, opened).and_then(|given| tokens_of(given, host, opened, context)).ok())
    })?;
    ready.tell(context);
    Ok(ready)
}

/// Loads a model, and what `tokenizer_of` makes of its tokenizer, which adds its warnings to those of opening.
fn load_with<T: Tokenizing>(
    path: &Path,
    wishes: &Wishes<'_>,
    seen: Seen,
    host: &Host,
    context: &Context,
    tokenizer_of: impl FnOnce(&OpenedModel, &mut Vec<String>) -> Result<T>,
) -> Result<Ready<T>> {
    let began = Instant::now();
    let options = wishes.model.to_options(host.threads().width(), wishes.wanted)?;
    let options = LoadOptions { taps: seen == Seen::Values, measures: seen == Seen::Figures, ..options };
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(path, wishes.open, host)?;
    let mut warnings = opened.warnings.clone();
    let ready = tokenizer_of(&opened, &mut warnings).and_then(|mut tokens| {
        wishes.check_output(&opened, host, context)?;
        // The worker makes the tokenizer ready while the weights are loaded.
        tokens.prepare();
        let Loaded { runner, built, facts, specs, probes, .. } = load(host, &opened, &options)?;
        let computation = Computation { built, specs, probes };
        Ok(Ready { runner, tokens, facts, time: began.elapsed(), computation })
    });
    drop(stage);
    // They may be the reason.
    let mut ready =
        ready.inspect_err(|_| warnings.iter().for_each(|text| context.terminal.warn_of_answer(text)))?;
    ready.facts.warnings.splice(0..0, warnings);
    Ok(ready)
}

/// What stands for a tokenizer while a model is loaded.
trait Tokenizing {
    /// Begins to make it ready.
    fn prepare(&mut self);
}

impl Tokenizing for Tokens {
    fn prepare(&mut self) {
        Tokens::prepare(self);
    }
}

impl Tokenizing for Option<Tokens> {
    /// Of the tokenizer, only what it says of itself is wanted.
    fn prepare(&mut self) {}
}

impl<T> Ready<T> {
    /// Says what there is to say about a model that was loaded.
    fn tell(&self, context: &Context) {
        if !context.terminal.json {
            // The document has them itself.
            self.facts.warnings.iter().for_each(|warning| context.terminal.warn(warning));
        }
        if context.terminal.verbose > 0 {
            tell(&self.facts, self.time, context);
        }
    }
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
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(path, wishes.open, host)?;
    wishes.check_output(&opened, host, context)?;
    let mut loaded = load(host, &opened, &options)?;
    drop(stage);
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

/// Refuses a tokenizer with tokens that the model does not know.
fn check_vocabulary(tokens: &Tokens, facts: &Facts) -> Result<()> {
    let has = tokens.facts().n_tokens;
    let knows = facts.vocabulary;
    if has <= usize::try_from(knows).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let message = format!("the tokenizer has {has} tokens, but the model's vocabulary is {knows}");
    Err(Error::malformed(hints::VOCABULARY.told(&message))
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
