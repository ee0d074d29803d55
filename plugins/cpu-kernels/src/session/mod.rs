//! A compiled program with its states.

pub(crate) mod cache;
pub(crate) mod compile;
mod region;
pub(crate) mod shared;
pub(crate) mod step;
pub(crate) mod values;

use crate::level::Level;
use crate::matrix::{Activations, Matrix};
use crate::operations::attention::Scratch;
use crate::operations::sample;
use apr_sdk::{
    Batch, CheckedProgram, Error, Result, RowsOf, Sampler, SessionLimits, StateCommand, StateVerb, StepSink,
    TimingSink, WeightShape, Workers,
};
use cache::{Cache, Pages};
use compile::Plan;
use region::{Gate, Region};
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;
use step::{Division, Rows, Step, index};
use values::Values;

/// The most sequences of a session: each costs a little memory and time per step, even when it is not in the batch.
const MOST_SEQUENCES: u32 = 1 << 16;

/// What a sequence has kept: its length, and its pages in every cache.
type Kept = (usize, Vec<Pages>);

/// A compiled program.
pub(crate) struct Session {
    level: Level,
    plan: Plan,
    values: Values,
    caches: Vec<Cache>,
    /// How many positions each sequence has.
    lengths: Vec<usize>,
    snapshots: BTreeMap<u32, Kept>,
    /// Room for rows and positions.
    most_rows: usize,
    most_positions: usize,
    /// The last step's rows of a batch and of outputs.
    last: (usize, usize),
    rows: Rows,
    activations: Vec<Activations>,
    angles: Vec<Shared<f32>>,
    assignments: Vec<RwLock<Vec<(u32, u32)>>>,
    scratch: Vec<Mutex<Scratch>>,
    exchange: Shared<f32>,
    /// Nanoseconds of each operation in the last step.
    times: Vec<AtomicU64>,
}

impl Session {
    /// Compiles a program over weights.
    ///
    /// # Errors
    /// As [`apr_sdk::Device::compile`].
    pub(crate) fn new(
        level: Level,
        program: &[u8],
        weights: &[Arc<Matrix>],
        limits: &SessionLimits,
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
        if limits.sequences > MOST_SEQUENCES {
            return Err(Error::limit(format!(
                "a session can have at most {MOST_SEQUENCES} sequences, not {}",
                limits.sequences
            ))
            .hint("open several sessions"));
        }
        let shapes: Vec<WeightShape> = weights.iter().map(|matrix| compile::shape(matrix)).collect();
        let program = CheckedProgram::from_bytes(program, &shapes)?;
        let (values, caches, plan) = compile::compile(&program, weights)?;
        Ok(Session {
            level,
            values,
            caches,
            lengths: vec![0; index(limits.sequences)],
            snapshots: BTreeMap::new(),
            most_rows: index(limits.rows),
            most_positions: index(limits.positions),
            last: (0, 0),
            rows: Rows::default(),
            activations: Vec::new(),
            angles: Vec::new(),
            assignments: (0..plan.assignments).map(|_| RwLock::default()).collect(),
            scratch: Vec::new(),
            exchange: Shared::zeroed(0)?,
            times: (0..plan.operations).map(|_| AtomicU64::new(0)).collect(),
            plan,
        })
    }

    /// Makes room for a step. Memory grows only where a step is larger than all before, or a cache needs a page.
    fn reserve(&mut self, batch: usize, outputs: usize, workers: usize) -> Result<()> {
        self.values.reserve(batch, outputs)?;
        let most = batch.max(outputs);
        for (number, slot) in self.plan.slots.iter().enumerate() {
            let rows = most * slot.per_row;
            match self.activations.get_mut(number) {
                Some(activations) if activations.tokens() >= rows => {}
                Some(activations) => *activations = Activations::new(slot.rounding, slot.columns, rows)?,
                None => self.activations.push(Activations::new(slot.rounding, slot.columns, rows)?),
            }
        }
        for (number, angles) in self.plan.angles.iter().enumerate() {
            let elements = batch * 2 * angles.frequencies.len();
            match self.angles.get_mut(number) {
                Some(table) if table.len() >= elements => {}
                Some(table) => *table = Shared::zeroed(elements)?,
                None => self.angles.push(Shared::zeroed(elements)?),
            }
        }
        while self.scratch.len() < workers {
            self.scratch.push(Mutex::default());
        }
        for attention in &self.plan.attentions {
            for scratch in &self.scratch[..workers] {
                attention.reserve(&mut step::lock(scratch))?;
            }
            let elements = attention.exchanges(&self.rows.blocks, &self.rows.lengths, workers);
            if self.exchange.len() < elements {
                self.exchange = Shared::zeroed(elements)?;
            }
        }
        if self.plan.cached {
            for cache in self.caches.iter_mut().filter(|cache| cache.views.is_some()) {
                for sequence in &self.rows.sequences {
                    cache.reserve(*sequence, self.lengths[*sequence], self.rows.lengths[*sequence])?;
                }
            }
        }
        Ok(())
    }

