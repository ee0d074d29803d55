//! The choice of experts.

use crate::driver::{Buffer, Launch};
use crate::parameters;
use crate::session::compile::{Compiler, apart, divided, same_rows};
use crate::session::step::{self, Node, Step, index};
use crate::session::values::Place;
use apr_sdk::{Error, ExpertScore, Result};
use std::sync::Arc;

/// What the kernel has room for, as in `rows.cu`.
const MOST_EXPERTS: usize = 4096;
const MOST_GROUPS: usize = 256;
const MOST_CHOSEN: usize = 256;

struct Route {
    scores: Place,
    out: Place,
    score: ExpertScore,
    normalize: bool,
    scale: f32,
    bias: Option<Arc<Buffer>>,
    groups: u32,
    groups_used: u32,
}

/// Checks the kind of score.
pub(super) fn check(operation: &apr_sdk::Route) -> Result<()> {
    let all = [ExpertScore::SOFTMAX, ExpertScore::SIGMOID, ExpertScore::SOFTMAX_OF_CHOSEN];
    super::known(operation.score, &all, &operation.score.name())
}

pub(super) fn compile(operation: &apr_sdk::Route, compiler: &mut Compiler<'_>) -> Result<()> {
    let (scores, out) = (compiler.place(&operation.scores)?, compiler.place(&operation.out)?);
    same_rows(&[&scores, &out])?;
    apart(&out, &scores, "the scores")?;
    let used = out.width / 2;
    let size = divided(scores.width, operation.groups, "groups")?;
    let (groups, groups_used) = (index(operation.groups), index(operation.groups_used));
    let reachable = if groups_used == 0 { scores.width } else { groups_used.min(groups) * size };
    if !out.width.is_multiple_of(2) || used == 0 || used > reachable || groups_used > groups {
        return Err(Error::invalid_argument(format!(
            "a result of {} elements does not fit {} experts in {groups_used} of {groups} groups",
            out.width, scores.width
        )));
    }
    if scores.width > MOST_EXPERTS || used > MOST_CHOSEN || (groups_used > 0 && groups > MOST_GROUPS) {
        return Err(Error::unsupported(format!(
            "{used} of {} experts in {groups} groups: at most {MOST_CHOSEN} of {MOST_EXPERTS} in {MOST_GROUPS} can be chosen",
            scores.width
        )));
    }
    let bias = operation.bias.map(|bias| compiler.vector(bias, &[scores.width], "the bias")).transpose()?;
    compiler.written(&out);
    compiler.push(Route {
        scores,
        out,
        score: operation.score,
        normalize: operation.normalize,
        scale: operation.scale,
        bias: bias.map(|(buffer, _)| buffer),
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
