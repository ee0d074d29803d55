//! Rotary positions. Queries and keys that turn one after the other, and what stores the keys, become one kernel.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, List, Node, Step, index, short};
use apr_sdk::{Columns, Result, RopeStyle};

/// Cosines and sines for each row's position.
pub(crate) struct Turn {
    /// The table of angles.
    pub(crate) table: usize,
}

impl Node for Turn {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let angles = &step.plan.angles[self.table];
        let parameters = parameters::Turn {
            positions: step.list(List::Positions),
            frequencies: angles.frequencies.at(),
            angles: step.angles[self.table].at(),
            pairs: short(angles.pairs),
            magnitude: angles.magnitude,
        };
        let grid = [angles.pairs.div_ceil(128), step.batch, 1];
        out.push(step::launch(("rotate", "turn"), grid, 128, &parameters));
    }
}

/// Heads that turn.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) x: Columns,
    pub(crate) out: Option<Columns>,
    pub(crate) heads: usize,
    pub(crate) first: usize,
    pub(crate) pairs: usize,
    pub(crate) is_interleaved: bool,
    pub(crate) table: usize,
}

/// What one kernel turns and stores.
#[derive(Clone, Default)]
pub(crate) struct Rotate {
    /// What only turns.
    pub(crate) query: Option<Heads>,
    /// What turns, and is stored if there is a state.
    pub(crate) key: Option<Heads>,
    /// What is stored as it is, and its heads.
    pub(crate) value: Option<(Columns, usize)>,
    /// The state.
    pub(crate) cache: Option<usize>,
}

pub(super) fn compile(operation: &apr_sdk::Rope, compiler: &mut Compiler<'_>) -> Result<()> {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let (first, pairs) = (index(operation.first), operation.frequencies.len());
    let heads = index(operation.heads);
    super::held(x.width / heads)?;
    let nodes = compiler.plan.nodes.len();
    let table = compiler.angles(&operation.frequencies, operation.magnitude)?;
    let is_new = compiler.plan.nodes.len() > nodes;
    compiler.written(&out);
    let is_interleaved = operation.style == RopeStyle::INTERLEAVED;
    let turning = Heads { x, out: Some(out), heads, first, pairs, is_interleaved, table };
    let rotate = Rotate { query: Some(turning), ..Rotate::default() };
    if is_new || !compiler.join(&rotate) {
        compiler.push(rotate);
    }
    Ok(())
}

impl Rotate {
    fn turning(step: &Step<'_>, heads: Option<&Heads>) -> parameters::Turning {
        let Some(heads) = heads else { return parameters::Turning::default() };
        parameters::Turning {
            x: step.place(&heads.x),
            out: step.place_or_none(heads.out.as_ref()),
            angles: if heads.pairs > 0 { step.angles[heads.table].at() } else { 0 },
            heads: short(heads.heads),
            width: short(heads.x.width / heads.heads),
            first: short(heads.first),
            pairs: short(heads.pairs),
            is_interleaved: u32::from(heads.is_interleaved),
            pad: 0,
        }
    }
}

impl Node for Rotate {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let heads = |heads: &Option<Heads>| heads.as_ref().map_or(0, |heads| heads.heads);
        let value_heads = self.value.map_or(0, |(_, heads)| heads);
        let parameters = parameters::Rotate {
            query: Rotate::turning(step, self.query.as_ref()),
            key: Rotate::turning(step, self.key.as_ref()),
            value: step.place_or_none(self.value.as_ref().map(|(place, _)| place)),
            cache: self.cache.map(|cache| step.cache(&step.plan.caches[cache])).unwrap_or_default(),
            positions: step.list(List::Positions),
            sequences: step.list(List::Sequences),
            value_heads: short(value_heads),
            pad: 0,
        };
        let grid = [heads(&self.query) + heads(&self.key) + value_heads, step.batch, 1];
        out.push(step::launch(("rotate", "rotate"), grid, 128, &parameters));
    }

    /// Keys join queries, and what is stored joins the keys that it stores, if nothing of it is what was written before.
    fn join(&mut self, rotate: &Rotate) -> bool {
        let written = || self.query.iter().chain(&self.key).filter_map(|heads| heads.out);
        match (rotate.query, rotate.key, rotate.cache) {
            (Some(next), None, None) => {
                let is_apart = written()
                    .all(|out| !out.overlaps(&next.x) && next.out.is_none_or(|to| !out.overlaps(&to)));
                let reads = self.query.is_some_and(|query| next.out.is_none_or(|to| !to.overlaps(&query.x)));
                let can = self.key.is_none() && self.cache.is_none() && is_apart && reads;
                if can {
                    self.key = Some(next);
                }
                can
            }
            (None, Some(stored), Some(cache)) => {
                let is_key =
                    self.key.is_some_and(|key| key.out == Some(stored.x) && key.heads == stored.heads);
                let is_apart =
                    rotate.value.is_none_or(|(value, _)| written().all(|out| !out.overlaps(&value)));
                let can = self.cache.is_none() && is_key && is_apart;
                if can {
                    (self.cache, self.value) = (Some(cache), rotate.value);
                }
                can
            }
            _ => false,
        }
    }
}
