//! The work on the outputs of one pass, as the threads share it.

use super::commit::Commits;
use super::losses::Losses;
use super::sink::TileSink;
use super::tile::{Run, Tiles};
use super::tile_sums::TileSums;
use super::watch::Watch;
use crate::contract::FINITE;
use crate::engine::Engine;
use crate::expression::evaluate::{Buffers, Evaluation, Outcome};
use crate::expression::{Expression, Granule, Panels, SPOOL};
use crate::open::OpenedModel;
use crate::open::blocks::BlockList;
use crate::open::read_record::{ByteSpace, LONG, SeenRange};
use crate::place::Backing;
use crate::registry::Registry;
use crate::values::cast::Changes;
use crate::values::loss::Loss;
use apr_sdk::{Error, Extent, Model, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// One output: how its payload is computed and where it goes.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The model to convert.
    pub source: &'a OpenedModel,
    /// The planned model, for names in errors.
    pub model: &'a Model,
    /// The payload, cut into tiles.
    pub tiles: &'a Tiles,
    /// Destination of the tiles.
    pub sink: &'a dyn TileSink,
    /// The checksums of finished tiles.
    pub sums: &'a TileSums,
    /// Commits encoded payload and what follows it in order, if there is any.
    pub commits: Option<&'a Commits<'a>>,
    /// Examines the written values.
    pub watch: Option<&'a Watch<'a>>,
    /// Collects the losses from quantization.
    pub losses: Option<&'a Losses>,
    /// The scratch file with spooled payload.
    pub spool: Option<Spooled<'a>>,
    /// True if values that are not finite are cast like others.
    pub allow_nonfinite: bool,
}

/// The scratch file with spooled payload.
#[derive(Clone, Copy)]
pub struct Spooled<'a> {
    /// The file's contents.
    pub bytes: &'a dyn Backing,
    /// The file's name in messages.
    pub shown: &'a str,
}

