//! Reads the payloads of paired tensors side by side, one tile of each at a time, on all threads.
//!
//! Tiles of the same type are first compared as bytes. Only those that differ are decoded to numbers; if a
//! tensor has any, its other tiles are read again for their share of the norms. Results are merged in tile
//! order, first pass before second, so any number of threads gives the same sums.

use crate::diff::distance::{Distance, Measure};
use crate::diff::pair_tiles::{BATCH, PairTiles, run_units};
use crate::diff::rounding::Rounding;
use crate::diff::side_by_side::{in_pieces, side_by_side};
use crate::diff::sides::{Pair, Side, Sides};
use crate::engine::Engine;
use crate::expression::Expression;
use crate::registry::Registry;
use apr_sdk::{DType, Error, Result, checked_elements};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The result of comparing two tensors.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// True if all bytes are equal; never true for two types.
    pub same_bytes: bool,
    /// The distance between the values; `None` if they cannot be read, or need not be.
    pub distance: Option<Box<Distance>>,
    /// True if distances in representable values were computed.
    pub has_ulp: bool,
    /// Numbers per element: 2 for complex types.
    pub per_element: u64,
    /// For a type whose values cannot be read: how many of its blocks differ, and of how many.
    pub blocks: Option<(u64, u64)>,
    /// The narrower type, if one side's values are the other's, rounded to it.
    pub rounded_to: Option<DType>,
}

/// Compares pairs of tensors; a pair of two types whose values cannot be read gives an empty `Comparison`. For
/// models read in one dialect, it also finds out whether one side's values are the other's, rounded.
///
/// # Errors
/// Any error from reading, with the file as the user typed it; Cancelled.
pub fn compare(
    engine: &Engine,
    sides: &Sides<'_>,
    pairs: &[Pair],
    tolerance: f64,
) -> Result<Vec<Comparison>> {
    let mut total = 0;
    for pair in pairs {
        total += sides.a.tensor(pair.a).payload_len()? + sides.b.tensor(pair.b).payload_len()?;
    }
    let done = AtomicU64::new(0);
    let mut comparisons = Vec::with_capacity(pairs.len());
    for batch in pairs.chunks(BATCH) {
        let jobs = batch.iter().map(|&pair| Job::new(&engine.registry, sides, pair, tolerance));
        let jobs: Vec<Job> = jobs.collect::<Result<_>>()?;
        let run = Pass { engine, a: &sides.a, b: &sides.b, jobs: &jobs, done: &done, total };
        run.all(false)?;
        run.all(true)?;
        comparisons.extend(jobs.into_iter().map(Job::comparison));
    }
    Ok(comparisons)
}

/// A pair of tensors, cut into tiles.
struct Job {
    pair: Pair,
    /// The expression that reads each side; `None` for sequential payload.
    made_of: Option<[Expression; 2]>,
    measure: Option<Measure>,
    rounding: Option<Rounding>,
    /// True if equal bytes mean equal values.
    one_type: bool,
    tiles: PairTiles,
    /// Bytes of an element or block, for types whose values cannot be read.
    block: u64,
    state: Mutex<State>,
}

/// The result so far. `ahead` holds results that arrived before their turn.
#[derive(Default)]
struct State {
    next: u64,
    ahead: BTreeMap<u64, Tile>,
    distance: Distance,
    /// One bit for each tile whose bytes are equal.
    same: Vec<u64>,
    n_same: u64,
    blocks: u64,
}

/// The result for one tile.
enum Tile {
    Same,
    Apart(Box<Distance>),
    Blocks(u64),
}

