//! A sequence that runs through a compiled program, tokens in, logits out; or several side by side.

use apr_sdk::{
    Batch, Error, Result, Sampler, Session, StateCommand, StateVerb, StepSink, TimingSink, Workers,
};
use std::sync::Arc;

/// The parts of a runner.
pub struct Parts {
    /// The compiled program with its states.
    pub session: Box<dyn Session>,
    /// The threads that steps run on.
    pub workers: Arc<dyn Workers + Send>,
    /// Rows that a step takes at most.
    pub rows: u32,
    /// Positions that the states have room for, in each sequence.
    pub context: u32,
    /// Sequences that the states have room for, at least one.
    pub sequences: u32,
    /// Elements of an output: the vocabulary, or the width of a hidden state.
    pub width: u32,
    /// True if every row attends to all others, so that a text must be one step.
    pub whole: bool,
    /// The value that holds hidden states, for a program that gives these instead of logits.
    pub hidden: Option<u32>,
}

/// A step that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// Position of its first row.
    pub first: u32,
    /// Number of its rows.
    pub rows: usize,
    /// Number of its outputs.
    pub outputs: usize,
}

/// Looks at a runner after each of its steps.
pub type Watch<'w> = &'w mut dyn FnMut(&mut Runner, Stepped) -> Result<()>;

/// A sequence that runs through a program. It remembers how many positions it has seen. Others may go on beside it
/// ([`Runner::feed_together`]).
pub struct Runner {
    parts: Parts,
    /// Number of positions that each sequence has seen, its own before the others.
    positions: Vec<u32>,
    /// The results of the last step, one output after the other.
    outputs: Outputs,
}

/// Collects what a step gives.
#[derive(Default)]
struct Outputs {
    width: usize,
    rows: Vec<f32>,
    token: Option<u32>,
}

impl StepSink for Outputs {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        let place = usize::try_from(output).ok().and_then(|n| n.checked_mul(self.width));
        let row = place.and_then(|at| self.rows.get_mut(at..at + self.width));
        match row.filter(|row| row.len() == logits.len()) {
            Some(row) => row.copy_from_slice(logits),
            None => return Err(Error::plugin("returned logits that were not requested")),
        }
        Ok(())
    }

    fn token(&mut self, _: u32, id: u32) -> Result<()> {
        self.token = Some(id);
        Ok(())
    }
}

impl Runner {
    /// A sequence without tokens.
    pub fn new(parts: Parts) -> Runner {
        let width = usize::try_from(parts.width).unwrap_or(usize::MAX);
        let positions = (0..parts.sequences.max(1)).map(|_| 0).collect();
        Runner { parts, positions, outputs: Outputs { width, ..Outputs::default() } }
    }

    /// The threads that steps run on.
    pub fn workers(&self) -> Arc<dyn Workers + Send> {
        Arc::clone(&self.parts.workers)
    }

    /// Number of tokens it has seen.
    pub fn position(&self) -> u32 {
        self.positions[0]
    }

    /// Number of tokens it can see at most.
    pub fn context(&self) -> u32 {
        self.parts.context
    }

    /// Number of tokens it takes in a step at most.
    pub fn rows(&self) -> usize {
        usize::try_from(self.parts.rows).unwrap_or(usize::MAX)
    }

    /// Elements of an output.
    pub fn width(&self) -> usize {
        self.outputs.width
    }

