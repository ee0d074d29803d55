//! The weighted sum over the chosen experts.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, Node, Step};
use apr_sdk::Columns;

struct Combine {
    x: Columns,
    route: Columns,
    used: u32,
    out: Columns,
    residual: Option<Columns>,
}

pub(super) fn compile(operation: &apr_sdk::Combine, compiler: &mut Compiler<'_>) {
    let (x, route) = (compiler.columns(&operation.x), compiler.columns(&operation.route));
    let out = compiler.columns(&operation.out);
    let residual = operation.residual.as_ref().map(|residual| compiler.columns(residual));
    compiler.written(&out);
    compiler.push(Combine { x, route, used: operation.used, out, residual });
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
