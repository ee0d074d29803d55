//! One output of a conversion from the plan to its final name: staged, filled together with the other outputs
//! of its source, verified and published.

use super::outlook::{Outlook, foresee, outlook};
use super::output_file::OutputFile;
use super::{Destination, in_place, resolve};
use crate::conversion::{ConvertOptions, Converted, ConvertedFile, no_end};
use crate::host::Host;
use crate::storage::overwrite::Inputs;
use crate::storage::publication::Wishes;
use crate::storage::publish::Finished;
use crate::storage::staging::{self, Need, Staging};
use crate::storage::{Journal, Journaling, Recorder};
use crate::threads::Threads;
use apr_engine::convert::run::{OutputWork, WrittenPayload, write_all};
use apr_engine::convert::verify::{WrittenOutput, finish};
use apr_engine::convert::{LaidOut, Opened, Outcome, Output, Translate, fingerprint};
use apr_engine::open::OpenedModel;
use apr_engine::planned::request::Request;
use apr_engine::tiles::TileRecord;
use apr_sdk::{Error, ErrorKind, LogLevel, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Tiles that an earlier run finished, by index.
type Records = Vec<(u64, TileRecord)>;

/// The result of filling an output; an error says whether to keep what is finished.
pub type Filled = std::result::Result<WrittenOutput, (Error, bool)>;

/// Bytes that the outputs so far still need, with the device of each.
#[derive(Default)]
pub struct Room(Vec<(u64, Need)>);

impl Room {
    /// The total needed on the device of a folder if it is to hold `need` more bytes.
    fn with(&self, folder: &Path, need: Need) -> Need {
        let before = self.0.iter().filter(|(of, _)| *of == device(folder)).map(|(_, need)| *need);
        before.fold(need, Need::and)
    }

    /// Reserves `need` bytes on the device of a folder.
    fn take(&mut self, folder: &Path, need: Need) {
        self.0.push((device(folder), need));
    }
}

fn device(folder: &Path) -> u64 {
    folder.metadata().map_or(0, |meta| meta.dev())
}

/// The place of an output, where an interrupted publication is finished.
pub struct Place<'h> {
    /// The format and the request to its writer.
    pub output: Output<'h>,
    /// Where it goes.
    pub destination: Destination,
    /// The publication that had to be finished first.
    pub finished: Option<Finished>,
}

impl<'h> Place<'h> {
    /// Resolves the output's place and finishes what was interrupted there. The inner error is [`resolve`]'s.
    ///
    /// # Errors
    /// As [`Destination::finish_publication`].
    pub fn of(host: &'h Host, options: &ConvertOptions) -> Result<Result<Place<'h>>> {
        let (output, destination) = match resolve(host, options) {
            Ok(resolved) => resolved,
            Err(error) => return Ok(Err(error)),
        };
        let finished = destination.finish_publication(&host.steps)?;
        Ok(Ok(Place { output, destination, finished }))
    }
}

/// An output whose staged files exist.
pub struct Staged<'h> {
    request: &'h Request,
    laid_out: LaidOut<'h>,
    destination: Destination,
    staging: Staging,
}

/// An output that has been started.
pub enum Begun<'h> {
    /// It had only been interrupted while its files were moved into place.
    Done(Box<Converted>),
    /// It is ready to be filled.
    Staged(Box<Staged<'h>>),
}

impl<'h> Begun<'h> {
    /// Plans an output of `opened` and creates its staged files; `room` knows about earlier outputs.
    ///
    /// # Errors
    /// Any error from planning and staging.
    pub fn new(
        host: &'h Host,
        request: &'h Request,
        opened: Opened<'h>,
        place: Place<'h>,
        translate: &Translate<'_>,
        began: Instant,
        room: &mut Room,
    ) -> Result<Begun<'h>> {
        let Place { output, destination, finished } = place;
        let (laid_out, destination) = laid_out(host, request, opened, output, destination, translate, true)?;
        if let Some(finished) = finished {
            host.progress.log(LogLevel::Warning, &finished.to_string());
            if finished.work == fingerprint::digest(&laid_out)? {
                let done = put_in_place(laid_out, &destination, &finished, began);
                return Ok(Begun::Done(Box::new(done)));
            }
        }
        let LaidOut { source, layout, .. } = &laid_out;
        let target = &destination.target;
        let inputs = inputs(host, source, request, &destination);
        if let Some(report) = &destination.report {
            let report = OutputFile::new(report, "report", destination.force);
            report.check_beside(&target.finals(layout), &inputs)?;
        }
        if destination.resume {
            // A wrong --resume must neither destroy what is there nor leave anything behind.
            Journal::records(&target.beside(".apr-journal"), &fingerprint::describe(&laid_out)?)?;
        }
        let own = Need { least: layout.least_total(), most: layout.total() };
        let own = own.and(Need::exactly(laid_out.spools.len));
        let wanted = staging::Wanted {
            layout,
            need: room.with(target.home(), own),
            inputs: &inputs,
            force: destination.force,
            resume: destination.resume,
            steps: &host.steps,
            outputs: &host.outputs,
        };
        let staging = Staging::create(target.clone(), wanted)?;
        if let Some(warning) = &staging.warning {
            host.progress.log(LogLevel::Warning, warning);
        }
        room.take(target.home(), own);
        Ok(Begun::Staged(Box::new(Staged { request, laid_out, destination, staging })))
    }

    /// The output, if it is to be filled.
    pub fn staged(&mut self) -> Option<&mut Staged<'h>> {
        match self {
            Begun::Done(_) => None,
            Begun::Staged(staged) => Some(staged),
        }
    }
}

