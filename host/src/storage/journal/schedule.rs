//! Decides when a job keeps a journal (from the start if it is large, otherwise after some time) and when
//! finished tiles are recorded.

use super::Journal;
use crate::storage::staged_file::StagedFile;
use apr_engine::tiles::TileRecord;
use apr_sdk::Result;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A journal that exists, or that starts once the job has run for its interval.
pub struct Journaling<'a> {
    begin: &'a (dyn Fn() -> Result<Journal> + Sync),
    interval: Duration,
    state: Mutex<State>,
    /// Tiles that are finished but not recorded yet.
    finished: Mutex<Vec<(u64, TileRecord)>>,
}

struct State {
    journal: Option<Journal>,
    /// When to start the journal, or to record what was finished since.
    due: Instant,
}

impl<'a> Journaling<'a> {
    /// For a job that started at `since`; `begin` creates the journal, which records every `interval`.
    pub fn new(
        since: Instant,
        interval: Duration,
        begin: &'a (dyn Fn() -> Result<Journal> + Sync),
    ) -> Journaling<'a> {
        let state = Mutex::new(State { journal: None, due: since + interval });
        Journaling { begin, interval, state, finished: Mutex::default() }
    }

    /// Starts the journal now.
    ///
    /// # Errors
    /// As [`Journal::create`].
    pub fn begin(&self) -> Result<()> {
        self.take_up((self.begin)()?);
        Ok(())
    }

    /// Continues an existing journal.
    pub fn take_up(&self, journal: Journal) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { journal: Some(journal), due: Instant::now() + self.interval };
    }

    /// Returns whether there is something to resume.
    pub fn is_begun(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).journal.is_some()
    }

    /// Adds a finished tile.
    pub fn finished(&self, tile: usize, record: TileRecord) {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.push((tile as u64, record));
    }

    /// Starts or records if it is time, unless another thread is doing so.
    ///
    /// # Errors
    /// Io.
    pub fn step(&self, outputs: &[Arc<StagedFile>]) -> Result<()> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if Instant::now() < state.due {
            return Ok(());
        }
        state.due = Instant::now() + self.interval;
        if state.journal.is_none() {
            // A job that is still spooling has nothing to keep.
            if self.finished.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                return Ok(());
            }
            state.journal = Some((self.begin)()?);
        }
        self.write(&mut state, outputs)
    }

    /// Records everything that is finished, if there is a journal.
    ///
    /// # Errors
    /// Io.
    pub fn record(&self, outputs: &[Arc<StagedFile>]) -> Result<()> {
        self.write(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), outputs)
    }

    fn write(&self, state: &mut State, outputs: &[Arc<StagedFile>]) -> Result<()> {
        let Some(journal) = &mut state.journal else { return Ok(()) };
        let tiles = std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner));
        let recorded = journal.record(outputs, &tiles);
        if recorded.is_err() {
            // They are finished all the same, and may be recorded before the end.
            self.finished.lock().unwrap_or_else(PoisonError::into_inner).extend(tiles);
        }
        recorded
    }
}
