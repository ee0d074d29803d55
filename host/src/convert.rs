//! Converts a model: open, plan, write, verify, publish.

use crate::host::Host;
use crate::output::resolve;
use crate::staged_output::{Begun, Room, fill, laid_out};
use crate::storage::publish::outlook::foretell;
use crate::storage::publish::{Finished, finish_before};
use apr_engine::architecture::summary_of;
use apr_engine::contract::ContractReport;
use apr_engine::layout::{LaidOut, Opened, Translate, Translated};
use apr_engine::plan::Plan;
use apr_engine::plan::coverage::Coverage;
pub use apr_engine::plan::request::ConvertOptions;
use apr_engine::tiles::losses::Quantized;
pub use apr_engine::verify::changed::ChangedTensor;
use apr_sdk::{Error, Result};
use serde::Serialize;
use std::time::Instant;

/// The result of a conversion.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// `apr.convert/1`.
    pub schema: &'static str,
    /// The input, as typed.
    pub input: String,
    /// The id of the input's format.
    pub from: String,
    /// The id of the output's format.
    pub to: String,
    /// The files that were written, in layout order.
    pub files: Vec<ConvertedFile>,
    /// Number of tensors.
    pub tensors: usize,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// The claims that verify has proved.
    pub verified: Vec<String>,
    /// Tensors with values that a cast or an addition could not keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedTensor>,
    /// The losses of quantized tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantized: Option<Quantized>,
    /// The destination of everything in the source.
    pub coverage: Coverage,
    /// The findings about the tensors' values and shapes.
    pub looked: ContractReport,
    /// Notes on what was assumed, changed or not carried.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A file of the output.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedFile {
    /// The file's path, as the user would type it.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
}

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
    plan_opened(host, options, Opened::new(host, options, false)?, translate)
}

/// Plans conversions of one source that differ in what is written; the source is opened once.
///
/// # Errors
/// Any error from opening; errors of a single output, as in [`plan`], are in its own result.
pub fn plan_all(host: &Host, all: &[ConvertOptions]) -> Result<Vec<Result<Plan>>> {
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let opened = Opened::new(host, first, false)?;
    let translate: &Translate<'_> = &|selected| Translated::new(selected);
    Ok(all.iter().map(|options| plan_opened(host, options, opened.clone(), translate)).collect())
}

fn plan_opened(
    host: &Host,
    options: &ConvertOptions,
    opened: Opened<'_>,
    translate: &Translate<'_>,
) -> Result<Plan> {
    let (laid_out, destination) = laid_out(host, options, opened, translate, false)?;
    let outlook = foretell(host, &laid_out, &destination, options.force)?;
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
    let finished: Vec<_> = all.iter().map(|options| finish_before(host, options)).collect();
    let Some(first) = all.first().filter(|_| finished.iter().any(Result::is_ok)) else {
        return Ok(finished.into_iter().filter_map(Result::err).map(Err).collect());
    };
    let opened = Opened::new(host, first, true)?;
    let mut waiting: Vec<_> = (0..).zip(all.iter().zip(finished)).collect();
    let mut done: Vec<(usize, Result<Converted>)> = Vec::with_capacity(all.len());
    let mut opened = Some(opened);
    while !waiting.is_empty() {
        let (now, later) = apart(host, waiting);
        waiting = later;
        let mut room = Room::default();
        let (mut numbers, mut begun) = (Vec::new(), Vec::new());
        let n_now = now.len();
        for (at, (number, (options, finished))) in now.into_iter().enumerate() {
            // The last of all need not share it.
            let is_last = waiting.is_empty() && at + 1 == n_now;
            let own = if is_last { opened.take() } else { opened.clone() };
            let begin = |finished| {
                Begun::new(host, options, own.ok_or_else(no_end)?, translate, finished, (began, &mut room))
            };
            numbers.push(number);
            begun.push(finished.and_then(begin));
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
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// A conversion among several: its index, and a publication that had to be finished first.
type Waiting<'o> = (usize, (&'o ConvertOptions, Result<Option<Finished>>));

/// Separates outputs that can be written at the same time from the rest: only one at a time goes into an
/// existing folder, since its files and those beside them form one model.
fn apart<'o>(host: &Host, all: Vec<Waiting<'o>>) -> (Vec<Waiting<'o>>, Vec<Waiting<'o>>) {
    let mut locks = Vec::new();
    all.into_iter().partition(|(_, (options, _))| {
        // Problems with a path are reported where it is used.
        let Ok((_, destination)) = resolve(host, options) else { return true };
        let lock = destination.target.beside(".apr-lock");
        let is_free = !locks.contains(&lock);
        locks.push(lock);
        is_free
    })
}

/// Cannot happen: every conversion that starts also ends.
pub(crate) fn no_end() -> Error {
    Error::plugin("a conversion has no end")
}
