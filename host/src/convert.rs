//! Converting a model: open, plan, write, verify, publish.

use crate::host::Host;
use crate::in_place;
use crate::output::{Destination, resolve};
use crate::report_file;
use crate::storage::publish::outlook::{Outlook, foresee, foretell, outlook};
use crate::storage::publish::{Finished, Wishes, finish_before};
use crate::storage::staging::Staging;
use crate::storage::{Journal, Journaling, Recorder};
use apr_engine::architecture::summary_of;
use apr_engine::contract::{ContractReport, summary};
use apr_engine::layout::described;
use apr_engine::layout::{LaidOut, Opened, Translate, Translated};
use apr_engine::open::OpenedModel;
use apr_engine::plan::Plan;
use apr_engine::plan::coverage::Coverage;
pub use apr_engine::plan::request::ConvertOptions;
use apr_engine::tiles::losses::Quantized;
use apr_engine::tiles::write;
pub use apr_engine::verify::changed::ChangedTensor;
use apr_engine::verify::finish::{WrittenOutput, finish};
use apr_sdk::{Error, ErrorKind, LogLevel, Result};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a conversion did.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// `apr.convert/1`.
    pub schema: &'static str,
    /// The input as typed.
    pub input: String,
    /// The input's format.
    pub from: String,
    /// The output's format.
    pub to: String,
    /// The files that were written.
    pub files: Vec<ConvertedFile>,
    /// How many tensors.
    pub tensors: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// What was proved.
    pub verified: Vec<String>,
    /// Tensors with values that a cast or an addition could not keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedTensor>,
    /// How far quantized tensors are from what they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantized: Option<Quantized>,
    /// Where everything of the source went.
    pub coverage: Coverage,
    /// What was found in the values and shapes of the tensors on their way.
    pub looked: ContractReport,
    /// What was assumed, changed or not carried.
    pub notes: Vec<String>,
    /// What the user should look at.
    pub warnings: Vec<String>,
}

/// A file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedFile {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Says what a conversion would do.
///
/// # Errors
/// As [`convert`], but nothing is written.
pub fn plan(host: &Host, options: &ConvertOptions) -> Result<Plan> {
    plan_with(host, options, &|selected| Translated::new(selected))
}

/// Says what a conversion would do whose third stage is `translate`.
///
/// # Errors
/// As [`plan`]; what `translate` raises.
pub fn plan_with(host: &Host, options: &ConvertOptions, translate: &Translate<'_>) -> Result<Plan> {
    let (laid_out, destination) = laid_out(host, options, translate, false)?;
    let outlook = foretell(host, &laid_out, &destination, options.force)?;
    let LaidOut { source, mut plan, model, layout, spelled, .. } = laid_out;
    let summed = summary_of(host, &model, model.tokenizer.as_ref(), &|bytes| source.fetch(bytes), None)?;
    plan.summary = Some(summed);
    // What is told of a million tensors takes the place of what it was made of.
    drop(source);
    plan.list(&layout, model, &spelled);
    plan.notes.extend(outlook.notes(false));
    plan.warnings.extend(outlook.warnings);
    Ok(plan)
}

/// Everything that is known before a byte is written, and where it goes.
fn laid_out<'h>(
    host: &'h Host,
    options: &'h ConvertOptions,
    translate: &Translate<'_>,
    look: bool,
) -> Result<(LaidOut<'h>, Destination)> {
    let opened = Opened::new(host, options, look)?;
    let (output, mut destination) = resolve(host, options)?;
    let mut laid_out = LaidOut::plan(host, options, opened, output, translate, look)?;
    if !destination.target.folder && laid_out.layout.files.len() > 1 {
        destination.target = destination.target.with_companions();
    }
    if options.in_place {
        in_place::check(&laid_out, &destination)?;
        laid_out.plan.warnings.extend(in_place::warnings(&laid_out, &destination));
    }
    Ok((laid_out, destination))
}

/// Converts a model.
///
/// # Errors
/// Whatever opening, planning, writing and verifying raise. Then nothing is under the output's name but what was there.
pub fn convert(host: &Host, options: &ConvertOptions) -> Result<Converted> {
    convert_with(host, options, &|selected| Translated::new(selected))
}

