//! One value, element by element.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, same_or_apart, same_rows};
use crate::session::step::{self, Node, Step};
use crate::session::values::Place;
use apr_sdk::{Error, Result, UnaryKind};

struct Unary {
    kind: UnaryKind,
    x: Place,
    out: Place,
    a: f32,
    b: f32,
}

/// Checks the kind.
pub(super) fn check(operation: &apr_sdk::Unary) -> Result<()> {
    let all = [UnaryKind::AFFINE, UnaryKind::SOFT_CAP, UnaryKind::CLAMP, UnaryKind::SIGMOID];
    super::known(operation.kind, &all, &operation.kind.name())
}

pub(super) fn compile(operation: &apr_sdk::Unary, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let out = compiler.place_of(&operation.out, x.width, "the result")?;
    same_rows(&[&x, &out])?;
    same_or_apart(&out, &x, "the input")?;
    let (kind, a, b) = (operation.kind, operation.a, operation.b);
    if kind == UnaryKind::SOFT_CAP && (a == 0.0 || a.is_nan()) {
        return Err(Error::invalid_argument(format!("{a} is no bound for a soft cap")));
    }
    compiler.written(&out);
    compiler.push(Unary { kind, x, out, a, b });
    Ok(())
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
