//! The weighted sum over the chosen experts.

use super::vector;
use crate::session::compile::{Compiler, apart, divided, same_or_apart, same_rows};
use crate::session::step::{Division, Step, Task, index};
use crate::session::values::Place;
use apr_sdk::Result;

struct Combine {
    x: Place,
    route: Place,
    used: usize,
    out: Place,
    residual: Option<Place>,
}

pub(super) fn compile(operation: &apr_sdk::Combine, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let width = divided(x.width, operation.used, "choices")?;
    let used = index(operation.used);
    let route = compiler.place_of(&operation.route, 2 * used, "the route")?;
    let out = compiler.place_of(&operation.out, width, "the result")?;
    let residual = operation.residual.as_ref().map(|place| compiler.place_of(place, width, "the residual"));
    let residual = residual.transpose()?;
    same_rows(&[&x, &route, &out, residual.as_ref().unwrap_or(&out)])?;
    apart(&out, &x, "the input")?;
    apart(&out, &route, "the route")?;
    if let Some(residual) = &residual {
        same_or_apart(&out, residual, "the residual")?;
    }
    compiler.written(&out);
    compiler.push(Combine { x, route, used, out, residual });
    Ok(())
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
