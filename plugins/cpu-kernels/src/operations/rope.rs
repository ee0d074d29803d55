//! Rotary positions. The angles of a step are computed once for all layers that share their frequencies.

use super::functions::narrow;
use crate::level::versions;
use crate::session::compile::{Angles, Compiler};
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Result, RopeStyle, RowsOf};

/// Computes cosines and sines: for each row all cosines, then all sines.
pub(crate) struct Turn {
    /// Where they go.
    pub(crate) table: usize,
    /// What turns how.
    pub(crate) angles: Angles,
}

struct Rope {
    x: Columns,
    out: Columns,
    /// Elements of a head.
    width: usize,
    /// The first that rotates.
    first: usize,
    /// How many pairs rotate.
    pairs: usize,
    interleaved: bool,
    table: usize,
}

pub(super) fn compile(operation: &apr_sdk::Rope, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let (first, pairs) = (index(operation.first), operation.frequencies.len());
    let frequencies = operation.frequencies.clone();
    let table = compiler.angles(Angles { frequencies, magnitude: operation.magnitude });
    compiler.written(&out);
    let width = x.width / index(operation.heads);
    let interleaved = operation.style == RopeStyle::INTERLEAVED;
    compiler.push(Rope { x, out, width, first, pairs, interleaved, table });
}

impl Task for Turn {
    fn division(&self) -> Division {
        Division::Rows(RowsOf::BATCH)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let pairs = self.angles.frequencies.len();
        for row in step.rows(RowsOf::BATCH, worker) {
            let first = row * 2 * pairs;
            // SAFETY: this worker has its rows to itself.
            let out = unsafe { step.angles[self.table].write(first..first + 2 * pairs) };
            let (cosines, sines) = out.split_at_mut(pairs);
            let position = step.batch.positions()[row];
            for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&self.angles.frequencies) {
                // The angle is rounded to single precision, as the models' own code does and they were trained with;
                // what follows is exact.
                let angle = f64::from(narrow(f64::from(position)) * frequency);
                *cosine = narrow(angle.cos()) * self.angles.magnitude;
                *sine = narrow(angle.sin()) * self.angles.magnitude;
            }
        }
        Ok(())
    }
}

impl Task for Rope {
    fn division(&self) -> Division {
        Division::Rows(RowsOf::BATCH)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(RowsOf::BATCH, worker) {
            if self.x != self.out {
                // SAFETY: this worker has its rows to itself, and the two have no element in common.
                unsafe { step.values.write(&self.out, row).copy_from_slice(step.values.read(&self.x, row)) };
            }
            let angles = row * 2 * self.pairs..(row + 1) * 2 * self.pairs;
            // SAFETY: this worker has its rows to itself.
            let (out, angles) =
                unsafe { (step.values.write(&self.out, row), step.angles[self.table].read(angles)) };
            let (cosines, sines) = angles.split_at(self.pairs);
            for head in out.chunks_exact_mut(self.width) {
                let head = &mut head[self.first..self.first + 2 * self.pairs];
                if self.interleaved {
                    turn_neighbours(step.level, head, cosines, sines);
                } else {
                    turn_halves(step.level, head, cosines, sines);
                }
            }
        }
        Ok(())
    }
}

versions! {
    /// Rotates element i with element i + n/2.
    turn_halves(x: &mut [f32], cosines: &[f32], sines: &[f32]) -> () {
        let (lower, upper) = x.split_at_mut(cosines.len());
        for (((a, b), cosine), sine) in lower.iter_mut().zip(upper).zip(cosines).zip(sines) {
            (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
        }
    }

    /// Rotates element 2i with element 2i + 1.
    turn_neighbours(x: &mut [f32], cosines: &[f32], sines: &[f32]) -> () {
        for ((pair, cosine), sine) in x.chunks_exact_mut(2).zip(cosines).zip(sines) {
            let (a, b) = (pair[0], pair[1]);
            pair[0] = a * cosine - b * sine;
            pair[1] = b * cosine + a * sine;
        }
    }
}
