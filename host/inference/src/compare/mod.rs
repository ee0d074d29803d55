//! One program on two devices: where do they part?
//!
//! The same tokens run on both, first some together, as a prompt does, then one at a time, as an answer does: devices have
//! other kernels for either. After one step of each form, every intermediate result of one device is compared with the
//! other's. Errors are handed on from operation to operation, so that a large one says little by itself: an operation
//! *departs* if its error is above a bound, and is not explained by the errors of what it reads.

mod figures;
mod operations;

pub use figures::Logits;

use crate::program::Built;
use crate::runner::Runner;
use apr_sdk::{Error, Result};
use operations::Operations;

/// A loaded model on one of the devices. Its program must keep every intermediate result (`Request::taps`).
pub struct Side<'a> {
    /// The runner.
    pub runner: &'a mut Runner,
    /// Its program.
    pub built: &'a Built,
}

/// The way the tokens run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Several in a step.
    Together,
    /// One in each step.
    OneByOne,
}

/// The findings in one form.
#[derive(Clone, Debug)]
pub struct Found {
    /// The form.
    pub form: Form,
    /// Number of tokens that ran in it.
    pub tokens: usize,
    /// Every operation of one step, in order.
    pub operations: Vec<Compared>,
    /// The logits of all tokens.
    pub logits: Logits,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its number in the program.
    pub number: usize,
    /// Its name.
    pub operation: String,
    /// Name of its result, such as `layer.3.attention.query`; empty for one that only stores.
    pub result: String,
    /// √(Σ(a − b)² / Σb²) of its results, `b` being the reference; infinite where a result is not a number, or is all zero in
    /// the reference alone. Of an operation that adds to a residual, what it adds.
    pub error: f64,
    /// The largest error of what it reads.
    pub before: f64,
    /// True if it departs.
    pub departs: bool,
}

/// Runs tokens on both sides, the second being the reference. An operation whose relative error is at most `bound` does not
/// depart.
///
/// # Errors
/// InvalidArgument for fewer than two tokens, or more than a context takes; Plugin if the programs differ; any error from the
/// backends and from `stop`, which is asked between steps.
pub fn compare(
    sides: &mut [Side<'_>; 2],
    ids: &[u32],
    bound: f64,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<Found>> {
    if ids.len() < 2 {
        return Err(Error::invalid_argument("a comparison requires at least two tokens"));
    }
    if sides[0].built.program != sides[1].built.program {
        return Err(Error::plugin("the two devices were given different programs"));
    }
    for side in sides.iter_mut() {
        side.runner.clear()?;
    }
    let mut operations = Operations::new(sides[0].built, bound);
    let half = ids.len() / 2;
    let together = sides.iter().map(|side| side.runner.rows()).min().unwrap_or(1).max(1);
    let mut all = Vec::new();
    for (form, first, last, step) in
        [(Form::Together, 0, half, together), (Form::OneByOne, half, ids.len(), 1)]
    {
        let mut logits = Logits::default();
        let mut compared = None;
        let mut at = first;
        while at < last {
            stop()?;
            let some = &ids[at..last.min(at + step)];
            let pair = run(sides, some)?;
            for (row, next) in (at + 1..).take(some.len()).enumerate() {
                logits.add(pair.row(row), ids.get(next).copied());
            }
            at += some.len();
            // The first prompt, and the last single token, for which caches are as full as they get.
            if (form == Form::Together && compared.is_none()) || at == ids.len() {
                compared = Some(operations.compare(sides, some.len())?);
            }
        }
        let operations = compared.unwrap_or_default();
        all.push(Found { form, tokens: last - first, operations, logits });
    }
    Ok(all)
}

/// The logits of both sides.
struct Pair {
    width: usize,
    sides: [Vec<f32>; 2],
}

impl Pair {
    fn row(&self, row: usize) -> [&[f32]; 2] {
        let first = row * self.width;
        self.sides.each_ref().map(|side| &side[first..(first + self.width).min(side.len())])
    }
}

/// Runs one step on both sides.
fn run(sides: &mut [Side<'_>; 2], ids: &[u32]) -> Result<Pair> {
    let width = sides[0].runner.width();
    let mut pair = Pair { width, sides: [Vec::new(), Vec::new()] };
    for (side, logits) in sides.iter_mut().zip(&mut pair.sides) {
        side.runner.feed_all(ids, &mut |_, row| {
            logits.extend_from_slice(row);
            Ok(())
        })?;
    }
    Ok(pair)
}
