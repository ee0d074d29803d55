//! Activation functions, gated or not.

use super::functions::{exp, narrow, normal_distribution, sigmoid, tanh};
use crate::level::Level;
use crate::level::versions;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task};
use apr_sdk::{Activation, Columns, Result};

/// How many elements are computed at a time.
pub(super) const CHUNK: usize = 256;

struct Activate {
    kind: Activation,
    gate: Columns,
    up: Option<Columns>,
    out: Columns,
    alpha: f32,
    limit: f32,
}

pub(super) fn compile(operation: &apr_sdk::Activate, compiler: &mut Compiler<'_>) {
    let (gate, out) = (compiler.columns(&operation.gate), compiler.columns(&operation.out));
    let up = operation.up.as_ref().map(|up| compiler.columns(up));
    compiler.written(&out);
    let (kind, alpha, limit) = (operation.kind, operation.alpha, operation.limit);
    compiler.push(Activate { kind, gate, up, out, alpha, limit });
}

impl Activate {
    /// f of some elements, times others.
    fn apply(&self, level: Level, x: &mut [f32], up: Option<&[f32]>) {
        match self.kind {
            Activation::SILU => silu(level, x),
            Activation::GELU_ERF => gelu_erf(level, x),
            Activation::GELU_TANH => gelu_tanh(level, x),
            Activation::GELU_QUICK => gelu_quick(level, x),
            Activation::RELU => relu(level, x),
            Activation::RELU_SQUARED => relu_squared(level, x),
            Activation::SIGMOID => sigmoids(level, x),
            Activation::SWIGLU_CLAMPED => {
                // `compile` saw to it that there is something to multiply.
                return swiglu_clamped(level, x, up.unwrap_or_default(), self.alpha, self.limit);
            }
            // `check` let no other through.
            _ => tanhs(level, x),
        }
        if let Some(up) = up {
            multiply(level, x, up);
        }
    }
}

impl Task for Activate {
    // By runs of elements rather than rows, for the widest values of a single row are divided here.
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let (mut x, mut up) = ([0f32; CHUNK], [0f32; CHUNK]);
        let chunks = self.gate.width.div_ceil(CHUNK);
        for unit in step.share(step.count(self.gate.rows) * chunks, worker) {
            let (row, first) = (unit / chunks, unit % chunks * CHUNK);
            let width = CHUNK.min(self.gate.width - first);
            let (x, up) = (&mut x[..width], &mut up[..width]);
            // SAFETY: this worker has its elements to itself; each slice ends before the next begins to live.
            unsafe {
                x.copy_from_slice(step.values.read(&self.gate.part(first, width), row));
                if let Some(place) = &self.up {
                    up.copy_from_slice(step.values.read(&place.part(first, width), row));
                }
                self.apply(step.level, x, self.up.is_some().then_some(up));
                step.values.write(&self.out.part(first, width), row).copy_from_slice(x);
            }
        }
        Ok(())
    }
}

versions! {
    silu(x: &mut [f32]) -> () {
        for x in x {
            *x /= 1.0 + exp(-*x);
        }
    }

    gelu_erf(x: &mut [f32]) -> () {
        for x in x {
            *x = narrow(f64::from(*x) * normal_distribution(*x));
        }
    }

    gelu_tanh(x: &mut [f32]) -> () {
        /// √(2/π).
        const FACTOR: f32 = 0.797_884_6;
        for x in x {
            // (1 + tanh u) / 2 is the sigmoid of 2u.
            *x *= sigmoid(2.0 * FACTOR * (*x + 0.044_715 * *x * *x * *x));
        }
    }

    gelu_quick(x: &mut [f32]) -> () {
        for x in x {
            *x *= sigmoid(1.702 * *x);
        }
    }

    relu(x: &mut [f32]) -> () {
        for x in x {
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
    }

    relu_squared(x: &mut [f32]) -> () {
        for x in x {
            *x = if *x < 0.0 { 0.0 } else { *x * *x };
        }
    }

    sigmoids(x: &mut [f32]) -> () {
        for x in x {
            *x = sigmoid(*x);
        }
    }

    tanhs(x: &mut [f32]) -> () {
        for x in x {
            *x = tanh(*x);
        }
    }

    multiply(x: &mut [f32], y: &[f32]) -> () {
        for (x, y) in x.iter_mut().zip(y) {
            *x *= y;
        }
    }

    swiglu_clamped(x: &mut [f32], up: &[f32], alpha: f32, limit: f32) -> () {
        for (x, up) in x.iter_mut().zip(up) {
            let gate = if *x > limit { limit } else { *x };
            let up = if *up > limit { limit } else { *up };
            let up = if up < -limit { -limit } else { up };
            *x = gate * sigmoid(alpha * gate) * (up + 1.0);
        }
    }
}
