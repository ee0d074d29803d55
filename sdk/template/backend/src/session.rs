//! A compiled program and its steps: each operation over all rows, one after the other.

use crate::device::Matrix;
use apr_sdk::{
    Batch, CheckedProgram, Embed, Error, HeadLinear, Linear, Operation, Result, RowIndex, RowsOf, Session, SessionLimits,
    Slice, StateCommand, StateVerb, StepSink, TimingSink, Workers,
};
use std::sync::Arc;

/// Checks that an operation is one of those that `run` knows.
///
/// # Errors
/// Unsupported, with the operation's name.
pub fn check(operation: &Operation) -> Result<()> {
    match operation {
        Operation::Embed(embed) if [RowIndex::TOKEN, RowIndex::POSITION, RowIndex::CONSTANT].contains(&embed.index) => Ok(()),
        Operation::Linear(_) | Operation::HeadLinear(_) => Ok(()),
        other => Err(Error::unsupported(format!("this form of `{}` is not supported", other.code().0.name()))),
    }
}

/// A program, and the rows of each of its values as the last step left them.
pub struct Steps {
    program: CheckedProgram,
    weights: Vec<Arc<Matrix>>,
    limits: SessionLimits,
    values: Vec<Vec<f32>>,
}

impl Steps {
    /// Takes a program whose operations are all known.
    ///
    /// # Errors
    /// As [`check`], with the operation's place.
    pub fn new(program: CheckedProgram, weights: Vec<Arc<Matrix>>, limits: SessionLimits) -> Result<Steps> {
        program.for_each_operation(|_, operation| check(operation))?;
        let values = vec![Vec::new(); program.values().len()];
        Ok(Steps { program, weights, limits, values })
    }

    fn width(&self, value: u32) -> usize {
        self.program.values()[value as usize].width as usize
    }

    fn n_rows(&self, value: u32) -> usize {
        self.values[value as usize].len() / self.width(value)
    }

    /// The elements of a slice in a row.
    fn get(&self, slice: &Slice, row: usize) -> &[f32] {
        &self.values[slice.value as usize][row * self.width(slice.value) + slice.first as usize..][..slice.width as usize]
    }

    fn set(&mut self, slice: &Slice, row: usize, elements: &[f32]) {
        let first = row * self.width(slice.value) + slice.first as usize;
        self.values[slice.value as usize][first..][..elements.len()].copy_from_slice(elements);
    }

    /// Some rows of a matrix times x.
    fn product(&self, weight: u32, first: usize, count: usize, x: &[f32]) -> Vec<f32> {
        let matrix = &self.weights[weight as usize];
        (first..first + count).map(|row| matrix.row(row).zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    fn embed(&mut self, op: &Embed, batch: &Batch<'_>) -> Result<()> {
        let width = op.out.width as usize;
        for row in 0..self.n_rows(op.out.value) {
            let index = match op.index {
                RowIndex::TOKEN => batch.ids()[row],
                RowIndex::POSITION => batch.positions()[row],
                _ => 0,
            };
            let elements: Vec<f32> = match (batch.rows(), op.index) {
                // Rows that the batch brings take the place of those of the tokens.
                (Some(rows), RowIndex::TOKEN) => {
                    let given = rows.get(row * width..).and_then(|rows| rows.get(..width));
                    given.ok_or_else(|| Error::invalid_argument("the batch brings too few rows"))?.to_vec()
                }
                _ => {
                    let table = &self.weights[op.table as usize];
                    let at = u64::from(index) + u64::from(op.offset);
                    let at = usize::try_from(at).ok().filter(|at| *at < table.shape.rows);
                    let at = at.ok_or_else(|| Error::invalid_argument(format!("the table has no row {index}")))?;
                    table.row(at).map(|x| x * op.scale).collect()
                }
            };
            self.set(&op.out, row, &elements);
        }
        Ok(())
    }

    fn linear(&mut self, op: &Linear) {
        for row in 0..self.n_rows(op.x.value) {
            let x = self.get(&op.x, row).to_vec();
            for part in &op.parts {
                let mut y = self.product(part.weight, part.first_row as usize, part.out.width as usize, &x);
                if let Some(bias) = part.bias {
                    let bias: Vec<f32> = self.weights[bias as usize].row(0).collect();
                    y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
                }
                y.iter_mut().for_each(|y| *y *= op.scale);
                if let Some(residual) = &op.residual {
                    y.iter_mut().zip(self.get(residual, row)).for_each(|(y, residual)| *y += residual);
                }
                self.set(&part.out, row, &y);
            }
        }
    }

    fn head_linear(&mut self, op: &HeadLinear) {
        let width = (op.out.width / op.heads) as usize;
        for row in 0..self.n_rows(op.x.value) {
            let x = self.get(&op.x, row).to_vec();
            let heads = x.chunks_exact(x.len() / op.heads as usize).enumerate();
            let y: Vec<f32> = heads.flat_map(|(head, x)| self.product(op.weight, head * width, width, x)).collect();
            self.set(&op.out, row, &y);
        }
    }
}

impl Session for Steps {
    fn step(&mut self, batch: &Batch<'_>, _: &dyn Workers, _: &mut dyn StepSink) -> Result<()> {
        let n_rows = batch.ids().len();
        let SessionLimits { rows, sequences, positions, .. } = self.limits;
        let is_beyond = |numbers: &[u32], limit: u32| numbers.iter().any(|number| *number >= limit);
        if n_rows > rows as usize || is_beyond(batch.sequences(), sequences) || is_beyond(batch.positions(), positions) {
            return Err(Error::invalid_argument("the batch is beyond the session's limits"));
        }
        for (value, spec) in self.values.iter_mut().zip(self.program.values()) {
            let n = if spec.rows == RowsOf::OUTPUTS { batch.outputs().len() } else { n_rows };
            *value = vec![0.0; n * spec.width as usize];
        }
        for operation in self.program.operations().to_vec() {
            match &operation {
                Operation::Embed(op) => self.embed(op, batch)?,
                Operation::Linear(op) => self.linear(op),
                Operation::HeadLinear(op) => self.head_linear(op),
                other => check(other)?,
            }
        }
        Ok(())
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        if !StateVerb::ALL.iter().any(|(_, verb)| *verb == command.verb.0) {
            return Err(Error::unsupported(format!("unknown command `{}`", command.verb.name())));
        }
        // No operation here leaves a state behind.
        match command.sequence < self.limits.sequences {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!("there is no sequence {}", command.sequence))),
        }
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        let found = self.values.get(value as usize).filter(|value| value.len() == out.len());
        let found = found.ok_or_else(|| Error::invalid_argument(format!("value {value} has another length")))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn timings(&self, _: &mut dyn TimingSink) -> Result<()> {
        Ok(())
    }
}
