//! One step: what every task can see, and how work is divided.
//!
//! Work is divided into units that never depend on the number of workers (a row, a tile of 16 matrix rows, a head and a
//! run of positions), and each unit is computed in one order: so the number of workers changes no bit of the result.

use super::cache::Cache;
use super::values::Values;
use crate::level::Level;
use crate::matrix::Activations;
use crate::operations::attention::Scratch;
use crate::operations::linear::Linear;
use crate::session::shared::Shared;
use apr_sdk::{Batch, Error, Result, RowsOf};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// How a task's work falls to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// Each worker takes a run of rows, and reads and writes nothing but these rows' elements. Two such tasks in a row
    /// need no barrier between them.
    Rows(RowsOf),
    /// In another way.
    Other,
}

/// A piece of a program between two barriers.
pub(crate) trait Task: Send + Sync {
    /// How its work is divided.
    fn division(&self) -> Division;

    /// Whether it has nothing to do in this step; all workers find the same.
    fn is_idle(&self, _step: &Step<'_>) -> bool {
        false
    }

    /// Does one worker's share.
    ///
    /// # Errors
    /// What only the data shows; the step ends.
    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()>;
}

/// Consecutive rows of a batch that belong to one sequence: what attention takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first row.
    pub(crate) first: usize,
    /// How many rows.
    pub(crate) rows: usize,
    /// Their sequence.
    pub(crate) sequence: usize,
}

/// What the tasks of a step share.
pub(crate) struct Step<'s> {
    /// The instructions to use.
    pub(crate) level: Level,
    /// How many workers there are.
    pub(crate) workers: usize,
    /// The batch.
    pub(crate) batch: &'s Batch<'s>,
    /// How many rows the values of outputs have.
    pub(crate) outputs: usize,
    /// The values.
    pub(crate) values: &'s Values,
    /// Quantized inputs of matrices, by slot.
    pub(crate) activations: &'s [Activations],
    /// Cosines and sines, by table.
    pub(crate) angles: &'s [Shared<f32>],
    /// The caches, by state.
    pub(crate) caches: &'s [Cache],
    /// How many positions each sequence has, those of this step included.
    pub(crate) lengths: &'s [usize],
    /// The batch in blocks.
    pub(crate) blocks: &'s [Block],
    /// The batch's rows by their sequences.
    pub(crate) checked: &'s Rows,
    /// For each route: the rows of chosen experts, ordered by expert.
    pub(crate) assignments: &'s [RwLock<Vec<(u32, u32)>>],
    /// Each worker's own memory for attention.
    pub(crate) scratch: &'s [Mutex<Scratch>],
    /// What attention's first task leaves to its second.
    pub(crate) exchange: &'s Shared<f32>,
    /// All matrices' tasks in the order in which they run.
    pub(crate) linears: &'s [Arc<Linear>],
}

impl Step<'_> {
    /// How many rows of a kind there are.
    pub(crate) fn count(&self, rows: RowsOf) -> usize {
        if rows == RowsOf::OUTPUTS { self.outputs } else { self.batch.ids().len() }
    }

    /// One worker's run of `units`.
    pub(crate) fn share(&self, units: usize, worker: usize) -> Range<usize> {
        share(units, worker, self.workers)
    }

    /// One worker's rows of a kind.
    pub(crate) fn rows(&self, rows: RowsOf, worker: usize) -> Range<usize> {
        self.share(self.count(rows), worker)
    }

    /// A list of chosen experts.
    pub(crate) fn list(&self, list: usize) -> RwLockReadGuard<'_, Vec<(u32, u32)>> {
        self.assignments[list].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row's position.
    pub(crate) fn position(&self, row: usize) -> usize {
        index(self.batch.positions()[row])
    }

    /// A row's sequence.
    pub(crate) fn sequence(&self, row: usize) -> usize {
        index(self.batch.sequences()[row])
    }
}

/// The `worker`-th of `workers` nearly equal runs of `units`.
pub(crate) fn share(units: usize, worker: usize, workers: usize) -> Range<usize> {
    units * worker / workers..units * (worker + 1) / workers
}