impl Job<'_> {
    /// Examines the bytes at offset `at` of a run as they are written.
    ///
    /// # Errors
    /// Failed for a finding that is an error.
    pub fn see(&self, run: usize, at: u64, bytes: &[u8]) -> Result<()> {
        self.watch.map_or(Ok(()), |watch| watch.see(self.tiles, run, at, bytes))
    }

    /// Fills `out` with bytes from the start of an extent, of the source or of the scratch file.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn read(&self, extent: Extent, out: &mut [u8]) -> Result<()> {
        match self.spool {
            Some(spool) if extent.file == SPOOL => {
                let read = spool.bytes.read_at(extent.offset, out);
                read.map_err(|e| e.at(extent.offset).in_file(spool.shown.to_owned()))
            }
            _ => self.source.files.read_payload(extent.file, extent.offset, out),
        }
    }

    /// Like [`Job::read`], for payload gathered from many places: long runs are recorded by their offsets.
    ///
    /// # Errors
    /// As [`Job::read`].
    pub fn collect(&self, extent: Extent, out: &mut [u8]) -> Result<()> {
        self.read(extent, out)?;
        if let Some(seen) = self.source.files.seen().filter(|_| extent.file != SPOOL && extent.len >= LONG) {
            seen.see(ByteSpace::File(extent.file), extent.offset, out, true);
        }
        Ok(())
    }

    /// Records what was read for the tile at offset `at` of a run, in source order: its CRC-32, and the bytes if
    /// they are available.
    pub fn saw(&self, run: usize, at: u64, len: u64, crc32: u32, bytes: Option<&[u8]>) {
        let from = self.tiles.runs[run].read_from(at, len);
        if let (Some((place, offset, len)), Some(seen)) = (from, self.source.files.seen())
            && !seen.note(place, offset, SeenRange { len, crc32, is_payload: true })
            && let Some(bytes) = bytes
        {
            seen.see(place, offset, bytes, true);
        }
    }

    /// Computes a piece of a run from the bytes of its leaf.
    ///
    /// # Errors
    /// Failed for the first value that is not, or does not stay, finite, unless that is allowed; any error
    /// from a quantizer.
    pub fn evaluate(
        &self,
        registry: &Registry,
        leaf: &[u8],
        piece: Piece<'_>,
        buffers: &mut Buffers,
    ) -> Result<Outcome> {
        let Piece { run, at, out, beside } = piece;
        let runs = &self.tiles.runs;
        let Run { tensor, expression, granule, beside: other, .. } = &runs[run];
        let own = granule.as_deref().copied();
        let own = own.map_or_else(|| Granule::of(expression), Ok)?;
        let of = Evaluation::new(own, registry, leaf, at)?;
        let outcome = expression.evaluate(&of, buffers, out);
        if outcome.is_err() {
            buffers.forget_values();
        }
        let is_bad = match &outcome {
            Ok(outcome) => outcome.changes.is_bad(),
            // If a quantizer refuses, the reason may be a value that should not have got this far.
            Err(_) => true,
        };
        if is_bad
            && !self.allow_nonfinite
            && let Some((number, value)) = expression.first_bad(&of, buffers)
        {
            buffers.forget_values();
            let first = tensor.map_or(run, |tensor| self.tiles.of_tensor(tensor).start);
            let before = runs[run].offset - runs[first].offset + at;
            let element = granule.as_ref().map_or(0, |granule| granule.elements(before)) + number;
            let to = expression.dtype();
            let error = Error::failed(format!("element {element} is {value}, and would be cast to {to}"));
            return Err(error.code(FINITE).hint("pass --allow-nonfinite to convert it anyway"));
        }
        let outcome = outcome?;
        if let Some(Expression::RowScales(scales)) = other.map(|other| &runs[other].expression) {
            scales.of_values(&of, buffers, beside);
        }
        Ok(outcome)
    }

    /// Adds the loss from quantizing part of a run.
    pub fn lost(&self, run: usize, loss: Option<&Loss>) {
        if let (Some(loss), Some(losses), Some(tensor)) = (loss, self.losses, self.tiles.runs[run].tensor) {
            losses.add(tensor, loss);
        }
    }
}

/// A piece of a run that is computed.
pub struct Piece<'p> {
    /// Index of the run.
    pub run: usize,
    /// Offset in the run.
    pub at: u64,
    /// The result.
    pub out: &'p mut [u8],
    /// The result for the run beside it.
    pub beside: &'p mut [u8],
}

/// State that is shared by all outputs of one pass.
#[derive(Default)]
pub struct Common {
    /// The block lists of tensors that are being decoded.
    pub lists: Lists,
    /// The rows of packed weights that are being unpacked.
    pub panels: Arc<Panels>,
    /// Bytes written so far, for all outputs.
    written: AtomicU64,
    /// Total bytes of all outputs.
    bytes: u64,
}

impl Common {
    /// The state at the start of a pass over outputs of so many bytes.
    pub fn new(bytes: u64) -> Common {
        Common { bytes, ..Common::default() }
    }
}

/// The block lists that threads are using. When the last thread leaves a tensor, its list is dropped.
#[derive(Default)]
pub struct Lists {
    /// Index of the source tensor, and its list.
    pub held: Mutex<Vec<(usize, Weak<BlockList>)>>,
    /// Locked by the only thread that may hold blocks too large for every thread to have one.
    pub large: Mutex<()>,
}

/// State of one output, shared by the threads.
pub struct Shared<'a> {
    /// The context: plugins, workers, cancellation.
    pub engine: &'a Engine,
    /// The work to do.
    pub job: Job<'a>,
    /// The state shared with the other outputs.
    pub common: &'a Common,
    /// Set when nothing more is to be written to this output: it failed, or all work stops.
    stop: AtomicBool,
    /// The first failure, and the unit it happened in.
    failed: Mutex<Option<(usize, Error)>>,
}

