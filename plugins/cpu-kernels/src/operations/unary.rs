//! One value, element by element.

use super::functions::{sigmoid, tanh};
use crate::level::versions;
use crate::session::compile::{Compiler, same_or_apart, same_rows};
use crate::session::step::{Division, Step, Task};
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

impl Task for Unary {
    fn division(&self) -> Division {
        Division::Rows(self.x.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(self.x.rows, worker) {
            if self.x != self.out {
                // SAFETY: this worker has its rows to itself, and the two have no element in common.
                unsafe { step.values.write(&self.out, row).copy_from_slice(step.values.read(&self.x, row)) };
            }
            // SAFETY: this worker has its rows to itself.
            let out = unsafe { step.values.write(&self.out, row) };
            match self.kind {
                UnaryKind::AFFINE => affine(step.level, out, self.a, self.b),
                UnaryKind::SOFT_CAP => soft_cap(step.level, out, self.a),
                UnaryKind::CLAMP => clamp(step.level, out, self.a, self.b),
                // `check` let no other through.
                _ => sigmoids(step.level, out),
            }
        }
        Ok(())
    }
}

versions! {
    affine(x: &mut [f32], a: f32, b: f32) -> () {
        for x in x {
            *x = a * *x + b;
        }
    }

    /// Bounds elements to ± `cap` by tanh.
    soft_cap(x: &mut [f32], cap: f32) -> () {
        for x in x {
            *x = cap * tanh(*x / cap);
        }
    }

    clamp(x: &mut [f32], low: f32, high: f32) -> () {
        for x in x {
            // Comparisons rather than `clamp`, for a NaN must remain.
            let y = if *x < low { low } else { *x };
            *x = if y > high { high } else { y };
        }
    }

    sigmoids(x: &mut [f32]) -> () {
        for x in x {
            *x = sigmoid(*x);
        }
    }
}
