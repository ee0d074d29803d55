//! A computation that is watched: figures of what every operation gives, its time, and the bytes that it reads.
//!
//! Where the backend measures ([`MeasuredProgram`]), the program is the one that runs without a trace, with measures put in, and
//! runs in the same steps. Elsewhere, and where values themselves are wanted, every result keeps a value of its own
//! (`Request::taps`), which is read after each step. Neither changes any result.

mod anomalies;
mod figures;
mod measured_program;
mod recording;

pub use anomalies::{Anomaly, Fault, anomalies};
pub use figures::Figures;
pub use measured_program::{MeasuredProgram, measure};
pub use recording::{Recording, Row, Step, Traced, TracedResult};

use crate::generation::Model;
use crate::program::{Built, traffic};
use crate::runner::{Runner, Stepped};
use apr_sdk::{Error, MatrixSpec, Result, RowsOf, Slice, TimingSink};
use figures::GIVEN;
use measured_program::Origin;
use recording::width_of;
use std::time::Duration;

/// Values of a result's last row that are kept from either end.
const SAMPLED: usize = 3;

/// The way in which figures are had.
#[derive(Clone, Debug)]
pub enum Probes {
    /// The program that runs measures itself.
    Measured(MeasuredProgram),
    /// Every result has a value of its own.
    Taps,
    /// Not at all: only times are wanted.
    None,
}

/// A model that is ready to be traced.
pub struct Subject<'a> {
    /// The runner.
    pub runner: &'a mut Runner,
    /// Its program, without measures.
    pub built: &'a Built,
    /// The matrices of its weights.
    pub specs: &'a [MatrixSpec],
    /// The way in which figures are had.
    pub probes: &'a Probes,
}

/// The values of a result in a step.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The operation's place in the program.
    pub operation: usize,
    /// The result's place among those of the operation.
    pub result: usize,
    /// Its name.
    pub name: &'a str,
    /// Elements of a row.
    pub width: usize,
    /// The rows, one after the other.
    pub rows: &'a [f32],
}

/// Takes the values of results, step by step.
pub type Take<'a> = dyn FnMut(&Values<'_>) -> Result<()> + 'a;

/// What was recorded of a prompt and of its answer.
#[derive(Clone, Debug)]
pub struct Recordings {
    /// The tokens that were fed first.
    pub prompt: Recording,
    /// All that followed, one after the other.
    pub answer: Option<Recording>,
}

/// A model that is traced as it runs.
pub struct Tracer<'a> {
    runner: &'a mut Runner,
    recorder: Recorder<'a>,
}

struct Recorder<'a> {
    built: &'a Built,
    specs: &'a [MatrixSpec],
    probes: &'a Probes,
    now: &'a dyn Fn() -> Duration,
    take: Option<&'a mut Take<'a>>,
    /// What is recorded now: the first tokens, then those that follow.
    recording: Recording,
    /// The first tokens, once others follow.
    prompt: Option<Recording>,
    /// The time when the next step begins.
    since: Duration,
}

impl<'a> Tracer<'a> {
    /// A tracer of a model; `now` is the time since some fixed moment.
    pub fn new(subject: Subject<'a>, now: &'a dyn Fn() -> Duration) -> Tracer<'a> {
        let Subject { runner, built, specs, probes } = subject;
        let recording = Recording::of(built);
        let recorder = Recorder {
            built,
            specs,
            probes,
            now,
            take: None,
            recording,
            prompt: None,
            since: Duration::ZERO,
        };
        Tracer { runner, recorder }
    }

    /// Gives the values of every result to `take`; only with [`Probes::Taps`] are there any.
    #[must_use]
    pub fn with_values(mut self, take: &'a mut Take<'a>) -> Tracer<'a> {
        self.recorder.take = Some(take);
        self
    }

    /// The recordings.
    pub fn finish(self) -> Recordings {
        let last = self.recorder.recording;
        match self.recorder.prompt {
            Some(prompt) => Recordings { prompt, answer: Some(last) },
            None => Recordings { prompt: last, answer: None },
        }
    }
}

