//! Activation functions, gated or not.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, rounded, same_or_apart, same_rows};
use crate::session::step::{self, Node, Step};
use crate::session::values::Place;
use apr_sdk::{Activation, Error, Result};

struct Activate {
    kind: Activation,
    gate: Place,
    up: Option<Place>,
    out: Place,
    alpha: f32,
    limit: f32,
    slot: Option<usize>,
}

/// Checks the kind.
pub(super) fn check(operation: &apr_sdk::Activate) -> Result<()> {
    let all = [
        Activation::SILU,
        Activation::GELU_ERF,
        Activation::GELU_TANH,
        Activation::GELU_QUICK,
        Activation::RELU,
        Activation::RELU_SQUARED,
        Activation::SWIGLU_CLAMPED,
        Activation::SIGMOID,
        Activation::TANH,
    ];
    super::known(operation.kind, &all, &operation.kind.name())
}

pub(super) fn compile(operation: &apr_sdk::Activate, compiler: &mut Compiler<'_>) -> Result<()> {
    let gate = compiler.place(&operation.gate)?;
    let out = compiler.place_of(&operation.out, gate.width, "the result")?;
    let up = operation.up.as_ref().map(|up| compiler.place_of(up, gate.width, "what is multiplied"));
    let up = up.transpose()?;
    same_rows(&[&gate, &out, up.as_ref().unwrap_or(&out)])?;
    same_or_apart(&out, &gate, "the argument")?;
    if let Some(up) = &up {
        same_or_apart(&out, up, "what is multiplied")?;
    } else if operation.kind == Activation::SWIGLU_CLAMPED {
        return Err(Error::invalid_argument("a clamped SwiGLU needs something to multiply"));
    }
    compiler.written(&out);
    let (kind, alpha, limit) = (operation.kind, operation.alpha, operation.limit);
    compiler.push_maker(&out, Activate { kind, gate, up, out, alpha, limit, slot: None });
    Ok(())
}

impl Node for Activate {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let parameters = parameters::Activate {
            gate: step.place(&self.gate),
            up: step.place_or_none(self.up.as_ref()),
            out: step.place(&self.out),
            to: rounded(step, self.slot, self.out.rows),
            // The kernels number kinds as programs do.
            kind: self.kind.0,
            alpha: self.alpha,
            limit: self.limit,
            pad: 0,
        };
        // A thread takes four elements.
        let grid = [self.out.width.div_ceil(4 * 128), step.count(self.out.rows), 1];
        if grid[1] > 0 {
            out.push(step::launch(("rows", "activate"), grid, 128, &parameters));
        }
    }

    fn round_into(&mut self, slot: usize) -> bool {
        let can = self.slot.is_none();
        self.slot = self.slot.or(Some(slot));
        can
    }
}
