//! Attention over a cache.
//!
//! Positions are taken in runs of [`CHUNK`]. A run's softmax stands by itself, and runs are merged in their order; so it
//! changes no bit whether one worker takes them all or several share them. The queries of up to 8 rows and 8 heads that
//! look at the same keys are computed together.

use super::functions::{count, exp, narrow};
use super::vector;
use crate::level::Level;
use crate::session::cache::{Cache, PAGE};
use crate::session::compile::Compiler;
use crate::session::step::{BLOCK_ROWS, Block, Division, Step, Task, index, lock};
use apr_sdk::{Columns, Error, Mask, Result};
use std::ops::Range;
use std::sync::Arc;

mod kernels;

/// Positions whose softmax stands by itself.
const CHUNK: usize = 128;
/// Elements that workers exchange at most, 192 MiB: one token of 32 heads of 128 elements after 1,048,576 positions takes 136 MB.
/// Beyond that, units are not split, and some workers wait.
const MOST_EXCHANGED: usize = 48 << 20;
/// The most heads that are taken together.
const HEADS: usize = 8;

/// A checked attention.
pub(crate) struct Attention {
    cache: usize,
    query: Columns,
    out: Columns,
    /// Query heads, and how many of them share a key head.
    heads: usize,
    group: usize,
    key: usize,
    value: usize,
    /// Where a value begins in a key.
    view: usize,
    scale: f32,
    mask: Mask,
    window: usize,
    soft_cap: f32,
    sinks: Option<Arc<[f32]>>,
    slopes: Vec<f32>,
}

/// The second task: merges what several workers made of one query.
struct Merge(Arc<Attention>);

/// One worker's memory.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A page of keys, and one of values.
    keys: Vec<f32>,
    values: Vec<f32>,
    queries: Vec<f32>,
    scores: Vec<f32>,
    /// The sum of the run at hand, and of all before, for each query.
    run: Vec<f32>,
    sums: Vec<f32>,
    /// What each query has seen so far, and in the run at hand.
    seen: Vec<Seen>,
    later: Vec<Seen>,
}

/// What a query has seen: the largest score, and the sum of the exponentials of the scores less that.
#[derive(Clone, Copy, Debug)]
struct Seen {
    most: f32,
    total: f32,
}

impl Seen {
    const NOTHING: Seen = Seen { most: f32::NEG_INFINITY, total: 0.0 };

    fn is_nothing(self) -> bool {
        self.total == 0.0 && self.most == f32::NEG_INFINITY
    }

    /// Takes in a later run with its sum.
    fn merge(&mut self, sum: &mut [f32], later: Seen, run: &[f32], level: Level) {
        if later.is_nothing() {
            return;
        }
        if self.is_nothing() {
            *self = later;
            sum.copy_from_slice(run);
            return;
        }
        let most = if later.most > self.most { later.most } else { self.most };
        let (old, new) = (exp(self.most - most), exp(later.most - most));
        vector::blend(level, sum, old, run, new);
        *self = Seen { most, total: self.total * old + later.total * new };
    }
}

/// Queries that look at the same keys.
#[derive(Clone, Copy)]
struct Unit {
    block: Block,
    /// The key head.
    key_head: usize,
    /// The first query head, and how many.
    first: usize,
    heads: usize,
}

/// How a step's attention is divided.
#[derive(Clone, Copy)]
struct Split {
    units: usize,
    /// Into how many runs the positions are split.
    runs: usize,
    /// The most queries of a unit.
    queries: usize,
}

impl Unit {
    fn queries(&self) -> usize {
        self.block.rows * self.heads
    }
}

pub(super) fn compile(operation: &apr_sdk::Attention, compiler: &mut Compiler<'_>) {
    let cache = index(operation.state);
    let Cache { heads: key_heads, key, value, .. } = compiler.caches[cache];
    let (query, out) = (compiler.columns(&operation.query), compiler.columns(&operation.out));
    let heads = index(operation.heads);
    let sinks = operation.sinks.map(|sinks| compiler.floats(sinks));
    compiler.written(&out);
    let attention = Arc::new(Attention {
        cache,
        query,
        out,
        heads,
        group: heads / key_heads,
        key,
        value,
        view: index(operation.value_first),
        scale: operation.scale,
        mask: operation.mask,
        window: index(operation.window),
        soft_cap: operation.soft_cap,
        sinks,
        slopes: operation.slopes.clone(),
    });
    compiler.plan.attentions.push(Arc::clone(&attention));
    compiler.push(Arc::clone(&attention));
    compiler.push(Merge(attention));
}

