//! Rotary positions. Queries and keys that turn one after the other, and what stores the keys, become one kernel.

use crate::driver::Launch;
use crate::parameters;
use crate::session::compile::{Compiler, divided, same_or_apart, same_rows};
use crate::session::step::{self, List, Node, Step, index, short};
use crate::session::values::Place;
use apr_sdk::{Error, Result, RopeStyle, RowsOf};

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
    pub(crate) x: Place,
    pub(crate) out: Option<Place>,
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
    pub(crate) value: Option<(Place, usize)>,
    /// The state.
    pub(crate) cache: Option<usize>,
}

/// Checks the style.
pub(super) fn check(operation: &apr_sdk::Rope) -> Result<()> {
    super::known(operation.style, &[RopeStyle::HALF, RopeStyle::INTERLEAVED], &operation.style.name())
}

pub(super) fn compile(operation: &apr_sdk::Rope, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let out = compiler.place_of(&operation.out, x.width, "the result")?;
    if same_rows(&[&x, &out])? != RowsOf::BATCH {
        return Err(Error::invalid_argument("only the rows of a batch have positions"));
    }
    same_or_apart(&out, &x, "the input")?;
    let width = divided(x.width, operation.heads, "heads")?;
    let (first, pairs) = (index(operation.first), operation.frequencies.len());
    if pairs == 0 || first.checked_add(2 * pairs).is_none_or(|end| end > width) {
        return Err(Error::invalid_argument(format!(
            "{pairs} pairs from element {first} on are not within a head of {width} elements"
        )));
    }
    super::held(width)?;
    let nodes = compiler.plan.nodes.len();
    let table = compiler.angles(&operation.frequencies, operation.magnitude)?;
    let is_new = compiler.plan.nodes.len() > nodes;
    compiler.written(&out);
    let (heads, is_interleaved) = (index(operation.heads), operation.style == RopeStyle::INTERLEAVED);
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
                let is_apart =
                    written().all(|out| !out.meets(&next.x) && next.out.is_none_or(|to| !out.meets(&to)));
                let reads = self.query.is_some_and(|query| next.out.is_none_or(|to| !to.meets(&query.x)));
                let can = self.key.is_none() && self.cache.is_none() && is_apart && reads;
                if can {
                    self.key = Some(next);
                }
                can
            }
            (None, Some(stored), Some(cache)) => {
                let is_key =
                    self.key.is_some_and(|key| key.out == Some(stored.x) && key.heads == stored.heads);
                let is_apart = rotate.value.is_none_or(|(value, _)| written().all(|out| !out.meets(&value)));
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
