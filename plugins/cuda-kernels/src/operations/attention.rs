//! Attention over a cache.

use crate::driver::{Buffer, Launch};
use crate::parameters;
use crate::session::compile::{Compiler, rounded};
use crate::session::step::{self, List, Node, Step, index, short};
use apr_sdk::{Columns, Mask, Result, RowsOf};
use std::sync::Arc;

/// Positions whose scores a block computes at a time, and threads of a block, as in `attention.cuh`.
pub(crate) const CHUNK: usize = 128;
/// Positions of a run that is computed apart, at least, as there.
const RUN: usize = 32;
/// The most runs of positions that are computed apart.
pub(crate) const MOST_SPLITS: usize = 64;
/// Elements of queries, and of sums, that a block has room for.
const SHARED_ELEMENTS: usize = 4096;

/// A checked attention.
pub(crate) struct Attention {
    cache: usize,
    query: Columns,
    out: Columns,
    key_heads: usize,
    /// Query heads of a key head, how many of them a block takes, and how many blocks that makes.
    group: usize,
    per_block: usize,
    sets: usize,
    value: usize,
    view: u32,
    scale: f32,
    mask: Mask,
    window: u32,
    soft_cap: f32,
    sinks: Option<Arc<Buffer>>,
    slopes: Option<Buffer>,
    kernel: (&'static str, &'static str),
}

/// Attention as a node, which may round its result.
struct Attend {
    attention: Arc<Attention>,
    slot: Option<usize>,
}

/// The module and the kernel for cells of a type and so many heads at a time.
fn kernel(cells: &str, heads: usize) -> (&'static str, &'static str) {
    macro_rules! kernels {
        ($module:literal) => {
            match heads {
                1 => ($module, concat!($module, "_1")),
                2 => ($module, concat!($module, "_2")),
                3 | 4 => ($module, concat!($module, "_4")),
                _ => ($module, concat!($module, "_8")),
            }
        };
    }
    match cells {
        "f32" => kernels!("attention_f32"),
        "f16" => kernels!("attention_f16"),
        _ => kernels!("attention_q8_0"),
    }
}

pub(super) fn compile(operation: &apr_sdk::Attention, compiler: &mut Compiler<'_>) -> Result<()> {
    let number = index(operation.state);
    let cache = compiler.plan.caches[number];
    let (key_heads, key, value) = (cache.heads, cache.key, cache.value);
    let (query, out) = (compiler.columns(&operation.query), compiler.columns(&operation.out));
    let heads = index(operation.heads);
    let sinks = operation.sinks.map(|sinks| compiler.floats(sinks)).transpose()?;
    let slopes: Vec<u8> = operation.slopes.iter().flat_map(|slope| slope.to_le_bytes()).collect();
    let slopes = if slopes.is_empty() { None } else { Some(compiler.upload(&slopes)?) };
    let group = heads / key_heads;
    let fits = SHARED_ELEMENTS / key.next_multiple_of(16).max(value);
    // As many as a kernel has room for: it is made for 1, 2, 4 or 8.
    let room = if fits >= 8 {
        8
    } else if fits >= 4 {
        4
    } else {
        fits.clamp(1, 2)
    };
    let per_block = group.min(room);
    super::launchable(short(key_heads * group.div_ceil(per_block)), "key heads")?;
    compiler.written(&out);
    let attention = Arc::new(Attention {
        cache: number,
        query,
        out,
        key_heads,
        group,
        per_block,
        sets: group.div_ceil(per_block),
        value,
        view: if cache.views == Some(true) { operation.value_first } else { 0 },
        scale: operation.scale,
        mask: operation.mask,
        window: operation.window,
        soft_cap: operation.soft_cap,
        sinks,
        slopes,
        kernel: kernel(cache.cells, per_block),
    });
    compiler.plan.attentions.push(Arc::clone(&attention));
    compiler.push_maker(&out, Attend { attention, slot: None });
    Ok(())
}

/// Into how many runs so many positions are cut, where a device has room for so many at the same time. Few positions are taken
/// by one block, for joining runs takes time as well.
pub(crate) fn runs(positions: usize, room: usize) -> usize {
    if positions <= 2 * RUN {
        return 1;
    }
    // Powers of two, so that steps have few forms.
    positions.div_ceil(RUN).next_power_of_two().min(room.max(1).next_power_of_two()).min(MOST_SPLITS)
}

impl Attention {
    /// Blocks of a row and a run of positions.
    pub(crate) fn blocks(&self) -> usize {
        self.key_heads * self.sets
    }

    /// Bytes for what several blocks make of one query, and for counting those that have ended.
    pub(crate) fn room(&self, rows: usize, splits: usize) -> (usize, usize) {
        let units = rows.saturating_mul(self.blocks());
        let partials = units.saturating_mul(splits * self.per_block * (self.value + 2) * 4);
        if splits > 1 { (partials, units * 4) } else { (0, 0) }
    }
}

impl Node for Attend {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let attention = &*self.attention;
        let cache = &step.plan.caches[attention.cache];
        let at = |buffer: Option<&Buffer>| buffer.map_or(0, Buffer::at);
        let parameters = parameters::Attention {
            query: step.place(&attention.query),
            out: step.place(&attention.out),
            cache: step.cache(cache),
            positions: step.list(List::Positions),
            sequences: step.list(List::Sequences),
            lengths: step.list(List::Lengths),
            sinks: at(attention.sinks.as_deref()),
            slopes: at(attention.slopes.as_ref()),
            partials: step.partials.0,
            counters: step.partials.1,
            to: rounded(step, self.slot, RowsOf::BATCH),
            group: short(attention.group),
            per_block: short(attention.per_block),
            sets: short(attention.sets),
            view: attention.view,
            is_view: u32::from(cache.views == Some(true)),
            // The kernels number masks as programs do.
            mask: attention.mask.0,
            window: attention.window,
            splits: short(step.splits),
            scale: attention.scale,
            soft_cap: attention.soft_cap,
        };
        let grid = [step.splits, attention.blocks(), step.batch];
        out.push(step::launch(attention.kernel, grid, CHUNK, &parameters));
    }

    fn round_into(&mut self, slot: usize) -> bool {
        let can = self.slot.is_none() && self.attention.value.is_multiple_of(32);
        if can {
            self.slot = Some(slot);
        }
        can
    }
}