impl Staged<'_> {
    fn journal(&self) -> PathBuf {
        self.destination.target.beside(".apr-journal")
    }

    fn begin_journal(&self) -> Result<Journal> {
        Journal::create(&self.journal(), &fingerprint::describe(&self.laid_out)?)
    }

    fn foresee(&self, host: &Host) -> Result<()> {
        foresee(host, &self.laid_out, &self.destination, &self.staging)
    }

    /// The records of an earlier run, if it is resumed; starts a journal for large jobs. An error says
    /// whether to keep what was there.
    fn take_up(
        &self,
        host: &Host,
        journaling: &Journaling<'_>,
    ) -> std::result::Result<Option<Records>, (Error, bool)> {
        if self.destination.resume {
            let work = fingerprint::describe(&self.laid_out).map_err(|e| (e, false))?;
            let (journal, records) = Journal::take_up(&self.journal(), &work).map_err(|e| (e, true))?;
            journaling.take_up(journal);
            return Ok(Some(records));
        }
        if self.laid_out.layout.payload_bytes() >= host.journal_bytes {
            journaling.begin().map_err(|e| (e, false))?;
        }
        Ok(None)
    }

    /// Publishes the output once it is filled and verified, and describes what was done.
    ///
    /// # Errors
    /// Any error from filling, with a hint how to continue if finished work was kept; any error from
    /// publishing.
    pub fn end(self, host: &Host, filled: Filled, began: Instant) -> Result<Converted> {
        let Staged { laid_out, destination, staging, .. } = self;
        let written = match filled {
            Ok(written) => written,
            Err((error, keep)) => {
                if keep {
                    staging.keep();
                    let again = "run the command again with --resume to continue";
                    // A hint that fixes the machine comes first.
                    let hint =
                        error.hint_text().map_or(again.to_owned(), |mend| format!("{mend}; then {again}"));
                    return Err(error.with_hint(hint));
                }
                return Err(error);
            }
        };
        if destination.in_place {
            in_place::refuse_dropped(&laid_out, &written.dropped)?;
        }
        let (finals, outlook) = publish(host, &laid_out, &destination, staging)?;
        let mut files = Vec::with_capacity(finals.len());
        for (path, &bytes) in finals.iter().zip(&written.lengths) {
            files.push(ConvertedFile { path: destination.target.show(path), bytes });
        }
        let mut outcome = Outcome::new(laid_out, written);
        outcome.notes.extend(outlook.notes(true));
        outcome.warnings.extend(outlook.warnings);
        Ok(Converted::new(outcome, files, began.elapsed().as_secs_f64()))
    }
}

/// Everything that is known before a byte is written, and where it goes.
///
/// # Errors
/// Any error from planning.
pub fn laid_out<'h>(
    host: &'h Host,
    request: &'h Request,
    opened: Opened<'h>,
    output: Output<'h>,
    mut destination: Destination,
    translate: &Translate<'_>,
    look: bool,
) -> Result<(LaidOut<'h>, Destination)> {
    let mut laid_out = LaidOut::plan(host, request, opened, output, translate, look)?;
    if !destination.target.folder && laid_out.layout.files.len() > 1 {
        destination.target = destination.target.with_companions();
    }
    if destination.in_place {
        in_place::check(&laid_out, &destination)?;
        laid_out.plan.warnings.extend(in_place::warnings(&laid_out, &destination));
    }
    Ok((laid_out, destination))
}

/// Every file that is read and must not be replaced.
fn inputs(host: &Host, source: &OpenedModel, request: &Request, destination: &Destination) -> Inputs {
    let mut inputs = Inputs::of_plugins(&host.registry);
    let values = request.set.iter().filter_map(|(_, value)| value.strip_prefix('@'));
    destination
        .reads
        .iter()
        .map(PathBuf::as_path)
        .chain(values.map(Path::new))
        .for_each(|path| inputs.add(path));
    if !destination.in_place {
        inputs.add_model(source);
    }
    inputs
}

/// Fills and verifies the staged files of all outputs of one source.
pub fn fill(host: &Host, outputs: Vec<&mut Staged<'_>>, began: Instant) -> Vec<Filled> {
    let written = write(host, &outputs, began);
    let finished = outputs.into_iter().zip(written).map(|(output, (payload, has_journal))| {
        let Staged { request, laid_out, destination, staging } = output;
        finish(host, request, laid_out, staging, payload?).map_err(|error| {
            let keep = has_journal && is_kept(destination, &error);
            (error, keep)
        })
    });
    finished.collect()
}

/// The payload written to an output, and whether it has a journal.
type Written = (std::result::Result<WrittenPayload, (Error, bool)>, bool);