/// Device and inode of every file that is read, and is not to be replaced.
fn identities(source: &OpenedModel, options: &ConvertOptions) -> Vec<(u64, u64)> {
    let values = options.set.iter().filter_map(|(_, value)| value.strip_prefix('@'));
    let besides = options.reads.iter().map(PathBuf::as_path).chain(values.map(Path::new));
    let besides = besides.filter_map(|path| path.metadata().ok());
    let besides = besides.map(|meta| (meta.dev(), meta.ino()));
    let files = if options.in_place { Vec::new() } else { source.files.all() };
    files.iter().filter_map(|file| file.identity()).chain(besides).collect()
}

/// Converts a model; the third stage is `translate`.
///
/// # Errors
/// As [`convert`]; what `translate` raises.
pub fn convert_with(host: &Host, options: &ConvertOptions, translate: &Translate<'_>) -> Result<Converted> {
    let began = Instant::now();
    let finished = finish_before(host, options)?;
    let (mut laid_out, destination) = laid_out(host, options, translate, true)?;
    if let Some(finished) = finished {
        host.progress.log(LogLevel::Warning, &finished.to_string());
        if finished.work == described::digest(host, &laid_out)? {
            return Ok(put_in_place(laid_out, &destination, &finished, began));
        }
    }
    let LaidOut { source, layout, .. } = &laid_out;
    let target = &destination.target;
    let identities = identities(source, options);
    if let Some(report) = &options.report {
        report_file::check(report, &identities, &target.finals(layout), options.force)?;
    }
    if options.resume {
        // A wrong --resume must not cost what is there, nor leave anything.
        Journal::records(&target.beside(".apr-journal"), &described::describe(host, &laid_out)?)?;
    }
    let need = layout.total().saturating_add(laid_out.spools.len);
    let (force, resume) = (options.force, options.resume);
    let staging = Staging::create(host, target.clone(), (layout, need), &identities, force, resume)?;
    let written = match fill(host, options, (&mut laid_out, began), (&destination, &staging)) {
        Ok(written) => written,
        Err((error, keep)) => {
            if keep {
                staging.keep();
                let again = "run it again with --resume: what is finished is kept";
                // What mends the machine comes first.
                let hint = error.hint_text().map_or(again.to_owned(), |mend| format!("{mend}; then {again}"));
                return Err(error.with_hint(hint));
            }
            return Err(error);
        }
    };
    if options.in_place {
        in_place::refuse_dropped(&laid_out, &written.dropped)?;
    }
    let (finals, outlook) = publish(host, options, &laid_out, (&destination, staging))?;
    let files = finals
        .iter()
        .zip(&written.lengths)
        .map(|(path, &bytes)| ConvertedFile { path: destination.target.show(path), bytes })
        .collect();
    let LaidOut { source, model, plan, output, findings, .. } = laid_out;
    let said = written.notes();
    let looked = written.looked.behind(findings);
    let mut warnings = source.warnings;
    warnings.extend(plan.warnings);
    warnings.extend(summary(&looked.findings));
    let mut notes = plan.notes;
    notes.extend(outlook.notes(true));
    warnings.extend(outlook.warnings);
    notes.extend(said);
    Ok(Converted {
        schema: "apr.convert/1",
        input: plan.input,
        from: plan.from,
        to: output.format.id().to_owned(),
        files,
        tensors: model.tensors.len(),
        bytes: written.lengths.iter().sum(),
        seconds: began.elapsed().as_secs_f64(),
        verified: written.proved,
        changed: written.changed,
        quantized: written.quantized,
        coverage: plan.coverage,
        looked,
        notes,
        warnings,
    })
}