    /// Appends tokens, and returns the logits after the last of them.
    ///
    /// # Errors
    /// InvalidArgument if there are none, or more than the context has room for; any error from the backend.
    pub fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.feed_watched(ids, &mut |_, _| Ok(()))
    }

    /// As [`Runner::feed`]; after each step, `watch` sees what it left.
    ///
    /// # Errors
    /// As [`Runner::feed`]; any error from `watch`.
    pub fn feed_watched(&mut self, ids: &[u32], watch: Watch<'_>) -> Result<&[f32]> {
        self.check_room(ids)?;
        let step = self.step_rows(ids.len());
        let last = ids.len().div_ceil(step) - 1;
        for (number, some) in ids.chunks(step).enumerate() {
            let wanted = if number == last { vec![row_number(some.len() - 1)] } else { Vec::new() };
            let first = self.positions[0];
            self.step(some, &wanted, None)?;
            watch(self, Stepped { first, rows: some.len(), outputs: wanted.len() })?;
        }
        Ok(&self.outputs.rows)
    }

    /// Appends tokens, and gives the logits after each: its number among `ids`, and its logits.
    ///
    /// # Errors
    /// As [`Runner::feed`]; any error from `give`.
    pub fn feed_all(&mut self, ids: &[u32], give: &mut dyn FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
        self.check_room(ids)?;
        let step = self.step_rows(ids.len());
        let mut number = 0;
        for some in ids.chunks(step) {
            let wanted: Vec<u32> = (0..some.len()).map(row_number).collect();
            self.step(some, &wanted, None)?;
            for logits in self.outputs.rows.chunks_exact(self.outputs.width.max(1)) {
                give(number, logits)?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Appends tokens, and gives the logits after each from number `first` on, several rows at a time: the number of the first
    /// of them among `ids`, and their logits one after the other. No more than `most` rows of logits are held.
    ///
    /// # Errors
    /// As [`Runner::feed`]; any error from `give`.
    pub fn feed_from(
        &mut self,
        ids: &[u32],
        first: usize,
        most: usize,
        give: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        self.check_room(ids)?;
        let (silent, told) = ids.split_at(first.min(ids.len()));
        for some in silent.chunks(self.rows().max(1)) {
            self.step(some, &[], None)?;
        }
        let mut number = silent.len();
        for some in told.chunks(self.rows().min(most).max(1)) {
            let wanted: Vec<u32> = (0..some.len()).map(row_number).collect();
            self.step(some, &wanted, None)?;
            give(number, &self.outputs.rows)?;
            number += some.len();
        }
        Ok(())
    }

    /// Appends tokens in steps, and gives the runner after each, with the step's number of rows, for values to be read. Logits
    /// are computed after every token, or after none.
    ///
    /// # Errors
    /// As [`Runner::feed`]; any error from `give`.
    pub fn feed_steps(
        &mut self,
        ids: &[u32],
        has_logits: bool,
        give: &mut dyn FnMut(&mut Runner, usize) -> Result<()>,
    ) -> Result<()> {
        self.check_room(ids)?;
        for some in ids.chunks(self.step_rows(ids.len())) {
            let wanted: Vec<u32> = (0..if has_logits { some.len() } else { 0 }).map(row_number).collect();
            self.step(some, &wanted, None)?;
            give(self, some.len())?;
        }
        Ok(())
    }

    /// Appends one token, and returns the most likely next one, as the backend chooses it: 4 bytes come back instead
    /// of all logits.
    ///
    /// # Errors
    /// As [`Runner::feed`].
    pub fn feed_greedy(&mut self, id: u32) -> Result<u32> {
        self.check_room(&[id])?;
        self.step(&[id], &[0], Some(Sampler::Greedy))?;
        self.outputs.token.take().ok_or_else(|| Error::plugin("chose no token"))
    }

    /// Appends one token to each of the first sequences in one step, and returns the logits after each, one after the other.
    ///
    /// # Errors
    /// InvalidArgument if there are none, more than there is room for, or the context of one is full; any error from the
    /// backend, after which no sequence has a token more.
    pub fn feed_together(&mut self, ids: &[u32]) -> Result<&[f32]> {
        let most = self.positions.len().min(self.rows());
        if ids.is_empty() || ids.len() > most {
            let message = format!("cannot continue {} sequences: there is only room for {most}", ids.len());
            return Err(Error::invalid_argument(message));
        }
        let positions = self.positions[..ids.len()].to_vec();
        if positions.iter().any(|position| *position >= self.parts.context) {
            let context = self.parts.context;
            let message = format!("the context of a sequence is full ({context} tokens)");
            return Err(Error::invalid_argument(message));
        }
        let numbers: Vec<u32> = (0..ids.len()).map(row_number).collect();
        self.run(&Batch::new(ids, &positions, &numbers, &numbers)?)?;
        self.positions[..ids.len()].iter_mut().for_each(|position| *position += 1);
        Ok(&self.outputs.rows)
    }

    /// The hidden states of a text by itself, for a program without logits: one pooled row, or a row for each token.
    ///
    /// # Errors
    /// As [`Runner::feed`]; InvalidArgument for a program with logits.
    pub fn embed(&mut self, ids: &[u32], rows: usize) -> Result<&[f32]> {
        let hidden = self.parts.hidden;
        let hidden = hidden
            .ok_or_else(|| Error::invalid_argument("the program computes logits, not hidden states"))?;
        self.clear()?;
        self.check_room(ids)?;
        if self.step_rows(ids.len()) < ids.len() {
            let most = self.parts.rows;
            let message =
                format!("the text has {} tokens, more than the limit of {most} for one step", ids.len());
            return Err(Error::invalid_argument(message).hint("shorten the text, or increase --context"));
        }
        let wanted: Vec<u32> = (0..ids.len()).map(row_number).collect();
        self.step(ids, &wanted, None)?;
        self.outputs.rows.resize(rows * self.outputs.width, 0.0);
        self.parts.session.read(hidden, &mut self.outputs.rows)?;
        Ok(&self.outputs.rows)
    }

    /// Forgets the tokens from a position on.
    ///
    /// # Errors
    /// Any error from the backend.
    pub fn trim(&mut self, position: u32) -> Result<()> {
        if position < self.positions[0] {
            self.cut(0, position)?;
            self.positions[0] = position;
        }
        Ok(())
    }

    /// Forgets all tokens of all sequences.
    ///
    /// # Errors
    /// Any error from the backend.
    pub fn clear(&mut self) -> Result<()> {
        for sequence in 0..self.positions.len() {
            if self.positions[sequence] > 0 {
                self.cut(row_number(sequence), 0)?;
                self.positions[sequence] = 0;
            }
        }
        Ok(())
    }

    /// Has the backend forget what a sequence stored from a position on.
    fn cut(&mut self, sequence: u32, position: u32) -> Result<()> {
        let verb = if position == 0 { StateVerb::CLEAR } else { StateVerb::TRIM };
        self.parts.session.state(&StateCommand { verb, sequence, target: 0, position })
    }

    /// A value of the program as the last step left it.
    ///
    /// # Errors
    /// InvalidArgument if there is no such value, or `out` has another length.
    pub fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        self.parts.session.read(value, out)
    }

    /// Gives the duration of each operation of the last step.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        self.parts.session.timings(sink)
    }

    fn check_room(&self, ids: &[u32]) -> Result<()> {
        if ids.is_empty() {
            return Err(Error::invalid_argument("no tokens to run"));
        }
        let room = usize::try_from(self.parts.context - self.positions[0]).unwrap_or(usize::MAX);
        if ids.len() > room {
            let more = ids.len();
            let context = self.parts.context;
            let message = format!(
                "{more} more tokens do not fit in the context of {context}, of which {} are used",
                self.positions[0]
            );
            return Err(Error::invalid_argument(message).hint(format!(
                "pass --context {} or more, or shorten the text",
                u64::from(self.positions[0]) + more as u64
            )));
        }
        Ok(())
    }

    /// Number of so many tokens that go into one step.
    fn step_rows(&self, count: usize) -> usize {
        let most = self.rows().max(1);
        if self.parts.whole { count.min(most) } else { most }
    }

    fn step(&mut self, ids: &[u32], wanted: &[u32], sampler: Option<Sampler>) -> Result<()> {
        let positions: Vec<u32> = (self.positions[0]..).take(ids.len()).collect();
        let sequences = vec![0; ids.len()];
        let mut batch = Batch::new(ids, &positions, &sequences, wanted)?;
        if let Some(sampler) = sampler {
            batch = batch.with_sampler(sampler);
        }
        self.run(&batch)?;
        self.positions[0] += row_number(ids.len());
        Ok(())
    }

    /// Runs a step; one that fails leaves nothing in any sequence.
    fn run(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.outputs.rows.clear();
        self.outputs.rows.resize(batch.outputs().len() * self.outputs.width, 0.0);
        self.outputs.token = None;
        let done = self.parts.session.step(batch, self.parts.workers.as_ref(), &mut self.outputs);
        if done.is_err() {
            // What the step stored of its rows is forgotten with it.
            for (sequence, position) in (0u32..).zip(self.positions.clone()) {
                if batch.sequences().contains(&sequence) {
                    self.cut(sequence, position).ok();
                }
            }
        }
        done
    }
}

/// A row's number; batches are far smaller than 2^32.
fn row_number(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
