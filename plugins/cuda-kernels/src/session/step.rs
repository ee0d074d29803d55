//! What the nodes of a step are given, and what they make of it.

use super::compile::{Cache, Plan};
use super::values::Values;
use crate::driver::{Buffer, Launch};
use crate::parameters::{self, Rounded};
use apr_sdk::{Batch, Columns, Error, Result, RowsOf};

/// A piece of a program: one kernel, or several.
pub(crate) trait Node: Send {
    /// Appends its kernels for a step.
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>);

    /// Checks what only the batch shows.
    ///
    /// # Errors
    /// InvalidArgument for an index that is not there.
    fn check(&self, _batch: &Batch<'_>) -> Result<()> {
        Ok(())
    }

    /// Has it round its result into a slot as well; says whether it can.
    fn round_into(&mut self, _slot: usize) -> bool {
        false
    }

    /// Has it turn and store heads as well; says whether it can.
    fn join(&mut self, _rotate: &crate::operations::rope::Rotate) -> bool {
        false
    }
}

/// The lists of a batch, on the device, one after the other in one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// Token ids.
    Ids,
    /// Positions.
    Positions,
    /// Sequences.
    Sequences,
    /// How many positions each row's sequence has, those of this step included.
    Lengths,
    /// The rows that want output.
    Outputs,
    /// All rows, those of the batch's first sequence first.
    Sorted,
    /// The first row of each sequence.
    Firsts,
    /// The last row of each sequence.
    Lasts,
    /// Where each sequence begins in `Sorted`, and where the last ends.
    Starts,
    /// 0, 1, 2 ...
    Numbers,
}

/// How many lists there are; each has room for one number more than there are rows.
pub(crate) const LISTS: usize = 10;

/// The rows of a step as a session has checked them.
#[derive(Default)]
pub(crate) struct Rows {
    /// The sequences of the batch in the order in which they first come.
    pub(crate) sequences: Vec<usize>,
    /// How many positions each sequence has, those of this step included.
    pub(crate) lengths: Vec<usize>,
    /// The lists' bytes.
    pub(crate) lists: Vec<u8>,
    /// The most positions of a sequence of the batch.
    pub(crate) longest: usize,
}

impl Rows {
    /// Checks the rows' sequences and positions, and makes the lists. `before` has each sequence's positions so far.
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
        let mut places = vec![usize::MAX; before.len()];
        self.sequences.clear();
        self.lengths.clear();
        self.lengths.extend_from_slice(before);
        let mut ordinals = Vec::new();
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
            if places[sequence] == usize::MAX {
                places[sequence] = self.sequences.len();
                self.sequences.push(sequence);
            }
            ordinals.push(places[sequence]);
        }
        self.longest = self.sequences.iter().map(|sequence| self.lengths[*sequence]).max().unwrap_or(0);
        let count = ordinals.len();
        let mut sorted: Vec<usize> = (0..count).collect();
        sorted.sort_by_key(|row| ordinals[*row]);
        let start = |ordinal: usize| sorted.partition_point(|row| ordinals[*row] < ordinal);
        let starts: Vec<usize> = (0..=self.sequences.len()).map(start).collect();
        let numbers = |list: Vec<usize>| list.into_iter().map(short).collect::<Vec<u32>>();
        // In the order of `List`.
        let lists: [Vec<u32>; LISTS] = [
            batch.ids().to_vec(),
            batch.positions().to_vec(),
            batch.sequences().to_vec(),
            batch.sequences().iter().map(|sequence| short(self.lengths[index(*sequence)])).collect(),
            batch.outputs().to_vec(),
            numbers(sorted.clone()),
            numbers(starts.windows(2).map(|pair| sorted[pair[0]]).collect()),
            numbers(starts.windows(2).map(|pair| sorted[pair[1] - 1]).collect()),
            numbers(starts),
            (0..=short(count)).collect(),
        ];
        self.lists.clear();
        for list in lists {
            let end = self.lists.len() + (count + 1) * 4;
            self.lists.extend(list.into_iter().flat_map(u32::to_le_bytes));
            self.lists.resize(end, 0);
        }
        Ok(())
    }
}