    /// One worker's way through all tasks.
    fn work(&self, step: &Step<'_>, worker: usize, gate: &mut Gate<'_>) -> Result<()> {
        let mut since = Instant::now();
        let mut tasks = self.plan.tasks.iter().filter(|(_, task)| !task.is_idle(step)).peekable();
        while let Some((operation, task)) = tasks.next() {
            task.run(step, worker)?;
            let apart = |next: &Division| *next == Division::Other || *next != task.division();
            if tasks.peek().is_some_and(|(_, next)| apart(&next.division())) {
                gate.wait()?;
            }
            if worker == 0 {
                let now = Instant::now();
                let nanoseconds = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
                self.times[*operation].fetch_add(nanoseconds, Ordering::Relaxed);
                since = now;
            }
        }
        Ok(())
    }

    /// Gives the sink its logits or tokens.
    fn give(&mut self, batch: &Batch<'_>, outputs: usize, out: &mut dyn StepSink) -> Result<()> {
        let Some(place) = self.plan.logits else { return Ok(()) };
        let width = self.values.shape(place.value).map_or(0, |(width, _)| width);
        // Pooled outputs are sequences; those of the batch's own rows are what it wants, whatever else was pooled.
        let pooled = place.rows == RowsOf::OUTPUTS;
        let (rows, given) =
            if pooled { (outputs, outputs) } else { (batch.ids().len(), batch.outputs().len()) };
        let value = self.values.rows(place.value, rows);
        for (output, number) in (0u32..).zip(0..given) {
            let row = if pooled { number } else { index(batch.outputs()[number]) };
            let logits = &value[row * width + place.first..][..place.width];
            match batch.sampler() {
                None => out.logits(output, logits)?,
                Some(Sampler::Greedy) => out.token(output, sample::greedy(self.level, logits)?)?,
                Some(_) => return Err(Error::unsupported("unknown way of choosing tokens")),
            }
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
        (self.lengths[sequence], self.caches.iter().map(|cache| cache.pages(sequence)).collect())
    }

    fn put_back(&mut self, sequence: usize, (length, pages): Kept) {
        self.lengths[sequence] = length;
        for (cache, pages) in self.caches.iter_mut().zip(pages) {
            cache.set_pages(sequence, pages);
        }
    }

    fn trim(&mut self, sequence: usize, length: usize) {
        if length < self.lengths[sequence] {
            self.lengths[sequence] = length;
        }
        let length = self.lengths[sequence];
        self.caches.iter_mut().for_each(|cache| cache.trim(sequence, length));
    }
}

impl apr_sdk::Session for Session {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        let count = batch.ids().len();
        if count > self.most_rows {
            return Err(Error::invalid_argument(format!(
                "the batch has {count} rows, but the session has room for only {}",
                self.most_rows
            ))
            .hint("split them into several steps"));
        }
        self.rows.set(batch, &self.lengths, self.most_positions, self.plan.cached)?;
        let outputs = if self.plan.pooled { self.rows.sequences.len() } else { batch.outputs().len() };
        let width = workers.width().max(1);
        let region = Region::new(width)?;
        self.last = (0, 0);
        self.reserve(count, outputs, width)?;
        self.times.iter().for_each(|time| time.store(0, Ordering::Relaxed));
        let step = Step {
            level: self.level,
            workers: width,
            batch,
            outputs,
            values: &self.values,
            activations: &self.activations,
            angles: &self.angles,
            caches: &self.caches,
            lengths: &self.rows.lengths,
            blocks: &self.rows.blocks,
            checked: &self.rows,
            assignments: &self.assignments,
            scratch: &self.scratch,
            exchange: &self.exchange,
            linears: &self.plan.linears,
        };
        workers
            .run(&|worker, barrier| region.enter(worker, barrier, |gate| self.work(&step, worker, gate)))?;
        region.end()?;
        if self.plan.cached {
            self.lengths.copy_from_slice(&self.rows.lengths);
        }
        self.last = (count, outputs);
        self.give(batch, outputs, out)
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
        out.copy_from_slice(self.values.rows(number, count));
        Ok(())
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        for (operation, time) in (0u32..).zip(&self.times) {
            sink.timing(operation, time.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}