impl Job {
    fn new(registry: &Registry, sides: &Sides<'_>, pair: Pair, tolerance: f64) -> Result<Job> {
        let tensors = [sides.a.tensor(pair.a), sides.b.tensor(pair.b)];
        let [left, right] = [tensors[0].dtype, tensors[1].dtype];
        let infos = [left.require()?, right.require()?];
        let measure = Measure::new(left, right, tolerance, registry);
        let len = [tensors[0].payload_len()?, tensors[1].payload_len()?];
        let made_of = match (sides.a.random(pair.a, registry)?, sides.b.random(pair.b, registry)?) {
            (Some(a), Some(b)) => Some([a, b]),
            _ => None,
        };
        if made_of.is_none() {
            check_in_order(&sides.a, pair.a)?;
            check_in_order(&sides.b, pair.b)?;
        }
        let rounding = if sides.translated { Rounding::new(left, right) } else { None };
        let per_element = measure.as_ref().map_or(1, |measure| measure.sides[0].per_element);
        let expressions = made_of.as_ref().map(|[a, b]| [a, b]);
        let elements = checked_elements(&tensors[0].shape)?;
        let expressions = expressions.as_ref().map(|both| &both[..]);
        let mut tiles = PairTiles::new(infos, len, expressions, elements, per_element);
        if left != right && measure.is_none() {
            tiles.count = 0;
        }
        let words = usize::try_from(tiles.count.div_ceil(64)).unwrap_or(0);
        let state = State { same: vec![0; words], ..State::default() };
        Ok(Job {
            pair,
            made_of,
            measure,
            rounding,
            one_type: left == right,
            tiles,
            block: u64::from(infos[0].block_bytes),
            state: Mutex::new(state),
        })
    }

    fn look(&self, tile: u64, a: &[u8], b: &[u8]) -> Tile {
        if self.one_type && a == b {
            return Tile::Same;
        }
        match &self.measure {
            Some(measure) => {
                let distance = measure.run(a, b, self.tiles.n_numbers(tile));
                if let Some(rounding) = self.rounding.as_ref().filter(|_| distance.differing > 0) {
                    rounding.look(a, b);
                }
                Tile::Apart(Box::new(distance))
            }
            None => {
                let size = usize::try_from(self.block).unwrap_or(1);
                Tile::Blocks(a.chunks(size).zip(b.chunks(size)).filter(|(a, b)| a != b).count() as u64)
            }
        }
    }

    /// A tile's contribution to the norms if both sides have the same bytes.
    fn alone(&self, tile: u64, bytes: &[u8]) -> Tile {
        match &self.measure {
            Some(m) => Tile::Apart(Box::new(m.run(bytes, bytes, self.tiles.n_numbers(tile)))),
            None => Tile::Blocks(0),
        }
    }

    /// Merges the result for a tile when its turn comes.
    fn take(&self, number: u64, tile: Tile) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ahead.insert(number, tile);
        loop {
            let next = state.next;
            let Some(tile) = state.ahead.remove(&next) else { break };
            match tile {
                Tile::Same => {
                    state.n_same += 1;
                    if let Some(word) = usize::try_from(next / 64).ok().and_then(|n| state.same.get_mut(n)) {
                        *word |= 1 << (next % 64);
                    }
                }
                Tile::Apart(distance) => state.distance.merge(&distance, next * self.tiles.tile_numbers),
                Tile::Blocks(count) => state.blocks += count,
            }
            state.next += 1;
        }
    }

    /// Returns whether the second pass must measure this tile: it was equal, but others of its tensor were not.
    fn is_left(&self, tile: u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let word = usize::try_from(tile / 64).ok().and_then(|n| state.same.get(n)).copied().unwrap_or(0);
        word >> (tile % 64) & 1 == 1
    }

    /// Returns whether a second pass is needed.
    fn has_more(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.measure.is_some() && state.n_same > 0 && state.n_same < self.tiles.count
    }

    fn comparison(self) -> Comparison {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let same_bytes = self.one_type && state.n_same == self.tiles.count;
        let readable = self.measure.is_some() && !same_bytes;
        let blocks = self.measure.is_none() && self.one_type && !same_bytes;
        Comparison {
            same_bytes,
            distance: readable.then(|| Box::new(state.distance)),
            has_ulp: self.measure.as_ref().is_some_and(Measure::has_ulp),
            per_element: self.measure.as_ref().map_or(1, |measure| measure.sides[0].per_element),
            blocks: blocks.then(|| (state.blocks, self.tiles.len[0] / self.block.max(1))),
            rounded_to: self.rounding.as_ref().and_then(Rounding::holds),
        }
    }
}

