//! A staged output while its payload is written: starts writeback as bytes arrive, and records what is
//! finished, so that the final sync has little left to do and an interrupted job can be resumed.

use super::journal::Journaling;
use super::staging::Staging;
use crate::threads::Threads;
use apr_engine::place::Backing;
use apr_engine::tiles::{TileRecord, TileSink};
use apr_sdk::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bytes written between two starts of writeback.
const WRITEBACK: u64 = 32 << 20;

/// The sink of a job, with writeback and journal.
pub struct Recorder<'a> {
    staging: &'a Staging,
    journaling: &'a Journaling<'a>,
    /// Called once the headers are written.
    foresee: &'a (dyn Fn() -> Result<()> + Sync),
    /// True if payload is being written.
    is_under_way: AtomicBool,
    written: AtomicU64,
    /// The number of bytes written when writeback was last started.
    flushed: Mutex<u64>,
    /// The first error from writeback.
    error: Mutex<Option<Error>>,
    has_failed: AtomicBool,
    stop: AtomicBool,
    wake: (Mutex<()>, Condvar),
    /// True if the workers handle writeback, because there is no thread for it.
    has_no_background: AtomicBool,
}

impl<'a> Recorder<'a> {
    /// A job that writes to `staging`; `foresee` may refuse it once its headers are written.
    pub fn new(
        staging: &'a Staging,
        journaling: &'a Journaling<'a>,
        foresee: &'a (dyn Fn() -> Result<()> + Sync),
    ) -> Recorder<'a> {
        Recorder {
            staging,
            journaling,
            foresee,
            is_under_way: AtomicBool::new(false),
            written: AtomicU64::new(0),
            flushed: Mutex::new(0),
            error: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake: (Mutex::new(()), Condvar::new()),
            has_no_background: AtomicBool::new(false),
        }
    }

    /// Returns whether writing payload has started.
    pub fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Runs the job, which writes to this sink, with writeback on a separate thread.
    ///
    /// # Errors
    /// Any error from the job, or from writeback.
    pub fn run<T>(&self, threads: &Threads, job: impl FnOnce(&dyn TileSink) -> Result<T>) -> Result<T> {
        let done = threads.beside(
            || self.write_back(),
            |there_is| {
                self.has_no_background.store(!there_is, Ordering::Relaxed);
                // Even if the job panics, the other thread is waited for.
                let _stopping = Stopping(self);
                job(self)
            },
        );
        let done = done.and_then(|done| done);
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Make finished tiles durable before stopping, so that `--resume` can keep them.
        self.journaling.record(&self.staging.files)?;
        // An error from writeback is not the fault of the tensor being written at the time.
        error.map_or(done, Err)
    }

    /// Sets the flag while locked, or the background thread could check before and go to sleep after.
    fn stop(&self) {
        let _guard = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        self.wake.1.notify_all();
    }

    /// Handles writeback until the work is done.
    fn write_back(&self) {
        loop {
            let guard = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
            if self.stop.load(Ordering::Relaxed) || self.has_failed.load(Ordering::Relaxed) {
                return;
            }
            drop(self.wake.1.wait_timeout(guard, Duration::from_millis(50)));
            self.step();
        }
    }

    /// Starts writeback if enough data has arrived, and updates the journal if it is time, unless another
    /// thread is doing so.
    fn step(&self) {
        let Ok(mut flushed) = self.flushed.try_lock() else { return };
        let written = self.written.load(Ordering::Relaxed);
        if written - *flushed >= WRITEBACK {
            *flushed = written;
            // The kernel reports a failed write once, to the first sync; later ones would not repeat it.
            if let Err(error) = self.staging.files.iter().try_for_each(|file| file.sync_data()) {
                self.fail(error);
            }
        }
        if let Err(error) = self.journaling.step(&self.staging.files) {
            self.fail(error);
        }
    }

    fn fail(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.has_failed.store(true, Ordering::Release);
    }
}

/// Ends the background thread when dropped.
struct Stopping<'r, 'a>(&'r Recorder<'a>);

impl Drop for Stopping<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl TileSink for Recorder<'_> {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.has_failed.load(Ordering::Acquire)
            && let Some(error) = &*self.error.lock().unwrap_or_else(PoisonError::into_inner)
        {
            return Err(error.clone());
        }
        self.staging.write_at(file, offset, bytes)?;
        let len = bytes.len() as u64;
        let before = self.written.fetch_add(len, Ordering::Relaxed);
        if before / WRITEBACK != (before + len) / WRITEBACK {
            self.wake.1.notify_all();
        }
        if self.has_no_background.load(Ordering::Relaxed) {
            self.step();
        }
        Ok(())
    }

    fn set_len(&self, file: usize, len: u64) -> Result<()> {
        self.staging.set_len(file, len)
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        self.staging.read_back(file)
    }

    fn show(&self, file: usize) -> String {
        self.staging.show(file)
    }

    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        self.staging.scratch(len)
    }

    fn laid_out(&self) -> Result<()> {
        (self.foresee)()?;
        self.is_under_way.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn finished(&self, tile: usize, record: TileRecord) {
        self.journaling.finished(tile, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::storage::overwrite::Inputs;
    use crate::storage::staging::{Need, Wanted};
    use crate::storage::target::Target;
    use apr_engine::layout::Layout;
    use apr_engine::registry::Registry;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn a_panic_of_the_job_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("apr-recorder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = Target::new(&folder.join("out"), false).unwrap();
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let host = Host::new(Registry::new());
            let wanted = Wanted {
                layout: &Layout::default(),
                need: Need::default(),
                inputs: &Inputs::default(),
                force: false,
                resume: false,
                steps: &host.steps,
                outputs: &host.outputs,
            };
            let staging = Staging::create(target, wanted).unwrap();
            let begin = || Err(Error::io("there is no journal here"));
            let journaling = Journaling::new(Instant::now(), Duration::from_secs(60), &begin);
            let recorder = Recorder::new(&staging, &journaling, &|| Ok(()));
            let run = catch_unwind(AssertUnwindSafe(|| {
                recorder.run(&Threads::new(2), |_: &dyn TileSink| -> Result<()> { panic!("on purpose") })
            }));
            send.send(run.is_err()).unwrap();
        });
        assert_eq!(receive.recv_timeout(Duration::from_secs(60)), Ok(true), "it waits for ever");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
