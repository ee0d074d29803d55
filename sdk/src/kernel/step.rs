//! Inputs and outputs of a step, and the threads that a step runs on.

use super::fields::Field;
use super::numbers::{SamplerCode, StateVerb};
use crate::{Error, Options, Result};

/// The capacity of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Rows in a step.
    pub rows: u32,
    /// Sequences at the same time; their numbers are below this.
    pub sequences: u32,
    /// Positions of each sequence; positions are below this.
    pub positions: u32,
    /// The backend's own options.
    pub options: Options,
}

impl SessionLimits {
    /// Room for `rows` rows in a step, and `sequences` sequences of `positions` positions.
    pub fn new(rows: u32, sequences: u32, positions: u32) -> SessionLimits {
        SessionLimits { rows, sequences, positions, options: Options::new() }
    }
}

/// The way a device chooses tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sampler {
    /// The largest logit; the lowest id of equal ones.
    Greedy,
}

impl Sampler {
    /// The sampler as a record `(number u32, version u16, length u32, fields)`.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Sampler::Greedy => SamplerCode::GREEDY.put(&mut out),
        }
        1u16.put(&mut out);
        0u32.put(&mut out);
        out
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Unsupported for an unknown sampler; InvalidArgument for bytes that are none.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Sampler> {
        let rest = &mut bytes;
        let code = SamplerCode::take(rest)?;
        let version = u16::take(rest)?;
        let length = u32::take(rest)?;
        match (code, version, length) {
            (SamplerCode::GREEDY, 1, 0) if rest.is_empty() => Ok(Sampler::Greedy),
            _ => {
                Err(Error::unsupported(format!("unknown version {version} of the sampler `{}`", code.name())))
            }
        }
    }
}

/// The rows of a step. Rows of one sequence stand in the order of their positions.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    ids: &'a [u32],
    rows: Option<&'a [f32]>,
    positions: &'a [u32],
    sequences: &'a [u32],
    outputs: &'a [u32],
    sampler: Option<Sampler>,
}

impl<'a> Batch<'a> {
    /// A batch of tokens: for each its id, position and sequence, and the rows that want output, ascending.
    ///
    /// # Errors
    /// InvalidArgument if it is empty, the lists differ in length, or an output is no row or out of order.
    pub fn new(
        ids: &'a [u32],
        positions: &'a [u32],
        sequences: &'a [u32],
        outputs: &'a [u32],
    ) -> Result<Batch<'a>> {
        let count = ids.len();
        if count == 0 || positions.len() != count || sequences.len() != count {
            return Err(Error::invalid_argument(
                "a batch requires an id, a position and a sequence for each row",
            ));
        }
        let outside =
            outputs.last().is_some_and(|last| usize::try_from(*last).map_or(true, |last| last >= count));
        if outside || !outputs.is_sorted_by(|a, b| a < b) {
            return Err(Error::invalid_argument(
                "the outputs of a batch must be ascending rows of the batch",
            ));
        }
        Ok(Batch { ids, rows: None, positions, sequences, outputs, sampler: None })
    }

    /// Brings embedded rows, one after the other, which take the place of what an embedding by token would give.
    #[must_use]
    pub fn with_rows(self, rows: &'a [f32]) -> Batch<'a> {
        Batch { rows: Some(rows), ..self }
    }

    /// Asks for chosen tokens instead of logits.
    #[must_use]
    pub fn with_sampler(self, sampler: Sampler) -> Batch<'a> {
        Batch { sampler: Some(sampler), ..self }
    }

    /// The token ids.
    pub fn ids(&self) -> &'a [u32] {
        self.ids
    }

    /// Embedded rows that replace the embeddings of the ids.
    pub fn rows(&self) -> Option<&'a [f32]> {
        self.rows
    }

    /// Each row's position in its sequence.
    pub fn positions(&self) -> &'a [u32] {
        self.positions
    }

    /// Each row's sequence.
    pub fn sequences(&self) -> &'a [u32] {
        self.sequences
    }

    /// The rows that want output.
    pub fn outputs(&self) -> &'a [u32] {
        self.outputs
    }

    /// The choice of tokens; `None` if logits are wanted.
    pub fn sampler(&self) -> Option<Sampler> {
        self.sampler
    }
}

/// Receives what a step gives.
pub trait StepSink {
    /// The logits of the `output`-th row that wants output.
    ///
    /// # Errors
    /// Any error of taking them; it ends the step.
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()>;

    /// The token chosen for the `output`-th row that wants output.
    ///
    /// # Errors
    /// As [`StepSink::logits`].
    fn token(&mut self, output: u32, id: u32) -> Result<()>;
}

/// A change of a sequence's states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCommand {
    /// The action.
    pub verb: StateVerb,
    /// The sequence.
    pub sequence: u32,
    /// The sequence or number that it concerns besides.
    pub target: u32,
    /// The first position to forget.
    pub position: u32,
}

/// Receives how long operations took.
pub trait TimingSink {
    /// The time of an operation, by its place in the program.
    ///
    /// # Errors
    /// Any error of taking it.
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> Result<()>;
}

/// Threads that the host lends for a step.
pub trait Workers: Sync {
    /// Number of workers, the caller included.
    fn width(&self) -> usize;

    /// Runs `body` once for each worker, all at the same time, with the worker's number below the width.
    ///
    /// # Errors
    /// The error of the lowest-numbered worker that failed; a panic is an error.
    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()>;
}

/// The point where the workers of a region wait for each other.
pub trait Barrier: Sync {
    /// Returns when every worker has called it as often as this one.
    ///
    /// # Errors
    /// Cancelled once a worker has failed, or the host wants the step to end: the caller returns at once.
    fn wait(&self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_do_not_hold_together_are_refused() {
        assert!(Batch::new(&[], &[], &[], &[]).is_err());
        assert!(Batch::new(&[1, 2], &[0], &[0, 0], &[]).is_err());
        assert!(Batch::new(&[1, 2], &[0, 1], &[0], &[]).is_err());
        assert!(Batch::new(&[1, 2], &[0, 1], &[0, 0], &[2]).is_err());
        assert!(Batch::new(&[1, 2], &[0, 1], &[0, 0], &[1, 0]).is_err());
        assert!(Batch::new(&[1, 2], &[0, 1], &[0, 0], &[1, 1]).is_err());
        assert!(Batch::new(&[1, 2], &[0, 1], &[0, 0], &[0, 1]).is_ok());
    }

    #[test]
    fn samplers_survive_their_bytes() {
        assert_eq!(Sampler::from_bytes(&Sampler::Greedy.to_bytes()).unwrap(), Sampler::Greedy);
        assert!(Sampler::from_bytes(&[7, 0, 0, 0, 1, 0, 0, 0, 0, 0]).is_err());
        assert!(Sampler::from_bytes(&[0, 0, 0]).is_err());
    }
}
