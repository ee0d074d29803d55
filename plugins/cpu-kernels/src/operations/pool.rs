//! Some rows of many, or their means.

use super::functions::{count, narrow};
use super::vector;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Pooling, Result, RowsOf};

struct Pool {
    kind: Pooling,
    x: Columns,
    out: Columns,
    normalize: bool,
}

pub(super) fn compile(operation: &apr_sdk::Pool, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    compiler.written(&out);
    compiler.push(Pool { kind: operation.kind, x, out, normalize: operation.normalize });
}

impl Pool {
    /// The mean of a sequence's rows.
    fn mean(&self, step: &Step<'_>, ordinal: usize, out: &mut [f32]) {
        let mut sums = vec![0f64; out.len()];
        let rows = step.checked.of_sequence(ordinal);
        for row in rows {
            // SAFETY: nothing writes rows of the batch in this task.
            let x = unsafe { step.values.read(&self.x, *row) };
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = narrow(sum / count(rows.len())));
    }
}

impl Task for Pool {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for output in step.rows(RowsOf::OUTPUTS, worker) {
            // SAFETY: this worker has its outputs to itself.
            let out = unsafe { step.values.write(&self.out, output) };
            let row = match self.kind {
                Pooling::OUTPUTS => Some(index(step.batch.outputs()[output])),
                Pooling::FIRST => step.checked.of_sequence(output).first().copied(),
                Pooling::LAST => step.checked.of_sequence(output).last().copied(),
                // `check` let no other than the mean through.
                _ => None,
            };
            match row {
                // SAFETY: nothing writes rows of the batch in this task.
                Some(row) => out.copy_from_slice(unsafe { step.values.read(&self.x, row) }),
                None => self.mean(step, output, out),
            }
            if self.normalize {
                let norm = vector::squares(step.level, out).sqrt();
                // The bound is that of the models' own code, for rows of zeros.
                let norm = if norm < 1e-12 { 1e-12 } else { norm };
                out.iter_mut().for_each(|x| *x = narrow(f64::from(*x) / norm));
            }
        }
        Ok(())
    }
}