impl Model for Tracer<'_> {
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        let recorder = &mut self.recorder;
        if recorder.prompt.is_none() && !recorder.recording.steps.is_empty() {
            let answer = Recording::of(recorder.built);
            recorder.prompt = Some(std::mem::replace(&mut recorder.recording, answer));
        }
        recorder.since = (recorder.now)();
        let mut fed = ids;
        self.runner.feed_watched(ids, &mut |runner, stepped| {
            let some;
            (some, fed) = fed.split_at_checked(stepped.rows).unwrap_or((fed, &[]));
            recorder.recording.ids.extend_from_slice(some);
            recorder.step(runner, stepped)
        })
    }

    fn trim(&mut self, position: u32) -> Result<()> {
        self.runner.trim(position)
    }

    fn position(&self) -> u32 {
        self.runner.position()
    }

    fn context(&self) -> u32 {
        self.runner.context()
    }
}

/// The times of a step's operations.
struct Times(Vec<u64>);

impl TimingSink for Times {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> Result<()> {
        let time = usize::try_from(operation).ok().and_then(|number| self.0.get_mut(number));
        *time.ok_or_else(|| Error::plugin("gave the time of an operation that does not exist"))? =
            nanoseconds;
        Ok(())
    }
}

impl Recorder<'_> {
    /// Records the step that was just run.
    fn step(&mut self, runner: &mut Runner, stepped: Stepped) -> Result<()> {
        let took = (self.now)().saturating_sub(self.since);
        let (times, measuring) = self.times(runner)?;
        let rows = stepped.rows as u64;
        let end = u64::from(stepped.first).saturating_add(rows);
        for (number, traced) in self.recording.operations.iter_mut().enumerate() {
            let operation = &self.built.program.operations[number];
            // What comes behind the choice of outputs is left out where there are none.
            let has_rows =
                operation.writes().first().is_none_or(|slice| count(self.built, *slice, stepped) > 0);
            if has_rows {
                traced.bytes += traffic::of_weights(operation, self.specs, rows);
                traced.bytes += traffic::of_states(operation, &self.built.program, rows, end);
            }
            traced.nanoseconds += times.get(number).copied().unwrap_or(0);
        }
        match self.probes {
            Probes::Measured(measured) => self.read_figures(runner, measured, stepped)?,
            Probes::Taps => self.read_values(runner, stepped)?,
            Probes::None => {}
        }
        let began = self.since;
        let Stepped { first, rows, .. } = stepped;
        self.recording.steps.push(Step { first, rows, began, took, times, measuring });
        self.since = (self.now)();
        Ok(())
    }

    /// The time of each operation of the step, and that of measuring.
    fn times(&self, runner: &Runner) -> Result<(Vec<u64>, u64)> {
        let plain = self.built.program.operations.len();
        let Probes::Measured(measured) = self.probes else {
            let mut times = Times(vec![0; plain]);
            runner.timings(&mut times)?;
            return Ok((times.0, 0));
        };
        let mut all = Times(vec![0; measured.origins.len()]);
        runner.timings(&mut all)?;
        let mut own = vec![0; plain];
        let mut measuring = 0;
        for (time, origin) in all.0.into_iter().zip(&measured.origins) {
            match origin {
                Origin::Own(number) => own[*number] += time,
                Origin::Added => measuring += time,
            }
        }
        Ok((own, measuring))
    }

    /// Reads the figures that the program measured.
    fn read_figures(
        &mut self,
        runner: &mut Runner,
        measured: &MeasuredProgram,
        stepped: Stepped,
    ) -> Result<()> {
        let mut given = Vec::new();
        for (number, operation) in self.built.program.operations.iter().enumerate() {
            let values = measured.figures.get(number).map_or(&[][..], Vec::as_slice);
            for (result, (slice, value)) in operation.writes().iter().zip(values).enumerate() {
                given.resize(count(self.built, *slice, stepped) * GIVEN, 0.0);
                runner.read(*value, &mut given)?;
                let (rows, _) = given.as_chunks::<GIVEN>();
                for (row, given) in rows.iter().enumerate() {
                    let figures = Figures::given(given, u64::from(slice.width));
                    let position = position(self.built, *slice, stepped, row);
                    self.recording.row(number, result, Row { position, figures, peak: None });
                }
            }
        }
        Ok(())
    }

    /// Reads the values themselves.
    fn read_values(&mut self, runner: &mut Runner, stepped: Stepped) -> Result<()> {
        let mut whole = Vec::new();
        let mut part = Vec::new();
        for (number, operation) in self.built.program.operations.iter().enumerate() {
            let mut held = None;
            for (result, slice) in operation.writes().into_iter().enumerate() {
                let of_value = width_of(&self.built.program, slice.value)
                    .ok_or_else(|| Error::plugin("a program writes a value that does not exist"))?;
                if held != Some(slice.value) {
                    whole.resize(count(self.built, slice, stepped).saturating_mul(of_value), 0.0);
                    runner.read(slice.value, &mut whole)?;
                    held = Some(slice.value);
                }
                let [first, width] =
                    [slice.first, slice.width].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
                part.clear();
                for row in whole.chunks_exact(of_value.max(1)) {
                    part.extend_from_slice(row.get(first..first.saturating_add(width)).unwrap_or_default());
                }
                self.values(number, result, slice, &part, stepped)?;
            }
        }
        Ok(())
    }

    /// Records the values of a result.
    fn values(
        &mut self,
        operation: usize,
        result: usize,
        slice: Slice,
        rows: &[f32],
        stepped: Stepped,
    ) -> Result<()> {
        let width = usize::try_from(slice.width).unwrap_or(usize::MAX).max(1);
        for (number, row) in rows.chunks_exact(width).enumerate() {
            let position = position(self.built, slice, stepped, number);
            let figures = Figures::of(row);
            self.recording.row(operation, result, Row { position, figures, peak: peak_of(row) });
        }
        let traced = &mut self.recording.operations[operation].results[result];
        traced.alive.resize(width, false);
        for row in rows.chunks_exact(width) {
            traced.alive.iter_mut().zip(row).for_each(|(alive, x)| *alive |= *x != 0.0);
        }
        if let Some(last) = rows.chunks_exact(width).next_back() {
            traced.sample = ends_of(last);
        }
        let name = traced.name.clone();
        match &mut self.take {
            Some(take) => take(&Values { operation, result, name: &name, width, rows }),
            None => Ok(()),
        }
    }
}

