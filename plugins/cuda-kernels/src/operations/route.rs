//! The choice of experts.

use crate::driver::{Buffer, Launch};
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, Node, Step, index};
use apr_sdk::{Columns, Error, ExpertScore, Result};
use std::sync::Arc;

/// What the kernel has room for, as in `rows.cu`.
const MOST_EXPERTS: usize = 4096;
const MOST_GROUPS: usize = 256;
const MOST_CHOSEN: usize = 256;

struct Route {
    scores: Columns,
    out: Columns,
    score: ExpertScore,
    normalize: bool,
    scale: f32,
    bias: Option<Arc<Buffer>>,
    groups: u32,
    groups_used: u32,
}

pub(super) fn compile(operation: &apr_sdk::Route, compiler: &mut Compiler<'_>) -> Result<()> {
    let (scores, out) = (compiler.columns(&operation.scores), compiler.columns(&operation.out));
    let (groups, groups_used) = (index(operation.groups), index(operation.groups_used));
    let (experts, used) = (scores.width, out.width / 2);
    if experts > MOST_EXPERTS || used > MOST_CHOSEN || (groups_used > 0 && groups > MOST_GROUPS) {
        return Err(Error::unsupported(format!(
            "{used} of {experts} experts in {groups} groups: at most {MOST_CHOSEN} of {MOST_EXPERTS} in {MOST_GROUPS} can be chosen"
        )));
    }
    let bias = operation.bias.map(|bias| compiler.floats(bias)).transpose()?;
    compiler.written(&out);
    compiler.push(Route {
        scores,
        out,
        score: operation.score,
        normalize: operation.normalize,
        scale: operation.scale,
        bias,
        groups: operation.groups,
        groups_used: if groups_used == groups { 0 } else { operation.groups_used },
    });
    Ok(())
}

impl Node for Route {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let parameters = parameters::Route {
            scores: step.place(&self.scores),
            out: step.place(&self.out),
            bias: self.bias.as_ref().map_or(0, |bias| bias.at()),
            // The kernels number kinds as programs do.
            score: self.score.0,
            normalize: u32::from(self.normalize),
            groups: self.groups,
            groups_used: self.groups_used,
            scale: self.scale,
            pad: 0,
        };
        let rows = step.count(self.scores.rows);
        if rows > 0 {
            out.push(step::launch(("rows", "route"), [rows, 1, 1], 128, &parameters));
        }
    }
}
