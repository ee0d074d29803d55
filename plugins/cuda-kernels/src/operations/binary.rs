//! Two values, element by element.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, same_or_apart, same_rows};
use crate::session::step::{self, Node, Step};
use crate::session::values::Place;
use apr_sdk::{BinaryKind, Result};

struct Binary {
    kind: BinaryKind,
    a: Place,
    b: Place,
    out: Place,
}

/// Checks the kind.
pub(super) fn check(operation: &apr_sdk::Binary) -> Result<()> {
    let all = [BinaryKind::ADD, BinaryKind::MULTIPLY, BinaryKind::SUBTRACT];
    super::known(operation.kind, &all, &operation.kind.name())
}

pub(super) fn compile(operation: &apr_sdk::Binary, compiler: &mut Compiler<'_>) -> Result<()> {
    let (a, b) = (compiler.place(&operation.a)?, compiler.place(&operation.b)?);
    let out = compiler.place_of(&operation.out, a.width, "the result")?;
    if b.width != 1 {
        compiler.place_of(&operation.b, a.width, "the second")?;
    }
    same_rows(&[&a, &b, &out])?;
    same_or_apart(&out, &a, "the first")?;
    same_or_apart(&out, &b, "the second")?;
    compiler.written(&out);
    compiler.push(Binary { kind: operation.kind, a, b, out });
    Ok(())
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
