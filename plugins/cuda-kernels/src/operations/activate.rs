//! Activation functions, gated or not.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, rounded};
use crate::session::step::{self, Node, Step};
use apr_sdk::{Activation, Columns};

struct Activate {
    kind: Activation,
    gate: Columns,
    up: Option<Columns>,
    out: Columns,
    alpha: f32,
    limit: f32,
    slot: Option<usize>,
}

pub(super) fn compile(operation: &apr_sdk::Activate, compiler: &mut Compiler<'_>) {
    let (gate, out) = (compiler.columns(&operation.gate), compiler.columns(&operation.out));
    let up = operation.up.as_ref().map(|up| compiler.columns(up));
    compiler.written(&out);
    let (kind, alpha, limit) = (operation.kind, operation.alpha, operation.limit);
    compiler.push_maker(&out, Activate { kind, gate, up, out, alpha, limit, slot: None });
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
