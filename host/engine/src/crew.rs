//! Loops whose passes are shared among threads: the only way to do so, with as many threads as the system
//! provides.

use apr_sdk::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// One pass of a loop, called with the worker's slot and the index of the pass.
pub type Pass<'a> = dyn Fn(usize, usize) -> Result<()> + Sync + 'a;

/// A team of workers that runs loops.
pub trait Crew: Send + Sync {
    /// The most passes that run at the same time.
    fn width(&self) -> usize;

    /// Runs the passes `0..n`, which start in ascending order. Slots are below [`width`](Crew::width) and
    /// unique among passes running at the same time, so that they can index per-worker buffers. After an
    /// error, no further pass starts.
    ///
    /// # Errors
    /// The error from the pass with the lowest index; a panic counts as an error. Never for lack of threads,
    /// since the caller works too.
    fn run(&self, n: usize, pass: &Pass<'_>) -> Result<()>;
}

/// Runs everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Crew for Alone {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, n: usize, pass: &Pass<'_>) -> Result<()> {
        let passes = Passes::new(n, pass);
        passes.work(0);
        passes.end()
    }
}

/// Runs a loop with at most `most` passes at the same time, whatever the crew's width; slots are below `most`
/// as well.
///
/// # Errors
/// As [`Crew::run`].
pub fn run_at_most(crew: &dyn Crew, most: usize, n: usize, pass: &Pass<'_>) -> Result<()> {
    let passes = Passes::new(n, pass);
    let done = crew.run(most.clamp(1, crew.width()), &|_, worker| {
        passes.work(worker);
        Ok(())
    });
    done.and_then(|()| passes.end())
}

/// Runs a loop whose passes return values, and collects these by index.
///
/// # Errors
/// As [`Crew::run`].
pub fn map<T: Send>(
    crew: &dyn Crew,
    n: usize,
    pass: &(dyn Fn(usize, usize) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    let values: Mutex<Vec<Option<T>>> = Mutex::new((0..n).map(|_| None).collect());
    crew.run(n, &|slot, index| {
        let value = pass(slot, index)?;
        values.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(value);
        Ok(())
    })?;
    Ok(values.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect())
}

/// The passes of one loop, as shared by its workers.
pub struct Passes<'a> {
    n: usize,
    pass: &'a Pass<'a>,
    next: AtomicUsize,
    first_error: Mutex<Option<(usize, Error)>>,
}

impl<'a> Passes<'a> {
    /// All passes, none started.
    pub fn new(n: usize, pass: &'a Pass<'a>) -> Passes<'a> {
        Passes { n, pass, next: AtomicUsize::new(0), first_error: Mutex::new(None) }
    }

    /// Runs passes until none are left. Does not unwind.
    pub fn work(&self, slot: usize) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.n {
                // Stops the counter from overflowing, however many workers come by.
                self.next.store(self.n, Ordering::Relaxed);
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| (self.pass)(slot, index)));
            if let Err(error) = done.unwrap_or_else(|_| Err(panicked())) {
                self.next.store(self.n, Ordering::Relaxed);
                let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(lowest, _)| index < *lowest) {
                    *first = Some((index, error));
                }
            }
        }
    }

    /// The result of the loop, once every worker is done.
    ///
    /// # Errors
    /// The error with the lowest index.
    pub fn end(self) -> Result<()> {
        let first = self.first_error.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// The error for a panic of a worker.
pub fn panicked() -> Error {
    Error::plugin("a worker thread panicked: this is a bug in apr")
}