impl Attention {
    /// How many units a block makes: a key head's queries are taken by [`HEADS`].
    fn sets(&self) -> usize {
        self.heads / self.group * self.group.div_ceil(HEADS)
    }

    /// The most queries of a unit.
    fn queries(&self) -> usize {
        BLOCK_ROWS * self.group.min(HEADS)
    }

    fn unit(&self, blocks: &[Block], unit: usize) -> Unit {
        let (block, set) = (blocks[unit / self.sets()], unit % self.sets());
        let per_key = self.group.div_ceil(HEADS);
        let (key_head, first) = (set / per_key, set % per_key * HEADS);
        let heads = HEADS.min(self.group - first);
        Unit { block, key_head, first: key_head * self.group + first, heads }
    }

    /// How the positions are split among workers; in one run where there are units enough for all.
    fn split(&self, blocks: &[Block], lengths: &[usize], workers: usize) -> Split {
        let units = blocks.len() * self.sets();
        let rows = blocks.iter().map(|block| block.rows).max().unwrap_or(0);
        let split = |runs| Split { units, runs, queries: rows * self.group.min(HEADS) };
        if units.is_multiple_of(workers) || units >= 4 * workers {
            return split(1);
        }
        let longest = blocks.iter().map(|block| lengths[block.sequence]).max().unwrap_or(0);
        let fine = split(longest.div_ceil(CHUNK).max(1));
        if self.exchanged(&fine) <= MOST_EXCHANGED { fine } else { split(1) }
    }

    /// Elements that are exchanged between the two tasks of a step.
    fn exchanged(&self, split: &Split) -> usize {
        if split.runs == 1 { 0 } else { split.units * split.runs * split.queries * (self.value + 2) }
    }

    /// Elements that a step exchanges.
    pub(crate) fn exchanges(&self, blocks: &[Block], lengths: &[usize], workers: usize) -> usize {
        self.exchanged(&self.split(blocks, lengths, workers))
    }

