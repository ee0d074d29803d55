//! Carries out a plan's payload on all threads, unit of work by unit of work, with memory bounded by a few tiles each.

use crate::cast::Changes;
use crate::contract::{FINITE, Watch};
use crate::host::Host;
use crate::journal::Journal;
use crate::loss::Losses;
use crate::open::OpenedModel;
use crate::recode::{Recode, Rows};
use crate::sink::StagedFile;
use crate::spool;
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use crate::work::{Lists, Worker};
use apr_sdk::{Error, Extent, Model, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    pub watch: Option<&'a Watch>,
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
            _ => self.source.files.read_at(extent.file, extent.offset, out),
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
            let error = Error::failed(format!("element {element} is {value}, and it is to be made {to}"));
            return Err(error.code(FINITE).hint("--allow-nonfinite makes of it what can be made"));
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
    next: AtomicUsize,
    written: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<Error>>,
    wake: (Mutex<()>, Condvar),
}

/// How many threads share so many units of work.
pub fn n_threads(wanted: usize, n_units: usize) -> usize {
    wanted.clamp(1, n_units.max(1)).min(64)
}

/// Reads, changes and writes every tile that `sums` does not know yet.
///
/// # Errors
/// The first that any thread met; Cancelled. Finished tiles stay noted in `sums` and the journal.
pub fn run(host: &Host, job: Job<'_>, journal: Option<&mut Journal>) -> Result<()> {
    let shared = Shared {
        host,
        job,
        lists: Lists::default(),
        next: AtomicUsize::new(0),
        written: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        error: Mutex::new(None),
        wake: (Mutex::new(()), Condvar::new()),
    };
    let n_threads = n_threads(host.threads, job.tiles.units);
    let mut journal = journal;
    std::thread::scope(|scope| {
        let background = scope.spawn(|| shared.write_back(journal.as_deref_mut()));
        // None works on this thread: a panic here would wait for the background for ever.
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(|| shared.work())).collect();
        for worker in workers {
            if worker.join().is_err() {
                shared.fail(Error::plugin("a worker thread panicked: this is a bug in apr"));
            }
        }
        shared.stop();
        if background.join().is_err() {
            shared.fail(Error::plugin("the writeback thread panicked: this is a bug in apr"));
        }
    });
    let error = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner);
    // What is finished is made durable before a stop, so that `--resume` can keep it.
    if let Some(journal) = journal {
        journal.record(job.outputs, job.sums)?;
    }
    error.map_or(Ok(()), Err)
}

impl Shared<'_> {
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

    fn work(&self) {
        let mut worker = Worker::new(self);
        while !self.stopped() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.job.tiles.units {
                break;
            }
            let (stretch, unit) = self.job.tiles.unit(number);
            if let Err(error) = worker.unit(stretch, unit) {
                let tensor = self.job.tiles.stretches[stretch].tensor;
                let error = self.job.source.files.show(error);
                self.fail(match tensor {
                    Some(tensor) => error.tensor(&self.job.model.tensors[tensor].name),
                    None => error,
                });
            }
        }
    }

    /// Whether another thread failed, or the work is done.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells of `bytes` of a stretch that are written.
    pub fn written(&self, stretch: usize, bytes: u64) {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / WRITEBACK != (before + bytes) / WRITEBACK {
            self.wake.1.notify_all();
        }
        let tensor = self.job.tiles.stretches[stretch].tensor;
        let what = tensor.map_or("", |tensor| self.job.model.tensors[tensor].name.as_str());
        self.host.progress.bytes(before + bytes, self.job.tiles.bytes, what);
    }

    /// Starts writeback as data comes in, and keeps the journal.
    fn write_back(&self, mut journal: Option<&mut Journal>) {
        let mut flushed = 0;
        let mut recorded = Instant::now();
        loop {
            let guard = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            drop(self.wake.1.wait_timeout(guard, Duration::from_millis(50)));
            let written = self.written.load(Ordering::Relaxed);
            if written - flushed >= WRITEBACK {
                flushed = written;
                // The kernel tells of a failed write once, to the first sync: no later one would say it again.
                if let Err(error) = self.job.outputs.iter().try_for_each(StagedFile::sync_data) {
                    self.fail(error);
                }
            }
            if let Some(journal) =
                journal.as_deref_mut().filter(|_| recorded.elapsed() >= self.host.journal_interval)
            {
                recorded = Instant::now();
                if let Err(error) = journal.record(self.job.outputs, self.job.sums) {
                    self.fail(error);
                }
            }
        }
    }
}
