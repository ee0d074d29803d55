//! Comparison of a backend's results with the expected ones.

use super::interpreter::Interpreter;
use super::setup::{Floats, compile, step};
use super::subject::Subject;
use crate::Random;
use apr_sdk::{Batch, Error, Program, Result, Session, SessionLimits};
use std::collections::BTreeMap;

/// A finding unless something holds.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::failed(what())) }
}

/// The largest difference, as a share of the root mean square; NaN where either is none.
pub fn difference(have: &[f32], want: &[f64]) -> f64 {
    if have.len() != want.len() {
        return f64::NAN;
    }
    let rms = (want.iter().map(|x| x * x).sum::<f64>() / want.len() as f64).sqrt();
    let most = have.iter().zip(want).map(|(have, want)| (f64::from(*have) - want).abs());
    most.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }) / rms.max(1e-30)
}

/// Number of steps that run once more where only the same run is known to give the same bits. 4: a few rows and many,
/// but soon done.
const AGAIN: usize = 4;

/// The results of runs, bit for bit, by what must be the same for them to give the same.
pub(super) struct Bits<K> {
    same: bool,
    seen: BTreeMap<Option<K>, Vec<u32>>,
}

impl<K: Ord> Bits<K> {
    pub(super) fn new(subject: &Subject) -> Bits<K> {
        Bits { same: subject.same_bits, seen: BTreeMap::new() }
    }

    /// Compares with an earlier run, if one must have given the same; this one may have ended sooner.
    pub(super) fn judge(&mut self, run: K, given: Vec<u32>) -> Result<()> {
        let run = if self.same { None } else { Some(run) };
        let first = self.seen.entry(run).or_insert_with(|| given.clone());
        ensure(first.starts_with(&given), || "other bits than before".to_owned())
    }
}

/// The rows of a step, as [`Batch`] borrows them.
struct Step {
    ids: Vec<u32>,
    positions: Vec<u32>,
    sequences: Vec<u32>,
    outputs: Vec<u32>,
    rows: Vec<f32>,
}

impl Step {
    fn batch(&self) -> Result<Batch<'_>> {
        Ok(Batch::new(&self.ids, &self.positions, &self.sequences, &self.outputs)?.with_rows(&self.rows))
    }
}

/// Steps of several sizes over three sequences, with random rows of a width.
fn steps(width: usize) -> Vec<Step> {
    let mut random = Random::new(77);
    let mut at = [0u32; 3];
    let mut steps = Vec::new();
    for count in [11usize, 1, 40, 2, 40, 40, 40, 40, 1] {
        let sequences: Vec<u32> = (0..count).map(|row| [1, 1, 0, 1, 2][row * 2 / 3 % 5]).collect();
        let positions = next_positions(&mut at, &sequences);
        let ids: Vec<u32> = (0..count as u32).map(|row| row % 5).collect();
        let outputs: Vec<u32> = (0..count as u32).filter(|row| row % 4 != 1).collect();
        steps.push(Step { ids, positions, sequences, outputs, rows: random.normals(count * width) });
    }
    steps
}

/// The positions of further rows of sequences that go on at `at`.
pub(super) fn next_positions(at: &mut [u32; 3], sequences: &[u32]) -> Vec<u32> {
    let mut positions = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        positions.push(at[*sequence as usize]);
        at[*sequence as usize] += 1;
    }
    positions
}

/// Runs several steps on every device with every number of workers, and compares all values after each step with the
/// interpreter's. The program begins with an embedding by token into the whole of value 0, whose rows the batches bring.
///
/// # Errors
/// Failed for a value that is further off than `bound` times the subject's slack, as [`difference`] measures it, or for
/// other bits where they should be the same; any error of the backend.
pub fn judge(subject: &Subject, program: &Program, weights: &[Floats], bound: f64) -> Result<()> {
    let width = program.values.first().map_or(0, |value| value.width as usize);
    let steps = steps(width);
    let mut interpreter = Interpreter::new(program, weights, 3);
    let mut wanted: Vec<Vec<Vec<f64>>> = Vec::new();
    for step in &steps {
        interpreter.step(&step.batch()?)?;
        wanted.push(interpreter.values.iter().map(|rows| rows.concat()).collect());
    }
    let mut bits = Bits::new(subject);
    for (name, device, workers) in subject.runs() {
        let mut run = |count: usize| -> Result<()> {
            let mut session = compile(device, program, weights, &SessionLimits::new(40, 3, 400))?;
            let mut all = Vec::new();
            for (number, (rows, wanted)) in steps.iter().zip(&wanted).enumerate().take(count) {
                step(&mut *session, &rows.batch()?, workers)?;
                compare(&mut *session, wanted, bound * subject.slack, &mut all)
                    .map_err(|error| Error::failed(format!("step {number}: {}", error.message())))?;
            }
            bits.judge((name, workers), all)
        };
        let mut result = run(steps.len());
        if !subject.same_bits {
            result = result.and_then(|()| run(AGAIN));
        }
        result.map_err(|error| {
            // The first operation brings the rows.
            let operations = program.operations.get(1..).unwrap_or_default();
            let states = &program.states;
            let message = error.message();
            Error::failed(format!(
                "{name}, workers: {workers}: {message}; the program: {operations:?} over {states:?}"
            ))
        })?;
    }
    Ok(())
}

/// Compares all values of a session with those wanted, and adds their bits.
fn compare(session: &mut dyn Session, wanted: &[Vec<f64>], bound: f64, bits: &mut Vec<u32>) -> Result<()> {
    for (number, want) in wanted.iter().enumerate() {
        let mut have = vec![0.0; want.len()];
        session.read(number as u32, &mut have)?;
        let difference = difference(&have, want);
        ensure(difference <= bound, || {
            format!("value {number} differs by {difference:e}, the bound is {bound:e}")
        })?;
        bits.extend(have.iter().map(|x| x.to_bits()));
    }
    Ok(())
}