/// Number of rows that a slice has after a step.
fn count(built: &Built, slice: Slice, stepped: Stepped) -> usize {
    if is_of_outputs(built, slice) { stepped.outputs } else { stepped.rows }
}

fn is_of_outputs(built: &Built, slice: Slice) -> bool {
    let value = usize::try_from(slice.value).ok().and_then(|number| built.program.values.get(number));
    value.is_some_and(|value| value.rows == RowsOf::OUTPUTS)
}

/// Position of a row. The outputs of a step are its last rows.
fn position(built: &Built, slice: Slice, stepped: Stepped, row: usize) -> u32 {
    let before = if is_of_outputs(built, slice) { stepped.rows - stepped.outputs } else { 0 };
    stepped.first.saturating_add(u32::try_from(before + row).unwrap_or(u32::MAX))
}

/// The column of the largest magnitude, or of the first element that is not finite.
fn peak_of(row: &[f32]) -> Option<u32> {
    let is_odd = |x: &f32| !x.is_finite();
    let at = row.iter().position(is_odd).or_else(|| {
        let columns = row.iter().enumerate();
        columns.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs())).map(|(column, _)| column)
    })?;
    u32::try_from(at).ok()
}

/// The first and the last elements of a row.
fn ends_of(row: &[f32]) -> Vec<f32> {
    if row.len() <= 2 * SAMPLED {
        return row.to_vec();
    }
    [&row[..SAMPLED], &row[row.len() - SAMPLED..]].concat()
}