/// What the nodes of a step share: counts, and where everything lies on the device.
pub(crate) struct Step<'s> {
    /// Rows of the batch.
    pub(crate) batch: usize,
    /// Rows of outputs.
    pub(crate) outputs: usize,
    /// Whether the batch brings rows of its own.
    pub(crate) is_given: bool,
    /// Into how many runs attention cuts positions.
    pub(crate) splits: usize,
    /// The program.
    pub(crate) plan: &'s Plan,
    /// Whether there are tensor cores.
    pub(crate) has_tensor_cores: bool,
    /// The values.
    pub(crate) values: &'s Values,
    /// The lists of the batch.
    pub(crate) lists: u64,
    /// The rows that the batch brings.
    pub(crate) given: u64,
    /// Codes and records of each slot, or floats.
    pub(crate) slots: &'s [(Buffer, Buffer)],
    /// Room for activations for tensor cores.
    pub(crate) cut: u64,
    /// Room for what their splits leave.
    pub(crate) sums: u64,
    /// The tables of angles.
    pub(crate) angles: &'s [Buffer],
    /// The table of pages, and the pages of a sequence in it.
    pub(crate) pages: (u64, usize),
    /// What attention leaves to its last block, and how many blocks have ended.
    pub(crate) partials: (u64, u64),
}

/// Rows that are multiplied one by one; more are taken together on tensor cores.
pub(crate) const FEW: usize = 8;

impl Step<'_> {
    /// How many rows of a kind there are.
    pub(crate) fn count(&self, rows: RowsOf) -> usize {
        if rows == RowsOf::OUTPUTS { self.outputs } else { self.batch }
    }

    /// Whether products with so many rows are taken on tensor cores.
    pub(crate) fn is_many(&self, rows: usize) -> bool {
        self.has_tensor_cores && rows > FEW
    }

    /// Whether a slot with rows of a kind is read in this step.
    pub(crate) fn needs(&self, slot: usize, rows: RowsOf) -> bool {
        self.plan.slots[slot].is_always || !self.is_many(self.count(rows))
    }

    /// The address of a list.
    pub(crate) fn list(&self, list: List) -> u64 {
        self.lists + (list as usize * (self.batch + 1) * 4) as u64
    }

    /// A place as the kernels take it.
    pub(crate) fn place(&self, place: &Columns) -> parameters::Place {
        let (at, width) = self.values.at(place.value);
        parameters::Place {
            at: at + (place.first * 4) as u64,
            stride: short(width),
            width: short(place.width),
        }
    }

    /// A place that need not be there.
    pub(crate) fn place_or_none(&self, place: Option<&Columns>) -> parameters::Place {
        place.map(|place| self.place(place)).unwrap_or_default()
    }

    /// A slot as the kernels take it.
    pub(crate) fn slot(&self, slot: usize) -> Rounded {
        let (codes, records) = &self.slots[slot];
        let stride = short(self.plan.slots[slot].columns);
        Rounded { codes: codes.at(), records: records.at(), stride, pad: 0 }
    }

    /// A state as the kernels take it.
    pub(crate) fn cache(&self, cache: &Cache) -> parameters::Cache {
        let (pages, most) = self.pages;
        parameters::Cache { pages, most_pages: short(most), ..cache.parameters }
    }
}

/// A number as an index.
pub(crate) fn index(number: u32) -> usize {
    // Processors with fewer than 32 bits of address have no models.
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A number as kernels count; `compile` and `layout` let none through that is larger.
pub(crate) fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A kernel with its parameters, of the operation that the session fills in.
pub(crate) fn launch(
    (module, kernel): (&'static str, &'static str),
    grid: [usize; 3],
    threads: usize,
    parameters: &impl bytemuck::Pod,
) -> Launch {
    Launch {
        kernel,
        module,
        grid: grid.map(short),
        threads: short(threads),
        parameters: parameters::bytes(parameters),
        operation: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_must_follow_what_is_there() {
        let mut rows = Rows::default();
        let batch = Batch::new(&[1, 2, 3], &[4, 5, 0], &[0, 0, 1], &[]).unwrap();
        rows.set(&batch, &[4, 0], 8, true).unwrap();
        assert_eq!((rows.lengths.as_slice(), rows.longest), ([6, 1].as_slice(), 6));
        assert!(rows.set(&batch, &[3, 0], 8, true).is_err());
        assert!(rows.set(&batch, &[3, 0], 8, false).is_ok());
        assert!(rows.set(&batch, &[4, 0], 5, true).unwrap_err().message().contains("position 5"));
        assert!(rows.set(&batch, &[4], 8, true).unwrap_err().message().contains("sequence 1"));
    }
}
