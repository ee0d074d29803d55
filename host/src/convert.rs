//! Converts a model: open, plan, write, verify, publish.

use crate::conversion::no_end;
use crate::destination::outlook::foretell;
use crate::destination::resolve;
use crate::destination::staged_output::{Begun, Place, Room, fill, laid_out};
use crate::host::Host;
use apr_engine::architecture::summary_of;
use apr_engine::convert::{LaidOut, Opened, Plan, Translate, Translated};
use apr_engine::planned::request::Request;
use apr_sdk::{Error, ErrorKind, Result};
use std::time::Instant;

pub use crate::conversion::{ConvertOptions, Converted, ConvertedFile};
pub use apr_engine::verify::value_changes::ChangedTensor;

/// Plans a conversion.
///
/// # Errors
/// As [`convert`], without writing anything.
pub fn plan(host: &Host, options: &ConvertOptions) -> Result<Plan> {
    plan_with(host, options, &|selected| Translated::new(selected))
}

/// Plans a conversion whose third stage is `translate`.
///
/// # Errors
/// As [`plan`]; any error from `translate`.
pub fn plan_with(host: &Host, options: &ConvertOptions, translate: &Translate<'_>) -> Result<Plan> {
    let request = options.request();
    let opened = Opened::new(host, &request, false)?;
    let opening = opened.source.warnings.clone();
    plan_opened(host, options, &request, opened, translate).inspect_err(|_| warn_of_opening(host, &opening))
}

/// Plans conversions of one source that differ in what is written; the source is opened once.
///
/// # Errors
/// Any error from opening; errors of a single output, as in [`plan`], are in its own result.
pub fn plan_all(host: &Host, all: &[ConvertOptions]) -> Result<Vec<Result<Plan>>> {
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let opened = Opened::new(host, &first.request(), false)?;
    let translate: &Translate<'_> = &|selected| Translated::new(selected);
    let each =
        all.iter().map(|options| plan_opened(host, options, &options.request(), opened.clone(), translate));
    Ok(each.collect())
}

/// Gives the warnings of opening a model although nothing came of it: they may be the reason.
fn warn_of_opening(host: &Host, warnings: &[String]) {
    warnings.iter().for_each(|warning| host.progress.warn(warning));
}

fn plan_opened(
    host: &Host,
    options: &ConvertOptions,
    request: &Request,
    opened: Opened<'_>,
    translate: &Translate<'_>,
) -> Result<Plan> {
    let (output, destination) = resolve(host, options)?;
    let (laid_out, destination) = laid_out(host, request, opened, output, destination, translate, false)?;
    let outlook = foretell(host, &laid_out, &destination)?;
    let LaidOut { source, mut plan, model, layout, spelled, .. } = laid_out;
    let summed = summary_of(host, &model, model.tokenizer.as_ref(), &|bytes| source.fetch(bytes), None)?;
    plan.summary = Some(summed);
    // The list for a million tensors replaces the data it was made from.
    drop(source);
    plan.list(&layout, model, &spelled);
    plan.notes.extend(outlook.notes(false));
    plan.warnings.extend(outlook.warnings);
    Ok(plan)
}

/// Converts a model.
///
/// # Errors
/// Any error from opening, planning, writing and verifying. The output's name is then as it was before.
pub fn convert(host: &Host, options: &ConvertOptions) -> Result<Converted> {
    convert_with(host, options, &|selected| Translated::new(selected))
}

/// Like [`convert`], with `translate` as the third stage.
///
/// # Errors
/// As [`convert`]; any error from `translate`.
pub fn convert_with(host: &Host, options: &ConvertOptions, translate: &Translate<'_>) -> Result<Converted> {
    together(host, std::slice::from_ref(options), translate)?.pop().unwrap_or_else(|| Err(no_end()))
}

