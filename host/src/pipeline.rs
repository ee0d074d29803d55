//! Carries out a plan's payload on all threads, unit of work by unit of work, with memory bounded by a few tiles each.

use crate::cast::Changes;
use crate::contract::{FINITE, Watch};
use crate::crew::Crew;
use crate::host::Host;
use crate::journaling::Journaling;
use crate::loss::Losses;
use crate::open::OpenedModel;
use crate::recode::{Recode, Rows};
use crate::seen::{LONG, Place, Run};
use crate::sink::StagedFile;
use crate::spool;
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use crate::work::{Lists, Worker};
use apr_sdk::{Error, Extent, Model, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Writeback is started each time this many bytes were written, so that the last sync has little left to do.
const WRITEBACK: u64 = 32 << 20;

/// What the payload is made of and where it goes.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The source.
    pub source: &'a OpenedModel,
    /// The planned model, for names in errors.
    pub model: &'a Model,
    /// The tiles.
    pub tiles: &'a Tiles,
    /// The staged files.
    pub outputs: &'a [StagedFile],
    /// What is known of the tiles.
    pub sums: &'a TileSums,
    /// Looks at what is written.
    pub watch: Option<&'a Watch<'a>>,
    /// Gathers what quantization loses.
    pub losses: Option<&'a Losses>,
    /// What was spooled.
    pub spool: Option<&'a StagedFile>,
    /// Whether values that are not finite are cast like others.
    pub allow_nonfinite: bool,
}

impl Job<'_> {
    /// Looks at bytes at `at` of a stretch, as they are written.
    ///
    /// # Errors
    /// Failed for what stops the work.
    pub fn see(&self, stretch: usize, at: u64, bytes: &[u8]) -> Result<()> {
        self.watch.map_or(Ok(()), |watch| watch.see(self.tiles, stretch, at, bytes))
    }

    /// Fills `out` with the bytes at the begin of an extent, of the source or of the spool.
    ///
    /// # Errors
    /// What reading raises.
    pub fn read(&self, extent: Extent, out: &mut [u8]) -> Result<()> {
        match self.spool {
            Some(spool) if extent.file == spool::FILE => spool.read_at(extent.offset, out),
            _ => self.source.files.read_payload(extent.file, extent.offset, out),
        }
    }

    /// The same for payload that is collected from many places: long runs are noted where they lie.
    ///
    /// # Errors
    /// As [`Job::read`].
    pub fn collect(&self, extent: Extent, out: &mut [u8]) -> Result<()> {
        self.read(extent, out)?;
        if let Some(seen) =
            self.source.files.seen().filter(|_| extent.file != spool::FILE && extent.len >= LONG)
        {
            seen.see(Place::File(extent.file), extent.offset, out);
        }
        Ok(())
    }

    /// Notes what was read for the tile at `at` of a stretch, in the order in which it lies in the source: its CRC-32, and the
    /// bytes where they are at hand.
    pub fn saw(&self, stretch: usize, (at, len): (u64, u64), crc32: u32, bytes: Option<&[u8]>) {
        let from = self.tiles.stretches[stretch].read_from(at, len);
        if let (Some((place, offset, len)), Some(seen)) = (from, self.source.files.seen())
            && !seen.note(place, offset, Run { len, crc32 })
            && let Some(bytes) = bytes
        {
            seen.see(place, offset, bytes);
        }
    }

    /// Makes bytes of a stretch of those before; `out` lies at `at` in it.
    ///
    /// # Errors
    /// Failed for the first value that is not finite, or does not stay so, unless that is allowed; what a quantizer
    /// raises.
    pub fn recode(
        &self,
        stretch: usize,
        recode: &Recode,
        from: &[u8],
        (at, out): (u64, &mut [u8]),
        rows: &mut Rows,
    ) -> Result<Changes> {
        let stretches = &self.tiles.stretches;
        let tensor = stretches[stretch].tensor;
        let applied = recode.apply(from, (at, out), rows);
        let bad = match &applied {
            Ok((changes, _)) => changes.is_bad(),
            // What a quantizer refuses may be what should not have come so far.
            Err(_) => true,
        };
        if bad
            && !self.allow_nonfinite
            && let Some((number, value)) = recode.first_bad(from, rows)
        {
            let first = tensor.map_or(stretch, |tensor| self.tiles.of_tensor(tensor).start);
            let element = recode.elements(stretches[stretch].offset - stretches[first].offset + at) + number;
            let to = recode.dtypes().1;
            let error = Error::failed(format!("element {element} is {value}, and would be cast to {to}"));
            return Err(error.code(FINITE).hint("pass --allow-nonfinite to convert it anyway"));
        }
        let (changes, loss) = applied?;
        if let (Some(loss), Some(losses), Some(tensor)) = (loss, self.losses, tensor) {
            losses.add(tensor, &loss);
        }
        Ok(changes)
    }
}