impl<'a> Shared<'a> {
    /// The state of an output before any work on it.
    pub fn new(engine: &'a Engine, job: Job<'a>, common: &'a Common) -> Shared<'a> {
        Shared { engine, job, common, stop: AtomicBool::new(false), failed: Mutex::default() }
    }

    /// The first failure, if there was one.
    pub fn into_failure(self) -> Option<Error> {
        let failed = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map(|(_, error)| error)
    }

    /// Records that unit `number` failed at a run of this output, which is then given up. If several fail,
    /// the error of the first unit is reported.
    pub fn fail(&self, number: usize, run: usize, error: Error) {
        // Storage's messages about its own files use the names the user knows.
        let own = &self.job.tiles.runs[run];
        let beside = own.beside.map(|beside| self.job.tiles.runs[beside].file);
        let outputs = [Some(own.file), beside].map(|file| file.map(|file| self.job.sink.show(file)));
        let spool = self.job.spool.map(|spool| spool.shown);
        let is_shown = error
            .file()
            .is_some_and(|file| Some(file) == spool || outputs.iter().flatten().any(|output| output == file));
        let error = if is_shown { error } else { self.job.source.files.show(error) };
        let error = match own.tensor {
            Some(tensor) => error.tensor(&self.job.model.tensors[tensor].name),
            None => error,
        };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(first, _)| number < *first) {
            *failed = Some((number, error));
        }
        drop(failed);
        self.stop();
    }

    /// Returns whether a tile, and the one computed beside it, is finished.
    pub fn is_done(&self, run: usize, tile: usize) -> bool {
        let Job { tiles, sums, .. } = self.job;
        let beside = tiles.beside(run, tile);
        sums.get(tile).is_some() && beside.is_none_or(|(_, beside)| sums.get(beside).is_some())
    }

    /// Stops the work on this output: workers that wait for others give up.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(commits) = self.job.commits {
            commits.wake();
        }
    }

    /// Waits until everything before a run that is committed in order is written; returns whether to
    /// continue.
    pub fn await_turn(&self, run: usize) -> bool {
        let run = &self.job.tiles.runs[run];
        match (self.job.commits, run.in_order) {
            (Some(commits), Some(at)) => commits.await_turn(run.file, run.segment, at, &|| self.stopped()),
            _ => true,
        }
    }

    /// Examines a complete tile of run `number` and writes it, unless it is finished already; `sums` are the
    /// CRC-32 of its bytes and of the source's.
    ///
    /// # Errors
    /// Any error from examining and writing.
    pub fn put(
        &self,
        number: usize,
        tile: usize,
        bytes: &[u8],
        sums: [u32; 2],
        changes: Changes,
    ) -> Result<()> {
        if self.job.sums.get(tile).is_some() {
            return Ok(());
        }
        let run = &self.job.tiles.runs[number];
        let at = self.job.tiles.tile(tile).at;
        self.job.see(number, at, bytes)?;
        if let (Some(commits), Some(begin)) = (self.job.commits, run.in_order) {
            let at = begin + at;
            if !commits.put(run.file, run.segment, at, bytes, self.job.sink, &|| self.stopped())? {
                return Ok(());
            }
            self.job.sums.set(tile, sums, changes);
        } else {
            self.job.sink.write_at(run.file, run.offset + at, bytes)?;
            self.job.sums.set(tile, sums, changes);
            self.finished(tile);
        }
        self.written(number, bytes.len() as u64);
        Ok(())
    }

    /// Returns whether this output has stopped.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports that `bytes` of a run are written.
    pub fn written(&self, run: usize, bytes: u64) {
        let before = self.common.written.fetch_add(bytes, Ordering::Relaxed);
        let tensor = self.job.tiles.runs[run].tensor;
        let name = tensor.map_or("", |tensor| self.job.model.tensors[tensor].name.as_str());
        self.engine.progress.bytes(before + bytes, self.common.bytes, name);
    }

    /// Tells storage that a tile is complete.
    pub fn finished(&self, tile: usize) {
        if let Some(record) = self.job.sums.record(tile) {
            self.job.sink.finished(tile, record);
        }
    }
}