/// Writes the payload of all outputs, each with its own journal and writeback.
fn write(host: &Host, outputs: &[&mut Staged<'_>], began: Instant) -> Vec<Written> {
    let begin: Vec<_> = outputs.iter().map(|one| || one.begin_journal()).collect();
    let journals: Vec<_> =
        begin.iter().map(|begin| Journaling::new(began, host.journal_interval, begin)).collect();
    let foresee: Vec<_> = outputs.iter().map(|one| || one.foresee(host)).collect();
    let recorders: Vec<_> = outputs
        .iter()
        .zip(&journals)
        .zip(&foresee)
        .map(|((one, journal), foresee)| Recorder::new(&one.staging, journal, foresee))
        .collect();
    let earlier: Vec<_> =
        outputs.iter().zip(&journals).map(|(one, journal)| one.take_up(host, journal)).collect();
    let mut live = Vec::new();
    let mut works = Vec::new();
    for (number, output) in outputs.iter().enumerate() {
        let Ok(earlier) = &earlier[number] else { continue };
        live.push(&recorders[number]);
        works.push(OutputWork {
            laid_out: &output.laid_out,
            quality: output.request.quality,
            sink: &recorders[number],
            earlier: earlier.as_deref(),
        });
    }
    let mut written = vec_of_none(live.len());
    record(&live, host.threads(), 0, &mut written, &mut || write_all(host, std::mem::take(&mut works)));
    let mut written = written.into_iter();
    let ended = earlier.into_iter().enumerate().map(|(number, earlier)| {
        let destination = &outputs[number].destination;
        let journal = &journals[number];
        let payload = earlier.and_then(|_| {
            let payload = written.next().flatten().unwrap_or_else(|| Err(no_end()));
            payload.map_err(|error| {
                let keep = match recorders[number].is_under_way() {
                    // What there was to resume is still there.
                    false => destination.resume,
                    true => journal.is_begun() && is_kept(destination, &error),
                };
                (error, keep)
            })
        });
        (payload, journal.is_begun())
    });
    ended.collect()
}

/// Room for the results of so many outputs.
fn vec_of_none<T>(len: usize) -> Vec<Option<T>> {
    std::iter::repeat_with(|| None).take(len).collect()
}

/// Runs a job that writes to all recorders from index `at` on, each with its own writeback; the job's result
/// for each goes into `done`.
fn record<T>(
    recorders: &[&Recorder<'_>],
    threads: &Threads,
    at: usize,
    done: &mut Vec<Option<Result<T>>>,
    job: &mut dyn FnMut() -> Vec<Result<T>>,
) {
    let Some(recorder) = recorders.get(at) else {
        *done = job().into_iter().map(Some).collect();
        return;
    };
    let own = recorder.run(threads, |_| {
        record(recorders, threads, at + 1, done, job);
        done.get_mut(at).and_then(Option::take).unwrap_or_else(|| Err(no_end()))
    });
    if let Some(place) = done.get_mut(at) {
        *place = Some(own);
    }
}

/// Gives the staged files their names; also reports the consequences for other files in the folder.
fn publish(
    host: &Host,
    laid_out: &LaidOut<'_>,
    destination: &Destination,
    mut staging: Staging,
) -> Result<(Vec<PathBuf>, Outlook)> {
    let target = &destination.target;
    let published = outlook(host, laid_out, destination, &staging).and_then(|mut outlook| {
        // A single rename needs no record.
        let alone = staging.files.len() == 1 || !target.is_within();
        let work = if alone { String::new() } else { fingerprint::digest(laid_out)? };
        let wishes = Wishes { force: destination.force, removing: outlook.removing(), work };
        let finals = staging.publish(&wishes)?;
        outlook.warnings.extend(staging.left_over());
        Ok((finals, outlook))
    });
    let is_kept = staging.is_kept();
    published.map_err(|error| {
        if is_kept || !target.beside(".apr-journal").exists() {
            return error;
        }
        // Hours of work are not thrown away because a file is in the way.
        staging.keep();
        error.cause("the progress so far is kept: run the same command with --resume to continue")
    })
}

/// The result of a conversion that had only been interrupted while its files were moved into place.
fn put_in_place(
    laid_out: LaidOut<'_>,
    destination: &Destination,
    finished: &Finished,
    began: Instant,
) -> Converted {
    let target = &destination.target;
    let mut files = Vec::new();
    for path in &target.finals(&laid_out.layout) {
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        files.push(ConvertedFile { path: target.show(path), bytes });
    }
    let written =
        WrittenOutput { proved: vec!["before it was stopped".to_owned()], ..WrittenOutput::default() };
    let mut outcome = Outcome::new(laid_out, written);
    outcome.notes.push(finished.to_string());
    Converted::new(outcome, files, began.elapsed().as_secs_f64())
}

/// Returns whether to keep what was written before this error for `--resume`: if the user stopped the work, or if the
/// machine failed after earlier work had been resumed, which must not be lost to a full disk.
fn is_kept(destination: &Destination, error: &Error) -> bool {
    error.kind() == ErrorKind::Cancelled || destination.resume && error.kind() == ErrorKind::Io
}
