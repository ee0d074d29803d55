//! When a job keeps a journal: from the start if it is large, else once it has lasted; and when finished tiles are recorded.

use crate::journal::Journal;
use crate::sink::StagedFile;
use crate::tile_sums::TileSums;
use apr_sdk::Result;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A journal that is there, or begins once the job has lasted as long as its interval.
pub struct Journaling<'a> {
    begin: &'a (dyn Fn() -> Result<Journal> + Sync),
    interval: Duration,
    state: Mutex<State>,
}

struct State {
    journal: Option<Journal>,
    /// When it begins, or records what was finished since.
    due: Instant,
}

impl<'a> Journaling<'a> {
    /// For a job that began at `since`; `begin` makes the journal, which records every `interval`.
    pub fn new(
        since: Instant,
        interval: Duration,
        begin: &'a (dyn Fn() -> Result<Journal> + Sync),
    ) -> Journaling<'a> {
        Journaling { begin, interval, state: Mutex::new(State { journal: None, due: since + interval }) }
    }

    /// Begins it now.
    ///
    /// # Errors
    /// As [`Journal::create`].
    pub fn begin(&self) -> Result<()> {
        self.take_up((self.begin)()?);
        Ok(())
    }

    /// Goes on with one that was there before.
    pub fn take_up(&self, journal: Journal) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { journal: Some(journal), due: Instant::now() + self.interval };
    }

    /// Whether there is something to resume.
    pub fn is_begun(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).journal.is_some()
    }

    /// Begins or records if it is time, unless another thread is at it.
    ///
    /// # Errors
    /// Io.
    pub fn step(&self, outputs: &[StagedFile], sums: &TileSums) -> Result<()> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if Instant::now() < state.due {
            return Ok(());
        }
        if state.journal.is_none() {
            state.journal = Some((self.begin)()?);
        }
        let recorded = state.record(outputs, sums);
        state.due = Instant::now() + self.interval;
        recorded
    }

    /// Records all that is finished, if there is a journal.
    ///
    /// # Errors
    /// Io.
    pub fn record(&self, outputs: &[StagedFile], sums: &TileSums) -> Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).record(outputs, sums)
    }
}

impl State {
    fn record(&mut self, outputs: &[StagedFile], sums: &TileSums) -> Result<()> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.record(outputs, sums))
    }
}