/// Converts a model to several outputs. It is opened and read once, and each output is the same as on its
/// own. The options differ in the output and in what is written. Returns a result for each: one that fails
/// does not affect the others.
///
/// # Errors
/// Any error from opening.
pub fn convert_all(host: &Host, all: &[ConvertOptions]) -> Result<Vec<Result<Converted>>> {
    together(host, all, &|selected| Translated::new(selected))
}

fn together(
    host: &Host,
    all: &[ConvertOptions],
    translate: &Translate<'_>,
) -> Result<Vec<Result<Converted>>> {
    let began = Instant::now();
    let requests: Vec<Request> = all.iter().map(ConvertOptions::request).collect();
    let places: Vec<_> = all.iter().map(|options| Place::of(host, options)).collect();
    let Some(first) = requests.first().filter(|_| places.iter().any(Result::is_ok)) else {
        return Ok(places.into_iter().filter_map(Result::err).map(Err).collect());
    };
    let opened = Opened::new(host, first, true).map_err(|error| again(error, &all[0]))?;
    let opening = opened.source.warnings.clone();
    let mut opened = Some(opened);
    // What is wrong with a place is said after what is wrong with the source.
    let mut waiting: Vec<_> =
        (0..).zip(places.into_iter().map(|place| place.and_then(|place| place))).collect();
    let mut done: Vec<(usize, Result<Converted>)> = Vec::with_capacity(all.len());
    while !waiting.is_empty() {
        let (now, later) = apart(waiting);
        waiting = later;
        let mut room = Room::default();
        let mut numbers = Vec::new();
        let mut begun = Vec::new();
        let n_now = now.len();
        for (at, (number, place)) in now.into_iter().enumerate() {
            // The last of all need not share it.
            let is_last = waiting.is_empty() && at + 1 == n_now;
            let own = if is_last { opened.take() } else { opened.clone() };
            numbers.push(number);
            begun.push(match (place, own) {
                (Ok(place), Some(opened)) => {
                    Begun::new(host, &requests[number], opened, place, translate, began, &mut room)
                }
                (Err(error), _) => Err(error),
                (Ok(_), None) => Err(no_end()),
            });
        }
        let staged = begun.iter_mut().flatten().filter_map(Begun::staged).collect();
        let mut filled = fill(host, staged, began).into_iter();
        let ended = begun.into_iter().map(|begun| match begun? {
            Begun::Done(done) => Ok(*done),
            Begun::Staged(staged) => {
                staged.end(host, filled.next().unwrap_or_else(|| Err((no_end(), false))), began)
            }
        });
        done.extend(numbers.into_iter().zip(ended));
    }
    done.sort_by_key(|(number, _)| *number);
    if done.iter().all(|(_, result)| result.is_err()) {
        warn_of_opening(host, &opening);
    }
    let done = done.into_iter();
    Ok(done.map(|(number, result)| result.map_err(|error| again(error, &all[number]))).collect())
}

/// Adds to an error of a run that was stopped, unless it says so, how to go on.
fn again(error: Error, options: &ConvertOptions) -> Error {
    match (error.kind(), options.resume) {
        (ErrorKind::Cancelled, true) => {
            error.hint("run the command again to continue: what was there is kept")
        }
        (ErrorKind::Cancelled, false) => error.hint("run the command again to start over: nothing was kept"),
        _ => error,
    }
}

/// A conversion among several: its index, and its place.
type Waiting<'h> = (usize, Result<Place<'h>>);

/// Separates outputs that can be written at the same time from the rest: only one at a time goes into an
/// existing folder, since its files and those beside them form one model.
fn apart(all: Vec<Waiting<'_>>) -> (Vec<Waiting<'_>>, Vec<Waiting<'_>>) {
    let mut locks = Vec::new();
    all.into_iter().partition(|(_, place)| {
        // Errors are reported with the output they belong to.
        let Ok(place) = place else { return true };
        let lock = place.destination.target.beside(".apr-lock");
        let is_free = !locks.contains(&lock);
        locks.push(lock);
        is_free
    })
}
