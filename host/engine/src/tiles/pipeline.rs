//! Processes a plan's payload on all threads, unit by unit, with memory bounded by a few tiles per thread.

use super::job::{Common, Job, Shared};
use super::schedule::Schedule;
use super::worker::Worker;
use crate::engine::Engine;
use apr_sdk::{Error, Result};
use std::sync::{Mutex, PoisonError};

/// Reads, converts and writes every tile that `sums` does not know yet.
///
/// # Errors
/// The first error from any thread; Cancelled. Finished tiles stay recorded in `sums`.
pub fn run(engine: &Engine, job: Job<'_>) -> Result<()> {
    run_all(engine, &[job]).pop().unwrap_or(Ok(()))
}

/// Like [`run`], for several outputs of one source: results from the same bytes are computed while these are
/// in memory. Returns the result of each; one that fails does not affect the others.
pub fn run_all(engine: &Engine, jobs: &[Job<'_>]) -> Vec<Result<()>> {
    let bytes = jobs.iter().fold(0u64, |sum, job| sum.saturating_add(job.tiles.bytes));
    let common = Common::new(bytes);
    let tiles: Vec<_> = jobs.iter().map(|job| job.tiles).collect();
    let schedule = Schedule::new(&tiles);
    let outputs: Vec<_> = jobs.iter().map(|&job| Shared::new(engine, job, &common)).collect();
    let crew = &engine.crew;
    let workers: Vec<_> = (0..crew.width()).map(|_| Mutex::new(Worker::new(&outputs))).collect();
    let ran = crew.run(schedule.units, &|slot, number| {
        if outputs.iter().all(Shared::stopped) {
            return Err(Error::cancelled("stopped"));
        }
        let (members, unit) = schedule.unit(number);
        if members.iter().all(|member| outputs[member.output].stopped()) {
            return Ok(());
        }
        let mut worker = workers[slot].lock().unwrap_or_else(PoisonError::into_inner);
        // In case it panics: the others may be waiting for its part.
        let mut stopping = Stopping { outputs: &outputs, is_over: false };
        let done = worker.unit(members, unit, number);
        stopping.is_over = true;
        if let Err(error) = done {
            // The bytes that all of them need cannot be read.
            members.iter().for_each(|member| outputs[member.output].fail(number, member.run, error.clone()));
        }
        Ok(())
    });
    drop(workers);
    outputs.into_iter().map(|output| output.into_failure().map_or_else(|| ran.clone(), Err)).collect()
}

/// Stops all work if dropped before its unit is done.
struct Stopping<'s, 'a> {
    outputs: &'s [Shared<'a>],
    is_over: bool,
}

impl Drop for Stopping<'_, '_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.outputs.iter().for_each(Shared::stop);
        }
    }
}
