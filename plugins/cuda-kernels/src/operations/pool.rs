//! Some rows of many, or their means.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, List, Node, Step};
use apr_sdk::{Columns, Pooling};

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

impl Node for Pool {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let (rows, first) = match self.kind {
            Pooling::OUTPUTS => (List::Outputs, List::Numbers),
            Pooling::FIRST => (List::Firsts, List::Numbers),
            Pooling::LAST => (List::Lasts, List::Numbers),
            // `check` let no other than the mean through.
            _ => (List::Sorted, List::Starts),
        };
        let parameters = parameters::Pool {
            x: step.place(&self.x),
            out: step.place(&self.out),
            rows: step.list(rows),
            first: step.list(first),
            normalize: u32::from(self.normalize),
            pad: 0,
        };
        if step.outputs > 0 {
            out.push(step::launch(("rows", "pool"), [step.outputs, 1, 1], super::THREADS, &parameters));
        }
    }
}
