//! Collects an importance matrix, or merges some.

use super::Args;
use super::report::{Collected, Run};
use super::sums_so_far::SumsSoFar;
use crate::cli::context::Context;
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::running::corpus::{Corpus, first_token};
use crate::cli::verbs::running::loading::open_model;
use crate::cli::verbs::running::signs::explained;
use apr_engine::architecture::decoder_rows;
use apr_engine::crew::Crew;
use apr_engine::progress::Stage;
use apr_host::host::Host;
use apr_host::running::{LoadOptions, Loaded, Wanted, load};
use apr_inference::importance::Collector;
use apr_inference::perplexity::Windows;
use apr_sdk::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Tokens of a window, unless the user says otherwise, or the model was trained with fewer.
const WINDOW: u32 = 512;

/// Merges files without running a model.
///
/// # Errors
/// As [`SumsSoFar`].
pub fn merge_files(args: &Args, context: &Context) -> Result<Collected> {
    let host = context.host();
    let mut file = SumsSoFar::new(args, &host, None, &[], context)?;
    file.add_files(&args.in_file, WINDOW)?;
    let dialect = file.before.dialect.clone();
    let chunk_size = file.before.chunk_size;
    let sums = file.write(&dialect, Vec::new(), &[], chunk_size)?;
    Ok(Collected::new(&file, &sums, None, Vec::new()))
}

/// Collects over texts.
///
/// # Errors
/// InvalidArgument for a text that is too short, or a file of other texts; Unsupported for a model without a tokenizer; Failed for
/// values that are not finite; what loading, computing, reading and writing raised.
pub fn run(args: &Args, model: &Path, texts: Vec<PathBuf>, context: &Context) -> Result<Collected> {
    if texts.is_empty() {
        return Err(Error::invalid_argument("there is no text to collect over")
            .hint("specify a text after the model: `apr imatrix MODEL TEXT -o FILE`"));
    }
    let host = context.host();
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(model, &args.open, &host)?;
    let mut file = SumsSoFar::new(args, &host, Some(&opened), &texts, context)?;
    let given = Given::of(&host, &opened)?;
    let mut warnings = opened.warnings.clone();
    given.warn(&mut warnings);
    let tokens = tokens_of(given, &host, &opened, context)?;
    let options = args.model.to_options(host.threads().width(), Wanted::Logits)?;
    let options = LoadOptions { usual_context: WINDOW, taps: true, ..options };
    let mut names = Vec::new();
    let mut ids = Vec::new();
    for text in &texts {
        let corpus = Corpus::read(text)?;
        ids.push(corpus.ids(&tokens, args.parse_special)?);
        names.push(corpus.name);
    }
    let first = first_token(&tokens)?;
    let dialect = decoder_rows(&host, &opened.model, options.arch.as_deref())?;
    file.check_form(&dialect)?;
    let mut loaded = load(&host, &opened, &options)?;
    drop(stage);
    warnings.append(&mut loaded.facts.warnings);
    let size = usize::try_from(loaded.runner.context()).unwrap_or(usize::MAX);
    let mut windows = Vec::new();
    for (ids, name) in ids.into_iter().zip(&names) {
        windows.push(Windows::new(ids, size, first, None).map_err(|error| error.in_file(name.as_str()))?);
    }
    let window = loaded.runner.context();
    let done = if args.resume { file.done(&names, window)? } else { args.from_chunk };
    file.add_files(&args.in_file, window)?;
    let all =
        windows.iter().map(Windows::len).sum::<usize>().min(args.most().saturating_add(args.from_chunk));
    if done >= all && !args.resume {
        let message = format!("the texts have {all} windows, all of which are left out");
        return Err(Error::invalid_argument(message).hint("pass a lower --from-chunk, or use longer texts"));
    }
    let collection = Collection { args, host: &host, model, dialect: &dialect, names: &names, window };
    collection.run(&windows, done..all.max(done), &mut loaded, &mut file, warnings)
}

/// A model and texts that sums are collected over.
struct Collection<'a> {
    args: &'a Args,
    host: &'a Host,
    model: &'a Path,
    dialect: &'a str,
    names: &'a [String],
    window: u32,
}

impl Collection<'_> {
    /// Runs some of the windows of all texts, and writes the file meanwhile.
    fn run(
        &self,
        texts: &[Windows],
        wanted: std::ops::Range<usize>,
        loaded: &mut Loaded,
        file: &mut SumsSoFar<'_>,
        warnings: Vec<String>,
    ) -> Result<Collected> {
        let mut collector = Collector::new(&loaded.built, self.args.process_output)?;
        let began = Instant::now();
        let each =
            texts.iter().enumerate().flat_map(|(text, windows)| windows.iter().map(move |ids| (text, ids)));
        let mut last = 0;
        for (number, (text, ids)) in each.enumerate().take(wanted.end).skip(wanted.start) {
            self.host.check_cancelled().map_err(|error| self.resumable(error, file))?;
            self.host.progress.stage(Some(&format!("window {} of {}", number + 1, wanted.end)));
            let added = collector.window(&mut loaded.runner, &ids);
            self.host.progress.stage(None);
            let model = self.model.display().to_string();
            added.map_err(|error| self.resumable(explained(error, self.model).in_file(model), file))?;
            last = text;
            let so_far = number + 1 - wanted.start;
            if so_far.is_multiple_of(self.args.save_every) && number + 1 < wanted.end {
                self.write(&collector, last, file)?;
            }
        }
        let sums = self.write(&collector, if wanted.is_empty() { texts.len() - 1 } else { last }, file)?;
        let run = Run::new(&loaded.facts, wanted.len(), self.window, began.elapsed());
        Ok(Collected::new(file, &sums, Some(run), warnings))
    }

    /// Writes the sums over the texts up to one of this number.
    fn write(
        &self,
        collector: &Collector,
        last: usize,
        file: &mut SumsSoFar<'_>,
    ) -> Result<apr_sdk::ImportanceSums> {
        let known = if self.args.resume { file.before.datasets.len() } else { 0 };
        let names = self.names.get(known..=last).unwrap_or_default();
        file.write(self.dialect, collector.sums()?, names, self.window)
    }

    /// Adds to an error that what was written can be gone on with.
    fn resumable(&self, error: Error, file: &SumsSoFar<'_>) -> Error {
        if file.bytes.is_none() || !self.args.in_file.is_empty() || self.args.from_chunk > 0 {
            return error;
        }
        error.hint(format!("pass --resume to go on with {}", file.path().display()))
    }
}