    /// Makes room for one worker.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub(crate) fn reserve(&self, scratch: &mut Scratch) -> Result<()> {
        let queries = self.queries();
        for (memory, len) in [
            (&mut scratch.keys, self.key * PAGE),
            (&mut scratch.values, self.value * PAGE),
            (&mut scratch.queries, queries * self.key),
            (&mut scratch.scores, queries * CHUNK),
            (&mut scratch.run, queries * self.value),
            (&mut scratch.sums, queries * self.value),
        ] {
            if memory.len() < len {
                memory
                    .try_reserve_exact(len - memory.len())
                    .map_err(|_| Error::io("not enough memory for attention"))?;
                memory.resize(len, 0.0);
            }
        }
        if scratch.seen.len() < queries {
            scratch.seen.resize(queries, Seen::NOTHING);
            scratch.later.resize(queries, Seen::NOTHING);
        }
        Ok(())
    }

    /// Which positions a query at `position` sees of a sequence of `length` positions.
    fn visible(&self, position: usize, length: usize) -> Range<usize> {
        let own = (position + 1).min(length);
        match self.mask {
            Mask::FULL => 0..length,
            Mask::WINDOW => own.saturating_sub(self.window)..own,
            Mask::CHUNK => position / self.window * self.window..own,
            Mask::PREFIX => 0..own.max(self.window.min(length)),
            // `check` let no other than the causal mask through.
            _ => 0..own,
        }
    }

    /// Computes a unit's queries over some runs of positions. Sums and what was seen are left in the scratch memory.
    fn attend(&self, step: &Step<'_>, scratch: &mut Scratch, unit: &Unit, runs: Range<usize>) {
        let (level, cache, queries) = (step.level, &step.caches[self.cache], unit.queries());
        for row in 0..unit.block.rows {
            let place = self.query.part(unit.first * self.key, unit.heads * self.key);
            // SAFETY: nothing writes queries in this task.
            let query = unsafe { step.values.read(&place, unit.block.first + row) };
            scratch.queries[row * query.len()..][..query.len()].copy_from_slice(query);
        }
        scratch.seen[..queries].fill(Seen::NOTHING);
        let sight = |query: usize| self.sight(step, unit, query);
        // Rows are in the order of their positions, so that the first sees the first and the last the last.
        let whole = sight(0).start..sight(queries - 1).end;
        for run in runs {
            let run = (run * CHUNK).max(whole.start)..((run + 1) * CHUNK).min(whole.end);
            if run.is_empty() {
                continue;
            }
            let base = run.start / CHUNK * CHUNK;
            for page in run.start / PAGE..run.end.div_ceil(PAGE) {
                let at = (unit.block.sequence, page, unit.key_head);
                // SAFETY: nothing writes to caches in this task.
                let keys = unsafe { cache.keys(level, at, &mut scratch.keys) };
                let scores = &mut scratch.scores[page * PAGE - base..];
                kernels::scores(level, keys, &scratch.queries, self.key, queries, scores);
            }
            for query in 0..queries {
                scratch.later[query] =
                    self.weigh(step, &mut scratch.scores[query * CHUNK..], unit, query, &run);
            }
            scratch.run[..queries * self.value].fill(0.0);
            for page in run.start / PAGE..run.end.div_ceil(PAGE) {
                let at = (unit.block.sequence, page, unit.key_head);
                // SAFETY: nothing writes to caches in this task.
                let values =
                    unsafe { cache.values(level, at, self.view, &mut scratch.values, &mut scratch.keys) };
                let within = (page * PAGE).max(run.start)..((page + 1) * PAGE).min(run.end);
                for query in 0..queries {
                    let seen = clip(&sight(query), &within);
                    let weights = &scratch.scores[query * CHUNK..][seen.start - base..seen.end - base];
                    let values = &values[(seen.start - page * PAGE) * self.value..];
                    let sum = &mut scratch.run[query * self.value..][..self.value];
                    kernels::weighted(level, sum, values, weights);
                }
            }
            for query in 0..queries {
                let part = query * self.value..(query + 1) * self.value;
                let (sum, run) = (&mut scratch.sums[part.clone()], &scratch.run[part]);
                scratch.seen[query].merge(sum, scratch.later[query], run, level);
            }
        }
    }

    /// Which positions a unit's query sees.
    fn sight(&self, step: &Step<'_>, unit: &Unit, query: usize) -> Range<usize> {
        let position = step.position(unit.block.first + query / unit.heads);
        self.visible(position, step.lengths[unit.block.sequence])
    }

    /// Turns the products of a query with the keys of a run into the weights of the values.
    fn weigh(
        &self,
        step: &Step<'_>,
        scores: &mut [f32],
        unit: &Unit,
        query: usize,
        run: &Range<usize>,
    ) -> Seen {
        let seen = clip(&self.sight(step, unit, query), run);
        if seen.is_empty() {
            return Seen::NOTHING;
        }
        let base = run.start / CHUNK * CHUNK;
        let scores = &mut scores[seen.start - base..seen.end - base];
        let slope = self.slopes.get(unit.first + query % unit.heads).copied().unwrap_or(0.0);
        let position = step.position(unit.block.first + query / unit.heads);
        let distance = narrow(count(position) - count(seen.start));
        kernels::adjust(step.level, scores, self.scale, self.soft_cap, slope, distance);
        let most = vector::largest(step.level, scores);
        Seen { most, total: vector::exponentials(step.level, scores, most) }
    }

    /// Puts a query's result in its place.
    fn finish(&self, step: &Step<'_>, unit: &Unit, query: usize, seen: Seen, sum: &[f32]) {
        let head = unit.first + query % unit.heads;
        let part = self.out.part(head * self.value, self.value);
        // SAFETY: this worker has the unit, and with it its heads of its rows, to itself.
        let out = unsafe { step.values.write(&part, unit.block.first + query / unit.heads) };
        if seen.is_nothing() {
            out.fill(0.0);
            return;
        }
        let (mut factor, mut total) = (1.0, seen.total);
        if let Some(sink) = self.sinks.as_ref().map(|sinks| sinks[head]) {
            let most = if sink > seen.most { sink } else { seen.most };
            factor = exp(seen.most - most);
            total = total * factor + exp(sink - most);
        }
        for (out, sum) in out.iter_mut().zip(sum) {
            *out = *sum * factor / total;
        }
    }

    /// Where in the exchange a query's part of a run lies.
    fn exchange(&self, split: &Split, (unit, run, query): (usize, usize, usize)) -> Range<usize> {
        let place = (unit * split.runs + run) * split.queries + query;
        place * (self.value + 2)..(place + 1) * (self.value + 2)
    }
}