/// Gives the staged files their names; also says what that means for others in the folder.
fn publish(
    host: &Host,
    options: &ConvertOptions,
    laid_out: &LaidOut<'_>,
    (destination, mut staging): (&Destination, Staging),
) -> Result<(Vec<PathBuf>, Outlook)> {
    let target = &destination.target;
    let published =
        outlook(host, laid_out, (destination, &staging), options.force).and_then(|mut outlook| {
            // One rename needs no record.
            let alone = staging.files.len() == 1 || !target.is_within();
            let work = if alone { String::new() } else { described::digest(host, laid_out)? };
            let wishes = Wishes { force: options.force, removing: outlook.removing(), work };
            let finals = staging.publish(&wishes)?;
            outlook.warnings.extend(staging.left_over());
            Ok((finals, outlook))
        });
    let is_kept = staging.is_kept();
    published.map_err(|error| {
        if is_kept || !target.beside(".apr-journal").exists() {
            return error;
        }
        // Hours of work are not thrown away for a file in the way.
        staging.keep();
        error.cause("what was written is kept: run the same command with --resume to go on")
    })
}

/// What is said of a conversion that had only been stopped while its files were put in place.
fn put_in_place(
    laid_out: LaidOut<'_>,
    destination: &Destination,
    finished: &Finished,
    began: Instant,
) -> Converted {
    let target = &destination.target;
    let LaidOut { source, model, plan, output, layout, findings, .. } = laid_out;
    let finals = target.finals(&layout);
    let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let files: Vec<_> =
        finals.iter().map(|path| ConvertedFile { path: target.show(path), bytes: length(path) }).collect();
    let mut notes = plan.notes;
    notes.push(finished.to_string());
    Converted {
        schema: "apr.convert/1",
        input: plan.input,
        from: plan.from,
        to: output.format.id().to_owned(),
        tensors: model.tensors.len(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        files,
        seconds: began.elapsed().as_secs_f64(),
        verified: vec!["before it was stopped".to_owned()],
        changed: Vec::new(),
        quantized: None,
        coverage: plan.coverage,
        looked: ContractReport::default().behind(findings),
        notes,
        warnings: source.warnings,
    }
}

/// Fills the staged files. An error says whether what is finished is to be kept.
fn fill(
    host: &Host,
    options: &ConvertOptions,
    (laid_out, began): (&mut LaidOut<'_>, Instant),
    (destination, staging): (&Destination, &Staging),
) -> std::result::Result<WrittenOutput, (Error, bool)> {
    let expressions = std::mem::take(&mut laid_out.expressions);
    let (carried, has_journal) = {
        let laid_out = &*laid_out;
        let path = destination.target.beside(".apr-journal");
        let begin = || Journal::create(&path, &described::describe(host, laid_out)?);
        let journaling = Journaling::new(began, host.journal_interval, &begin);
        let mut earlier = None;
        if options.resume {
            let work = described::describe(host, laid_out).map_err(|e| (e, false))?;
            let (journal, records) = Journal::take_up(&path, &work).map_err(|e| (e, true))?;
            journaling.take_up(journal);
            earlier = Some(records);
        } else if laid_out.layout.payload_bytes() >= host.journal_bytes {
            journaling.begin().map_err(|e| (e, false))?;
        }
        let foresee = || foresee(host, laid_out, (destination, staging), options.force);
        let recorder = Recorder::new(staging, &journaling, &foresee);
        let carried = recorder.run(host.threads(), |sink| {
            write(host, laid_out, expressions, options.quality(), sink, earlier.as_deref())
        });
        let with_fate = |e: Error| {
            let keep = match recorder.is_under_way() {
                // What there was to resume is still there.
                false => options.resume,
                true => journaling.is_begun() && is_kept(options, &e),
            };
            (e, keep)
        };
        (carried.map_err(with_fate)?, journaling.is_begun())
    };
    finish(host, options, laid_out, staging, carried).map_err(|e| {
        let keep = has_journal && is_kept(options, &e);
        (e, keep)
    })
}

/// Whether what was written before this error is kept for `--resume`: if the work was stopped, and if the machine failed
/// where earlier work had been taken up, which is not lost for a full disk.
fn is_kept(options: &ConvertOptions, error: &Error) -> bool {
    error.kind() == ErrorKind::Cancelled || options.resume && error.kind() == ErrorKind::Io
}