/// A number as an index.
pub(crate) fn index(number: u32) -> usize {
    // Processors with fewer than 32 bits of address have no models.
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Locks; what a worker that panicked left behind is overwritten by whoever comes next.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rows of a step as a session has checked them.
#[derive(Default)]
pub(crate) struct Rows {
    /// The batch in blocks.
    pub(crate) blocks: Vec<Block>,
    /// The place of each row's sequence among those of the batch.
    ordinals: Vec<usize>,
    /// All rows, those of the batch's first sequence first, each sequence's in the order of the batch.
    sorted: Vec<usize>,
    /// The place of each sequence among those of the batch; beyond them all if it is not there.
    places: Vec<usize>,
    /// The sequences of the batch in the order in which they first come.
    pub(crate) sequences: Vec<usize>,
    /// How many positions each sequence has, those of this step included.
    pub(crate) lengths: Vec<usize>,
}

/// The most rows in a block.
pub(crate) const BLOCK_ROWS: usize = 8;

impl Rows {
    /// Checks the rows' sequences and positions. `before` has each sequence's positions so far.
    ///
    /// # Errors
    /// InvalidArgument for a sequence or position beyond the limits, or, if `cached`, one that does not follow those
    /// before.
    pub(crate) fn set(
        &mut self,
        batch: &Batch<'_>,
        before: &[usize],
        positions: usize,
        cached: bool,
    ) -> Result<()> {
        self.blocks.clear();
        self.ordinals.clear();
        self.places.clear();
        self.places.resize(before.len(), usize::MAX);
        self.sequences.clear();
        self.lengths.clear();
        self.lengths.extend_from_slice(before);
        for (row, (sequence, position)) in batch.sequences().iter().zip(batch.positions()).enumerate() {
            let (sequence, position) = (index(*sequence), index(*position));
            let Some(length) = self.lengths.get_mut(sequence) else {
                return Err(Error::invalid_argument(format!(
                    "row {row} belongs to sequence {sequence}, but the session has room for {} sequences",
                    before.len()
                )));
            };
            if position >= positions {
                return Err(Error::invalid_argument(format!(
                    "row {row} has position {position}, but the session has room for {positions} positions"
                ))
                .hint("open the session with a longer context"));
            }
            if cached && position != *length {
                return Err(Error::invalid_argument(format!(
                    "row {row} has position {position}, but sequence {sequence} continues at {length}"
                ))
                .hint("trim the sequence to go back, and pass its rows without gaps"));
            }
            *length = position + 1;
            match self.blocks.last_mut() {
                Some(block) if block.sequence == sequence && block.rows < BLOCK_ROWS => block.rows += 1,
                _ => self.blocks.push(Block { first: row, rows: 1, sequence }),
            }
            if self.places[sequence] == usize::MAX {
                self.places[sequence] = self.sequences.len();
                self.sequences.push(sequence);
            }
            self.ordinals.push(self.places[sequence]);
        }
        self.sorted.clear();
        self.sorted.extend(0..self.ordinals.len());
        self.sorted.sort_unstable_by_key(|row| (self.ordinals[*row], *row));
        Ok(())
    }

    /// The rows of the batch's `ordinal`-th sequence, in order.
    pub(crate) fn of_sequence(&self, ordinal: usize) -> &[usize] {
        let before = |ordinal| self.sorted.partition_point(|row| self.ordinals[*row] < ordinal);
        &self.sorted[before(ordinal)..before(ordinal + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_units_once() {
        for (units, workers) in [(0, 3), (1, 2), (7, 3), (16, 5)] {
            let all: Vec<usize> = (0..workers).flat_map(|worker| share(units, worker, workers)).collect();
            assert_eq!(all, (0..units).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_must_follow_what_is_there() {
        let mut rows = Rows::default();
        let batch = Batch::new(&[1, 2, 3], &[4, 5, 0], &[0, 0, 1], &[]).unwrap();
        rows.set(&batch, &[4, 0], 8, true).unwrap();
        assert_eq!((rows.lengths.as_slice(), rows.blocks.len()), ([6, 1].as_slice(), 2));
        assert_eq!([rows.of_sequence(0), rows.of_sequence(1)], [&[0, 1][..], &[2]]);
        assert!(rows.set(&batch, &[3, 0], 8, true).is_err());
        assert!(rows.set(&batch, &[3, 0], 8, false).is_ok());
        assert!(rows.set(&batch, &[4, 0], 5, true).unwrap_err().message().contains("position 5"));
        assert!(rows.set(&batch, &[4], 8, true).unwrap_err().message().contains("sequence 1"));
    }
}
