//! Some rows of many, or their means.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, List, Node, Step};
use crate::session::values::Place;
use apr_sdk::{Error, Pooling, Result, RowsOf};

struct Pool {
    kind: Pooling,
    x: Place,
    out: Place,
    normalize: bool,
}

/// Checks the kind.
pub(super) fn check(operation: &apr_sdk::Pool) -> Result<()> {
    let all = [Pooling::OUTPUTS, Pooling::MEAN, Pooling::FIRST, Pooling::LAST];
    super::known(operation.kind, &all, &operation.kind.name())
}

pub(super) fn compile(operation: &apr_sdk::Pool, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let out = compiler.place_of(&operation.out, x.width, "the result")?;
    if (x.rows, out.rows) != (RowsOf::BATCH, RowsOf::OUTPUTS) {
        return Err(Error::invalid_argument("it makes rows of outputs from rows of the batch alone"));
    }
    compiler.outputs(operation.kind == Pooling::OUTPUTS)?;
    compiler.written(&out);
    compiler.push(Pool { kind: operation.kind, x, out, normalize: operation.normalize });
    Ok(())
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
