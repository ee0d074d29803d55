//! One value, element by element.

use super::functions::{sigmoid, tanh};
use crate::level::versions;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task};
use apr_sdk::{Columns, Result, UnaryKind};

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
