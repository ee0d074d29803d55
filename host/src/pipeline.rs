//! Carries out a plan's payload, tile by tile, on all threads, with memory bounded by a few tiles.

use crate::files::Files;
use crate::host::Host;
use crate::journal::Journal;
use crate::sink::StagedFile;
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use apr_sdk::{Error, Extent, Model, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Writeback is started each time this many bytes were written, so that the last sync has little left to do.
const WRITEBACK: u64 = 32 << 20;

/// What the payload is made of and where it goes.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The source's files.
    pub files: &'a Files,
    /// The spool file, if there is one.
    pub spool: Option<&'a std::fs::File>,
    /// The planned model, for names in errors.
    pub model: &'a Model,
    /// The tiles.
    pub tiles: &'a Tiles,
    /// The staged files.
    pub outputs: &'a [StagedFile],
    /// What is known of the tiles.
    pub sums: &'a TileSums,
}

struct Shared<'a> {
    host: &'a Host,
    job: Job<'a>,
    next: AtomicUsize,
    written: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<Error>>,
    wake: (Mutex<()>, Condvar),
}

/// The file number that stands for the spool file in extents.
pub const SPOOL: u32 = u32::MAX;

/// How many threads work on so many tiles.
pub fn n_threads(wanted: usize, n_tiles: usize) -> usize {
    wanted.clamp(1, n_tiles.max(1)).min(64)
}

/// Reads, changes and writes every tile that `sums` does not know yet.
///
/// # Errors
/// The first that any thread met; Cancelled. Finished tiles stay noted in `sums` and the journal.
pub fn run(host: &Host, job: Job<'_>, journal: Option<&mut Journal>) -> Result<()> {
    let shared = Shared {
        host,
        job,
        next: AtomicUsize::new(0),
        written: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        error: Mutex::new(None),
        wake: (Mutex::new(()), Condvar::new()),
    };
    let n_threads = n_threads(host.threads, job.tiles.count);
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
        let mut buffer = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.job.tiles.count {
                break;
            }
            if self.job.sums.get(number).is_some() {
                continue;
            }
            if let Err(error) = self.tile(number, &mut buffer) {
                self.fail(error);
            }
        }
    }

    fn tile(&self, number: usize, buffer: &mut Vec<u8>) -> Result<()> {
        self.host.check_cancelled()?;
        let tile = self.job.tiles.tile(number);
        let stretch = &self.job.tiles.stretches[tile.stretch];
        let named = |e: Error| match stretch.tensor {
            Some(tensor) => e.tensor(&self.job.model.tensors[tensor].name),
            None => e,
        };
        buffer.resize(usize::try_from(tile.len).map_err(|_| Error::limit("a tile does not fit memory"))?, 0);
        let read = |extent: Extent, out: &mut [u8]| self.read(extent, out);
        let source = stretch.work.fill(&read, tile.at, buffer).map_err(|e| named(self.job.files.show(e)))?;
        let sum = crc32fast::hash(buffer);
        self.job.outputs[stretch.file].write_at(stretch.offset + tile.at, buffer).map_err(named)?;
        self.job.sums.set(number, sum, source.unwrap_or(sum));
        let before = self.written.fetch_add(tile.len, Ordering::Relaxed);
        if before / WRITEBACK != (before + tile.len) / WRITEBACK {
            self.wake.1.notify_all();
        }
        let what = stretch.tensor.map_or("", |tensor| self.job.model.tensors[tensor].name.as_str());
        self.host.progress.bytes(before + tile.len, self.job.tiles.bytes, what);
        Ok(())
    }

    fn read(&self, extent: Extent, out: &mut [u8]) -> Result<()> {
        use std::os::unix::fs::FileExt;
        match self.job.spool {
            Some(spool) if extent.file == SPOOL => spool
                .read_exact_at(out, extent.offset)
                .map_err(|e| crate::files::io_error(&e, "read the spool file")),
            _ => self.job.files.read_at(extent.file, extent.offset, out),
        }
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
