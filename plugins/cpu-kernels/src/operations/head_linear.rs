//! A matrix of its own for each head.

use super::linear::{Divided, runs};
use crate::matrix::Matrix;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Result};
use std::sync::Arc;

struct HeadLinear {
    matrix: Arc<Matrix>,
    heads: usize,
    /// Rows of a head's matrix.
    width: usize,
    slot: usize,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::HeadLinear, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let matrix = compiler.matrix(operation.weight);
    let heads = index(operation.heads);
    let slot = compiler.rounded(&x, heads, matrix.rounding());
    compiler.written(&out);
    compiler.push(HeadLinear { matrix, heads, width: out.width / heads, slot, out });
}

impl Task for HeadLinear {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let count = step.count(self.out.rows);
        let pieces = (0..self.heads).map(|head| {
            let rows = head * self.width..(head + 1) * self.width;
            Divided::new(&self.matrix, rows, 1, step.workers)
        });
        for (head, run) in runs(pieces, worker, step.workers).enumerate() {
            if run.is_empty() {
                continue;
            }
            // Rows of activations lie head by head.
            let tokens = head * count..(head + 1) * count;
            let mut give = |token: usize, row: usize, products: &[f32]| {
                let part = self.out.part(row, products.len());
                // SAFETY: this worker has these rows of the matrix to itself, and with them the results' elements.
                unsafe { step.values.write(&part, token - head * count) }.copy_from_slice(products);
            };
            self.matrix.multiply(step.level, run, &step.activations[self.slot], tokens, None, &mut give);
        }
        Ok(())
    }
}
