//! Converts a model: open, plan, write, verify, publish.

use crate::destination::outlook::foretell;
use crate::destination::resolve;
use crate::destination::staged_output::{Begun, Place, Room, fill, laid_out};
use crate::host::Host;
use apr_engine::architecture::summary_of;
use apr_engine::contract::{ContractReport, Quality};
use apr_engine::convert::{LaidOut, Opened, Plan, Translate, Translated};
use apr_engine::open::GivenOption;
use apr_engine::planned::coverage::Coverage;
use apr_engine::planned::quantization::Quantization;
use apr_engine::planned::request::{Request, VerifyMode};
use apr_engine::planned::selection::{Choice, Renaming};
use apr_engine::tiles::losses::Quantized;
pub use apr_engine::verify::changed::ChangedTensor;
use apr_sdk::{Error, ForeignPolicy, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// The user's request for a conversion: what planning reads ([`ConvertOptions::request`]) and where the output goes
/// ([`Destination`](crate::destination::Destination)).
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The input: a file, a folder, an index, or any part.
    pub input: PathBuf,
    /// The output, a file or a folder; defaults to the input's name with the extension of `to`.
    pub output: Option<PathBuf>,
    /// The input's format, if forced.
    pub from: Option<String>,
    /// The output's format, if its name does not tell.
    pub to: Option<String>,
    /// `-O [format.]name=value`.
    pub options: Vec<GivenOption>,
    /// The architecture; `none` keeps all names.
    pub arch: Option<String>,
    /// True if the model must have an architecture with a table, even if the target does not need one.
    pub wants_architecture: bool,
    /// Rules for renaming the source's tensors.
    pub renaming: Renaming,
    /// The choice of the source's tensors to convert.
    pub choice: Choice,
    /// Layers that are left out, counted from 0: those behind them move down.
    pub prune_layers: BTreeSet<u64>,
    /// New names for tensors of the output: (pattern, replacement).
    pub renames: Vec<(String, String)>,
    /// The policy for foreign metadata.
    pub foreign: ForeignPolicy,
    /// The most payload bytes per file.
    pub max_shard_size: Option<u64>,
    /// The types requested for the weights.
    pub quantization: Quantization,
    /// Extent of the verification after writing.
    pub verify: VerifyMode,
    /// Metadata to set.
    pub set: Vec<(String, String)>,
    /// Metadata to remove.
    pub unset: Vec<String>,
    /// The path for a report of the conversion afterwards.
    pub report: Option<PathBuf>,
    /// Files that are read besides the model: no output may replace them.
    pub reads: Vec<PathBuf>,
    /// Replaces an existing output.
    pub force: bool,
    /// Replaces the input with the output, file by file.
    pub in_place: bool,
    /// Continues an interrupted conversion.
    pub resume: bool,
    /// Casts values that are not finite, instead of failing.
    pub allow_nonfinite: bool,
    /// Treats findings that would be warnings as errors.
    pub strict: bool,
    /// Continues after findings that would be errors; `force` without `strict` does so too.
    pub relaxed: bool,
    /// Opens the input by itself, without the folder around it.
    pub bare: bool,
}

impl ConvertOptions {
    /// What planning reads.
    pub fn request(&self) -> Request {
        Request {
            input: self.input.clone(),
            from: self.from.clone(),
            bare: self.bare,
            options: self.options.clone(),
            arch: self.arch.clone(),
            wants_architecture: self.wants_architecture,
            renaming: self.renaming.clone(),
            choice: self.choice.clone(),
            prune_layers: self.prune_layers.clone(),
            renames: self.renames.clone(),
            foreign: self.foreign,
            quantization: self.quantization.clone(),
            verify: self.verify,
            set: self.set.clone(),
            unset: self.unset.clone(),
            quality: self.quality(),
        }
    }

    /// The policy for findings in values and shapes.
    pub fn quality(&self) -> Quality {
        let quality =
            Quality { strict: self.strict, relaxed: self.relaxed, allow_nonfinite: self.allow_nonfinite };
        quality.forced(self.force)
    }
}

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
    let request = options.request();
    plan_opened(host, options, &request, Opened::new(host, &request, false)?, translate)
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
    let places: Vec<Result<Place<'_>>> = all.iter().map(|options| Place::of(host, options)).collect();
    let Some(first) = requests.first().filter(|_| places.iter().any(Result::is_ok)) else {
        return Ok(places.into_iter().filter_map(Result::err).map(Err).collect());
    };
    let mut opened = Some(Opened::new(host, first, true)?);
    let mut waiting: Vec<_> = (0..).zip(places).collect();
    let mut done: Vec<(usize, Result<Converted>)> = Vec::with_capacity(all.len());
    while !waiting.is_empty() {
        let (now, later) = apart(waiting);
        waiting = later;
        let mut room = Room::default();
        let (mut numbers, mut begun) = (Vec::new(), Vec::new());
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
    Ok(done.into_iter().map(|(_, result)| result).collect())
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

/// Cannot happen: every conversion that starts also ends.
pub(crate) fn no_end() -> Error {
    Error::plugin("a conversion has no end")
}
