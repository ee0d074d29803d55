//! A compiled program with its states.

pub(crate) mod compile;
mod graphs;
mod pages;
pub(crate) mod step;
pub(crate) mod values;

use crate::device::Matrix;
use crate::driver::{Buffer, Driver, Launch, Queue};
use crate::operations::{attention, linear::SUMS_BYTES, sample};
use apr_sdk::{
    Batch, CheckedProgram, Error, Result, RowsOf, Sampler, SessionLimits, StateCommand, StateVerb, StepSink,
    TimingSink, WeightShape, Workers,
};
use compile::Plan;
use graphs::{Form, Graphs};
use pages::{Pages, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use step::{FEW, Rows, Step, index};
use values::Values;

/// The most sequences of a session: each costs a little memory and time per step, even when it is not in the batch.
const MOST_SEQUENCES: u32 = 1 << 16;
/// The most rows of a step: so many blocks fit a launch.
const MOST_ROWS: u32 = 65_535;
/// Blocks of attention that a device is kept busy with.
const BUSY: usize = 512;

/// What a sequence has kept: its length and its pages.
type Kept = (usize, Pages);

/// A compiled program.
pub(crate) struct Session {
    // Graphs and the queue go first, before the memory that they use.
    graphs: Graphs,
    queue: Box<dyn Queue>,
    driver: Arc<dyn Driver>,
    plan: Plan,
    values: Values,
    store: Store,
    /// How many positions each sequence has.
    lengths: Vec<usize>,
    snapshots: BTreeMap<u32, Kept>,
    /// Room for rows and positions.
    most_rows: usize,
    most_positions: usize,
    /// The last step's rows of a batch and of outputs.
    last: (usize, usize),
    rows: Rows,
    room: Room,
    is_timed: bool,
    /// Nanoseconds of each operation in the last step.
    times: Vec<u64>,
    /// The matrices that kernels read.
    _weights: Vec<Arc<Matrix>>,
}

/// Memory for the largest step so far.
struct Room {
    lists: Buffer,
    given: Buffer,
    slots: Vec<(Buffer, Buffer)>,
    cut: Buffer,
    sums: Buffer,
    angles: Vec<Buffer>,
    partials: Buffer,
    counters: Buffer,
    sampled: sample::Room,
}

impl Session {
    /// Compiles a program over weights.
    ///
    /// # Errors
    /// As [`apr_sdk::Device::compile`].
    pub(crate) fn new(
        driver: &Arc<dyn Driver>,
        program: &[u8],
        weights: &[Arc<Matrix>],
        limits: &SessionLimits,
        is_timed: bool,
    ) -> Result<Session> {
        for (what, limit) in
            [("rows", limits.rows), ("sequences", limits.sequences), ("positions", limits.positions)]
        {
            if limit == 0 {
                return Err(Error::invalid_argument(format!(
                    "the number of {what} in a session must be at least 1"
                )));
            }
        }
        for (what, limit, most) in
            [("sequences", limits.sequences, MOST_SEQUENCES), ("rows", limits.rows, MOST_ROWS)]
        {
            if limit > most {
                return Err(Error::limit(format!("a session can have at most {most} {what}, not {limit}")));
            }
        }
        let shapes: Vec<WeightShape> = weights.iter().map(|matrix| matrix.shape()).collect();
        let program = CheckedProgram::from_bytes(program, &shapes)?;
        let (values, plan) = compile::compile(driver, &program, weights)?;
        let (sequences, positions) = (index(limits.sequences), index(limits.positions));
        let page_bytes = if plan.cached { plan.page_bytes } else { 0 };
        let none = || Buffer::new(driver, 0);
        let slots = plan.slots.iter().map(|_| Ok((none()?, none()?))).collect::<Result<_>>()?;
        let angles = plan.angles.iter().map(|_| none()).collect::<Result<_>>()?;
        let room = Room {
            lists: none()?,
            given: none()?,
            slots,
            cut: none()?,
            sums: none()?,
            angles,
            partials: none()?,
            counters: none()?,
            sampled: sample::Room::new(driver)?,
        };
        Ok(Session {
            graphs: Graphs::default(),
            queue: driver.queue()?,
            driver: Arc::clone(driver),
            values,
            store: Store::new(driver, page_bytes, sequences, positions)?,
            lengths: vec![0; sequences],
            snapshots: BTreeMap::new(),
            most_rows: index(limits.rows),
            most_positions: positions,
            last: (0, 0),
            rows: Rows::default(),
            room,
            is_timed,
            times: vec![0; plan.operations],
            _weights: weights.to_vec(),
            plan,
        })
    }

    /// Into how many runs attention cuts the positions of a step.
    fn splits(&self, rows: usize) -> usize {
        let blocks =
            self.plan.attentions.iter().map(|attention| attention.blocks()).min().unwrap_or(1) * rows;
        attention::runs(self.rows.longest, BUSY / blocks.max(1))
    }

    /// Makes room for a step. Memory grows only where a step is larger than all before, or a sequence needs a page.
    fn reserve(&mut self, batch: &Batch<'_>, outputs: usize, splits: usize) -> Result<()> {
        let (rows, driver) = (batch.ids().len(), &self.driver);
        let mut moved = self.values.reserve(driver, &mut *self.queue, rows, outputs)?;
        let most = rows.max(outputs);
        for (slot, (codes, records)) in self.plan.slots.iter().zip(&mut self.room.slots) {
            let elements = most.saturating_mul(slot.per_row).saturating_mul(slot.columns);
            if slot.is_rounded {
                moved |= codes.grow(elements)?;
                moved |= records.grow(elements / 32 * 8)?;
            } else {
                moved |= codes.grow(elements.saturating_mul(4))?;
            }
        }
        if driver.has_tensor_cores() && most > FEW {
            moved |= self.room.cut.grow(most.saturating_mul(self.plan.cut_bytes))?;
            moved |= self.room.sums.grow(SUMS_BYTES)?;
        }
        for (angles, buffer) in self.plan.angles.iter().zip(&mut self.room.angles) {
            moved |= buffer.grow(rows * 2 * angles.pairs * 4)?;
        }
        moved |= self.room.lists.grow(self.rows.lists.len())?;
        moved |= self.room.given.grow(batch.rows().map_or(0, |given| given.len() * 4))?;
        for attention in &self.plan.attentions {
            let (partials, counters) = attention.room(rows, splits);
            moved |= self.room.partials.grow(partials)?;
            moved |= self.room.counters.grow_with_zeros(counters, &mut *self.queue)?;
        }
        moved |= self.room.sampled.reserve(outputs.max(batch.outputs().len()), &mut *self.queue)?;
        if moved {
            // Recorded kernels know the old places.
            self.graphs.clear();
        }
        if self.plan.cached {
            for sequence in &self.rows.sequences {
                let (from, to) = (self.lengths[*sequence], self.rows.lengths[*sequence]);
                self.store.reserve(&mut *self.queue, *sequence, from, to)?;
            }
        }
        Ok(())
    }

    /// The kernels of a step.
    fn launches(&self, (rows, outputs, splits, is_given, tokens): Form) -> Vec<Launch> {
        let step = Step {
            batch: rows,
            outputs,
            is_given,
            splits,
            plan: &self.plan,
            has_tensor_cores: self.driver.has_tensor_cores(),
            values: &self.values,
            lists: self.room.lists.at(),
            given: self.room.given.at(),
            slots: &self.room.slots,
            cut: self.room.cut.at(),
            sums: self.room.sums.at(),
            angles: &self.room.angles,
            pages: self.store.table(),
            partials: (self.room.partials.at(), self.room.counters.at()),
        };
        let mut launches = Vec::new();
        for (operation, node) in &self.plan.nodes {
            let before = launches.len();
            node.launch(&step, &mut launches);
            launches[before..].iter_mut().for_each(|launch| launch.operation = *operation);
        }
        if let Some(place) = self.plan.logits.filter(|_| tokens > 0) {
            let mut launch = sample::greedy(&step, &place, &self.room.sampled, tokens);
            launch.operation = self.plan.operations.saturating_sub(1);
            launches.push(launch);
        }
        launches
    }

    /// Runs kernels: few rows as a graph that is recorded once, many as they are.
    fn run(&mut self, form: Form) -> Result<()> {
        self.times.fill(0);
        if let Some(graph) = self.graphs.find(form) {
            // SAFETY: the graph is of this queue, and is dropped before any memory that it uses.
            return unsafe { self.queue.replay(graph) };
        }
        let launches = self.launches(form);
        if self.is_timed {
            // SAFETY: nodes give kernels their own parameters, over memory that this session holds and waits for.
            let times = unsafe { self.queue.time(&launches)? };
            for (launch, time) in launches.iter().zip(times) {
                self.times[launch.operation] += time;
            }
        } else if form.0 <= FEW {
            // SAFETY: as above, and for as long as the graph is kept.
            let graph = unsafe { self.queue.record(&launches)? };
            // SAFETY: as above.
            unsafe { self.queue.replay(&*graph)? };
            self.graphs.keep(form, graph);
        } else {
            // SAFETY: as above.
            unsafe { self.queue.run(&launches)? };
        }
        Ok(())
    }

    /// Gives the sink its logits or tokens.
    fn give(&mut self, batch: &Batch<'_>, outputs: usize, out: &mut dyn StepSink) -> Result<()> {
        let Some(place) = self.plan.logits else { return self.queue.wait() };
        // Pooled outputs are sequences; those of the batch's own rows are what it wants, whatever else was pooled.
        let is_pooled = place.rows == RowsOf::OUTPUTS;
        let given = if is_pooled { outputs } else { batch.outputs().len() };
        if batch.sampler().is_some() {
            let ids = self.room.sampled.ids(&mut *self.queue, given)?;
            return (0u32..).zip(ids).try_for_each(|(output, id)| out.token(output, sample::checked(id)?));
        }
        let (at, width) = self.values.at(place.value);
        let mut logits = vec![0f32; place.width];
        if given == 0 {
            return self.queue.wait();
        }
        for (output, number) in (0u32..).zip(0..given) {
            let row = if is_pooled { number } else { index(batch.outputs()[number]) };
            let from = at + ((row * width + place.first) * 4) as u64;
            // SAFETY: the value has this row, and its kernels have ended.
            unsafe { self.queue.download(from, bytemuck::cast_slice_mut(&mut logits))? };
            out.logits(output, &logits)?;
        }
        Ok(())
    }

    /// A sequence's number as an index.
    fn sequence(&self, sequence: u32) -> Result<usize> {
        let number = index(sequence);
        if number >= self.lengths.len() {
            let room = self.lengths.len();
            return Err(Error::invalid_argument(format!(
                "sequence {sequence} does not exist: the session has room for {room} sequences"
            )));
        }
        Ok(number)
    }

    fn keep(&self, sequence: usize) -> Kept {
        (self.lengths[sequence], self.store.pages(sequence))
    }

    fn put_back(&mut self, sequence: usize, (length, pages): Kept) {
        self.lengths[sequence] = length;
        self.store.set_pages(sequence, pages);
    }

    fn trim(&mut self, sequence: usize, length: usize) {
        let length = length.min(self.lengths[sequence]);
        self.lengths[sequence] = length;
        self.store.trim(sequence, length);
    }
}

impl apr_sdk::Session for Session {
    fn step(&mut self, batch: &Batch<'_>, _: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        let count = batch.ids().len();
        if count > self.most_rows {
            return Err(Error::invalid_argument(format!(
                "the batch has {count} rows, but the session has room for only {}",
                self.most_rows
            ))
            .hint("split them into several steps"));
        }
        if !matches!(batch.sampler(), None | Some(Sampler::Greedy)) {
            return Err(Error::unsupported("unknown way of choosing tokens"));
        }
        self.rows.set(batch, &self.lengths, self.most_positions, self.plan.cached)?;
        self.plan.nodes.iter().try_for_each(|(_, node)| node.check(batch))?;
        let outputs = if self.plan.pooled { self.rows.sequences.len() } else { batch.outputs().len() };
        let splits = self.splits(count);
        self.last = (0, 0);
        if let Err(error) = self.reserve(batch, outputs, splits) {
            // Some memory may have moved before the rest could not be had, and recorded kernels know its old place.
            self.graphs.clear();
            return Err(error);
        }
        // SAFETY: both buffers were made large enough.
        unsafe {
            self.queue.upload(self.room.lists.at(), &self.rows.lists)?;
            if let Some(given) = batch.rows() {
                self.queue.upload(self.room.given.at(), bytemuck::cast_slice(given))?;
            }
        }
        let is_pooled = self.plan.logits.is_some_and(|place| place.rows == RowsOf::OUTPUTS);
        let given = if is_pooled { outputs } else { batch.outputs().len() };
        let tokens = batch.sampler().map_or(0, |_| given);
        self.run((count, outputs, splits, batch.rows().is_some(), tokens))?;
        self.give(batch, outputs, out)?;
        if self.plan.cached {
            self.lengths.copy_from_slice(&self.rows.lengths);
        }
        self.last = (count, outputs);
        Ok(())
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        let sequence = self.sequence(command.sequence)?;
        match command.verb {
            StateVerb::COPY => {
                let target = self.sequence(command.target)?;
                let kept = self.keep(sequence);
                self.put_back(target, kept);
            }
            StateVerb::TRIM => self.trim(sequence, index(command.position)),
            StateVerb::CLEAR => self.trim(sequence, 0),
            StateVerb::SNAPSHOT => {
                let kept = self.keep(sequence);
                self.snapshots.insert(command.target, kept);
            }
            StateVerb::RESTORE => {
                let kept = self.snapshots.get(&command.target).cloned().ok_or_else(|| {
                    Error::invalid_argument(format!("no saved state has number {}", command.target))
                })?;
                self.put_back(sequence, kept);
            }
            other => {
                let name = other.name();
                return Err(Error::unsupported(format!("unknown command `{name}`")));
            }
        }
        Ok(())
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        let number = index(value);
        let Some((width, rows)) = self.values.shape(number) else {
            return Err(Error::invalid_argument(format!("value {value} does not exist")));
        };
        let count = if rows == RowsOf::OUTPUTS { self.last.1 } else { self.last.0 };
        if out.len() != count * width {
            return Err(Error::invalid_argument(format!(
                "value {value} has {count} rows of {width} elements, expected {} elements",
                out.len()
            )));
        }
        if out.is_empty() {
            return Ok(());
        }
        // SAFETY: the value has so many rows, and their kernels have ended.
        unsafe { self.queue.download(self.values.at(number).0, bytemuck::cast_slice_mut(out)) }
    }

    /// Of a device that was opened with `timings=on`; without, times are zero.
    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        (0u32..).zip(&self.times).try_for_each(|(operation, time)| sink.timing(operation, *time))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Kernels of a step that failed may still run.
        let _ = self.queue.wait();
    }
}
