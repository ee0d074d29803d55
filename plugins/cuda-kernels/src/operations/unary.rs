//! One value, element by element.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, Node, Step};
use apr_sdk::{Columns, UnaryKind};

struct Unary {
    kind: UnaryKind,
    x: Columns,
    out: Columns,
    a: f32,
    b: f32,
}

pub(super) fn compile(operation: &apr_sdk::Unary, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    compiler.written(&out);
    compiler.push(Unary { kind: operation.kind, x, out, a: operation.a, b: operation.b });
}

impl Node for Unary {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let (x, to) = (step.place(&self.x), step.place(&self.out));
        // The kernels number kinds as programs do.
        let parameters = parameters::Unary { x, out: to, kind: self.kind.0, a: self.a, b: self.b, pad: 0 };
        let grid = [self.out.width.div_ceil(super::THREADS), step.count(self.out.rows), 1];
        if grid[1] > 0 {
            out.push(step::launch(("rows", "unary"), grid, super::THREADS, &parameters));
        }
    }
}