/// The part of a range within another.
fn clip(range: &Range<usize>, within: &Range<usize>) -> Range<usize> {
    let start = range.start.clamp(within.start, within.end);
    start..range.end.clamp(start, within.end)
}

impl Task for Arc<Attention> {
    fn division(&self) -> Division {
        Division::Other
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let mut scratch = lock(&step.scratch[worker]);
        let split = self.split(step.blocks, step.lengths, step.workers);
        let runs = split.runs;
        // In turn rather than in one piece, for later rows see more.
        for piece in (worker..split.units * runs).step_by(step.workers) {
            let (number, run) = (piece / runs, piece % runs);
            let unit = self.unit(step.blocks, number);
            let range =
                if runs == 1 { 0..step.lengths[unit.block.sequence].div_ceil(CHUNK) } else { run..run + 1 };
            self.attend(step, &mut scratch, &unit, range);
            for query in 0..unit.queries() {
                let (seen, sum) = (scratch.seen[query], &scratch.sums[query * self.value..][..self.value]);
                if runs == 1 {
                    self.finish(step, &unit, query, seen, sum);
                    continue;
                }
                // SAFETY: this worker has this run of this unit to itself.
                let place = unsafe { step.exchange.write(self.exchange(&split, (number, run, query))) };
                place[0] = seen.most;
                place[1] = seen.total;
                place[2..].copy_from_slice(sum);
            }
        }
        Ok(())
    }
}

impl Task for Merge {
    fn division(&self) -> Division {
        Division::Other
    }

    fn is_idle(&self, step: &Step<'_>) -> bool {
        self.0.split(step.blocks, step.lengths, step.workers).runs == 1
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        let attention = &*self.0;
        let split = attention.split(step.blocks, step.lengths, step.workers);
        let mut scratch = lock(&step.scratch[worker]);
        let sum = &mut scratch.sums[..attention.value];
        for number in step.share(split.units, worker) {
            let unit = attention.unit(step.blocks, number);
            for query in 0..unit.queries() {
                let mut seen = Seen::NOTHING;
                for run in 0..split.runs {
                    // SAFETY: nothing writes to the exchange in this task.
                    let place =
                        unsafe { step.exchange.read(attention.exchange(&split, (number, run, query))) };
                    let later = Seen { most: place[0], total: place[1] };
                    seen.merge(sum, later, &place[2..], step.level);
                }
                attention.finish(step, &unit, query, seen, sum);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::RowsOf;

    #[test]
    fn what_is_exchanged_follows_from_the_rows_of_a_step_and_is_bounded() {
        let place = Columns { value: 0, first: 0, width: 4096, rows: RowsOf::BATCH };
        let attention = Attention {
            cache: 0,
            query: place,
            out: place,
            heads: 32,
            group: 4,
            key: 128,
            value: 128,
            view: 0,
            scale: 1.0,
            mask: Mask::CAUSAL,
            window: 0,
            soft_cap: 0.0,
            sinks: None,
            slopes: Vec::new(),
        };
        let exchanges = |rows: usize, length: usize, workers: usize| {
            let block = Block { sequence: 0, first: 0, rows };
            attention.exchanges(&[block], &[length], workers)
        };
        assert_eq!(exchanges(1, 131_072, 16), 8 * 1024 * 4 * 130);
        assert_eq!(exchanges(8, 131_072, 16), 8 * exchanges(1, 131_072, 16));
        // As many units as workers, and what is too much.
        assert_eq!(exchanges(1, 131_072, 8), 0);
        assert_eq!(exchanges(8, 1 << 20, 16), 0);
    }
}
