//! The weighted sum over the chosen experts.

use super::vector;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Result};

struct Combine {
    x: Columns,
    route: Columns,
    used: usize,
    out: Columns,
    residual: Option<Columns>,
}

pub(super) fn compile(operation: &apr_sdk::Combine, compiler: &mut Compiler<'_>) {
    let (x, route) = (compiler.columns(&operation.x), compiler.columns(&operation.route));
    let out = compiler.columns(&operation.out);
    let residual = operation.residual.as_ref().map(|residual| compiler.columns(residual));
    compiler.written(&out);
    compiler.push(Combine { x, route, used: index(operation.used), out, residual });
}

impl Task for Combine {
    fn division(&self) -> Division {
        Division::Rows(self.out.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(self.out.rows, worker) {
            // SAFETY: this worker has its rows to itself, and the result has no element in common with the others,
            // but for a residual that it is itself, which is not read then.
            unsafe {
                let out = step.values.write(&self.out, row);
                match &self.residual {
                    Some(residual) if *residual == self.out => {}
                    Some(residual) => out.copy_from_slice(step.values.read(residual, row)),
                    None => out.fill(0.0),
                }
                let (x, route) = (step.values.read(&self.x, row), step.values.read(&self.route, row));
                for (x, weight) in x.chunks_exact(out.len()).zip(&route[self.used..]) {
                    vector::add_scaled(step.level, out, x, *weight);
                }
            }
        }
        Ok(())
    }
}