/// What the threads of a job share.
pub struct Shared<'a> {
    /// The host.
    pub host: &'a Host,
    /// The job.
    pub job: Job<'a>,
    /// The blocks of tensors that are being decoded.
    pub lists: Lists,
    written: AtomicU64,
    stop: AtomicBool,
    /// What writeback met.
    error: Mutex<Option<Error>>,
    wake: (Mutex<()>, Condvar),
    journaling: Option<&'a Journaling<'a>>,
    /// Bytes that were written when writeback was last started.
    flushed: Mutex<u64>,
    /// Whether the workers see to writeback, because no thread could be had for it.
    has_no_background: AtomicBool,
}

/// Reads, changes and writes every tile that `sums` does not know yet.
///
/// # Errors
/// The first that any thread met; Cancelled. Finished tiles stay noted in `sums` and the journal.
pub fn run<'a>(host: &'a Host, job: Job<'a>, journaling: Option<&'a Journaling<'a>>) -> Result<()> {
    let shared = Shared {
        host,
        job,
        lists: Lists::default(),
        written: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        error: Mutex::new(None),
        wake: (Mutex::new(()), Condvar::new()),
        journaling,
        flushed: Mutex::new(0),
        has_no_background: AtomicBool::new(false),
    };
    let crew = host.crew();
    let workers: Vec<_> = (0..crew.width()).map(|_| Mutex::new(Worker::new(&shared))).collect();
    let done = crew.beside(
        || shared.write_back(),
        |there_is| {
            shared.has_no_background.store(!there_is, Ordering::Relaxed);
            let done = crew.run(job.tiles.units, &|slot, number| {
                let mut worker = workers[slot].lock().unwrap_or_else(PoisonError::into_inner);
                shared.unit(number, &mut worker)
            });
            shared.stop();
            done
        },
    );
    drop(workers);
    let done = done.and_then(|done| done);
    let error = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
    // What is finished is made durable before a stop, so that `--resume` can keep it.
    if let Some(journaling) = journaling {
        journaling.record(job.outputs, job.sums)?;
    }
    done.and(error.map_or(Ok(()), Err))
}

impl Shared<'_> {
    /// What writeback met.
    fn fail(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop();
    }

    /// Under the lock, or the background could look before and sleep after.
    fn stop(&self) {
        let _guard = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        self.wake.1.notify_all();
    }

    /// Does unit number `number`, unless something failed.
    fn unit(&self, number: usize, worker: &mut Worker<'_>) -> Result<()> {
        if self.stopped() {
            return Ok(());
        }
        let (stretch, unit) = self.job.tiles.unit(number);
        worker.unit(stretch, unit).map_err(|error| {
            self.stop();
            let error = self.job.source.files.show(error);
            match self.job.tiles.stretches[stretch].tensor {
                Some(tensor) => error.tensor(&self.job.model.tensors[tensor].name),
                None => error,
            }
        })
    }

    /// Whether something failed, or the work is done.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells of `bytes` of a stretch that are written.
    pub fn written(&self, stretch: usize, bytes: u64) {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / WRITEBACK != (before + bytes) / WRITEBACK {
            self.wake.1.notify_all();
        }
        if self.has_no_background.load(Ordering::Relaxed) {
            self.step();
        }
        let tensor = self.job.tiles.stretches[stretch].tensor;
        let what = tensor.map_or("", |tensor| self.job.model.tensors[tensor].name.as_str());
        self.host.progress.bytes(before + bytes, self.job.tiles.bytes, what);
    }

    /// Sees to writeback until the work is done.
    fn write_back(&self) {
        loop {
            let guard = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
            if self.stopped() {
                return;
            }
            drop(self.wake.1.wait_timeout(guard, Duration::from_millis(50)));
            self.step();
        }
    }

    /// Starts writeback if enough data came in, and keeps the journal if it is time, unless another thread does.
    fn step(&self) {
        let Ok(mut flushed) = self.flushed.try_lock() else { return };
        let written = self.written.load(Ordering::Relaxed);
        if written - *flushed >= WRITEBACK {
            *flushed = written;
            // The kernel tells of a failed write once, to the first sync: no later one would say it again.
            if let Err(error) = self.job.outputs.iter().try_for_each(StagedFile::sync_data) {
                self.fail(error);
            }
        }
        let kept =
            self.journaling.map_or(Ok(()), |journaling| journaling.step(self.job.outputs, self.job.sums));
        if let Err(error) = kept {
            self.fail(error);
        }
    }
}