/// A comparison of a batch of jobs.
struct Pass<'a> {
    engine: &'a Engine,
    a: &'a Side<'a>,
    b: &'a Side<'a>,
    jobs: &'a [Job],
    done: &'a AtomicU64,
    total: u64,
}

impl Pass<'_> {
    /// Processes all jobs; `again` for the second pass.
    fn all(&self, again: bool) -> Result<()> {
        let jobs: Vec<&Job> = self.jobs.iter().filter(|job| !again || job.has_more()).collect();
        if again {
            // Tiles are counted anew: the sums of the second pass follow those of the first.
            for job in &jobs {
                job.state.lock().unwrap_or_else(PoisonError::into_inner).next = 0;
            }
        }
        let tiles: Vec<&PairTiles> = jobs.iter().map(|job| &job.tiles).collect();
        run_units(self.engine, &tiles, &|buffers, at, unit| self.unit(jobs[at], unit, again, buffers))?;
        Ok(())
    }

    fn unit(&self, job: &Job, unit: u64, again: bool, buffers: &mut [Vec<u8>; 2]) -> Result<()> {
        self.engine.check_cancelled()?;
        let Some(made_of) = &job.made_of else { return self.in_order(job, again) };
        if again && !job.is_left(unit) {
            job.take(unit, Tile::Blocks(0));
            return Ok(());
        }
        // The second pass needs only one side: the other has the same bytes.
        for side in 0..if again { 1 } else { 2 } {
            let buffer = &mut buffers[side];
            buffer.resize(job.tiles.tile_bytes(side, unit), 0);
            let (of, number) = if side == 0 { (self.a, job.pair.a) } else { (self.b, job.pair.b) };
            of.fill(self.engine, number, &made_of[side], unit * job.tiles.tile_len[side], buffer)?;
        }
        let [a, b] = buffers;
        let tile = if again { job.alone(unit, a) } else { job.look(unit, a, b) };
        self.tell(job, (a.len() + b.len()) as u64, again);
        job.take(unit, tile);
        Ok(())
    }

    /// Compares sequential payload.
    fn in_order(&self, job: &Job, again: bool) -> Result<()> {
        let a = (self.a.opened, check_in_order(self.a, job.pair.a)?);
        let b = (self.b.opened, check_in_order(self.b, job.pair.b)?);
        let sizes = job.tiles.tile_len.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        if again {
            return in_pieces(self.engine, a, sizes[0], &mut |tile, a| {
                job.take(tile, if job.is_left(tile) { job.alone(tile, a) } else { Tile::Blocks(0) });
                Ok(())
            });
        }
        side_by_side(self.engine, a, b, sizes, &mut |tile, a, b| {
            self.tell(job, (a.len() + b.len()) as u64, false);
            job.take(tile, job.look(tile, a, b));
            Ok(())
        })
    }

    fn tell(&self, job: &Job, bytes: u64, again: bool) {
        if !again {
            let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.engine.progress.bytes(done, self.total, self.a.own_name(job.pair.a));
        }
    }
}

/// The index in the model of a tensor whose payload is read sequentially, unchanged.
///
/// # Errors
/// Unsupported if its rows are needed in another order.
pub fn check_in_order(side: &Side<'_>, number: usize) -> Result<usize> {
    side.in_order(number).ok_or_else(|| {
        let message =
            "its payload in the other model can only be read sequentially, and its rows are in a different \
             order";
        let hint = "convert the other model to an uncompressed file and compare that";
        Error::unsupported(message).tensor(side.own_name(number)).hint(hint)
    })
}
