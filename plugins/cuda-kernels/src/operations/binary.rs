//! Two values, element by element.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, Node, Step};
use apr_sdk::{BinaryKind, Columns};

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

impl Node for Binary {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let (a, b) = (step.place(&self.a), step.place(&self.b));
        // The kernels number kinds as programs do.
        let parameters = parameters::Binary { a, b, out: step.place(&self.out), kind: self.kind.0, pad: 0 };
        let grid = [self.out.width.div_ceil(super::THREADS), step.count(self.out.rows), 1];
        if grid[1] > 0 {
            out.push(step::launch(("rows", "binary"), grid, super::THREADS, &parameters));
        }
    }
}
