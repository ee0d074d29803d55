//! The weighted sum over the chosen experts.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, apart, divided, same_or_apart, same_rows};
use crate::session::step::{self, Node, Step};
use crate::session::values::Place;
use apr_sdk::Result;

struct Combine {
    x: Place,
    route: Place,
    used: u32,
    out: Place,
    residual: Option<Place>,
}

pub(super) fn compile(operation: &apr_sdk::Combine, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let width = divided(x.width, operation.used, "choices")?;
    let used = operation.used;
    let route = compiler.place_of(&operation.route, 2 * step::index(used), "the route")?;
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

impl Node for Combine {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let parameters = parameters::Combine {
            x: step.place(&self.x),
            route: step.place(&self.route),
            out: step.place(&self.out),
            residual: step.place_or_none(self.residual.as_ref()),
            used: self.used,
            pad: 0,
        };
        let grid = [self.out.width.div_ceil(super::THREADS), step.count(self.out.rows), 1];
        if grid[1] > 0 {
            out.push(step::launch(("rows", "combine"), grid, super::THREADS, &parameters));
        }
    }
}
