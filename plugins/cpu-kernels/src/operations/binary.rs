//! Two values, element by element.

use super::activate::CHUNK;
use crate::level::versions;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task};
use apr_sdk::{BinaryKind, Columns, Result};

struct Binary {
    kind: BinaryKind,
    a: Columns,
    b: Columns,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::Binary, compiler: &mut Compiler<'_>) {
    let (a, b) = (compiler.columns(&operation.a), compiler.columns(&operation.b));
    let out = compiler.columns(&operation.out);
    compiler.written(&out);
    compiler.push(Binary { kind: operation.kind, a, b, out });
}

impl Task for Binary {
    fn division(&self) -> Division {
        Division::Rows(self.out.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let (mut x, mut y) = ([0f32; CHUNK], [0f32; CHUNK]);
        for row in step.rows(self.out.rows, worker) {
            for first in (0..self.out.width).step_by(CHUNK) {
                let width = CHUNK.min(self.out.width - first);
                let (x, y) = (&mut x[..width], &mut y[..width]);
                // SAFETY: this worker has its rows to itself; each slice ends before the next begins to live.
                unsafe {
                    x.copy_from_slice(step.values.read(&self.a.part(first, width), row));
                    if self.b.width == 1 {
                        y.fill(step.values.read(&self.b, row)[0]);
                    } else {
                        y.copy_from_slice(step.values.read(&self.b.part(first, width), row));
                    }
                }
                match self.kind {
                    BinaryKind::ADD => add(step.level, x, y),
                    BinaryKind::MULTIPLY => multiply(step.level, x, y),
                    // `check` let no other through.
                    _ => subtract(step.level, x, y),
                }
                // SAFETY: as above.
                unsafe { step.values.write(&self.out.part(first, width), row) }.copy_from_slice(x);
            }
        }
        Ok(())
    }
}

versions! {
    add(x: &mut [f32], y: &[f32]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    }

    multiply(x: &mut [f32], y: &[f32]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x *= y);
    }

    subtract(x: &mut [f32], y: &[f32]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x -= y);
    }
}
