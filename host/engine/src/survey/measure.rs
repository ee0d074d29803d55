//! Reads the payloads of one model, or of two side by side, once, a tile at a time on all threads, and measures what is in
//! them: statistics and a histogram of each tensor, and how far both lie apart.
//!
//! Counts are whole numbers and sums are exact: any number of threads, in whichever order they finish, gives the same.

use crate::contract::{RunStatistics, Statistics, statistics_in};
use crate::diff::pair_tiles::{BATCH, PairTiles, run_units};
use crate::diff::side_by_side::{in_pieces, side_by_side};
use crate::diff::sides::{Side, Sides};
use crate::diff::{Distance, Measure, check_in_order};
use crate::engine::Engine;
use crate::expression::Expression;
use crate::open::OpenedModel;
use crate::values::exact_sum::ExactSum;
use crate::values::moments::Moments;
use crate::values::numbers::{Chunk, Numbers};
use crate::values::spread::{Bins, Spread};
use apr_sdk::{Error, Result, checked_elements};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bins of a histogram.
const BINS: usize = 32;

/// The tensors that are read at once: one of a, of b, or one of each, of the same shape and with a common measure.
pub type Together = [Option<usize>; 2];

/// The result of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of each side that was read.
    pub sides: [Option<(Statistics, Bins)>; 2],
    /// Between both.
    pub apart: Option<Apart>,
}

/// The distance between two tensors.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// True if both have the same bytes of the same type.
    pub same_bytes: bool,
    /// The other distances; of the sums, those of squares.
    pub distance: Distance,
}

/// Measures these tensors. Histograms are made of the first `histograms`; the bins of others are empty.
///
/// # Errors
/// Any error from reading, with the file as the user typed it; Cancelled.
pub fn measure(
    engine: &Engine,
    sides: &Sides<'_>,
    all: &[Together],
    histograms: usize,
) -> Result<Vec<Measured>> {
    let both = [&sides.a, &sides.b];
    let mut total = 0;
    for (of, side) in all.iter().flat_map(|of| of.iter().zip(both)) {
        if let Some(number) = of {
            total += side.tensor(*number).payload_len()?;
        }
    }
    let done = AtomicU64::new(0);
    let mut measured = Vec::with_capacity(all.len());
    for (batch, together) in all.chunks(BATCH).enumerate() {
        let works = together.iter().enumerate().map(|(at, of)| {
            let has_bins = batch * BATCH + at < histograms;
            Work::new(engine, both, *of, has_bins)
        });
        let works: Vec<Work> = works.collect::<Result<_>>()?;
        Run { engine, sides: both, works: &works, done: &done, total }.all()?;
        measured.extend(works.into_iter().map(Work::measured));
    }
    Ok(measured)
}

/// Tensors that are read together, cut into tiles.
struct Work {
    of: Together,
    /// The expression that reads each; `None` where payload only comes in order.
    made_of: Option<[Option<Expression>; 2]>,
    numbers: [Option<Numbers>; 2],
    measure: Option<Measure>,
    one_type: bool,
    has_bins: bool,
    tiles: PairTiles,
    state: Mutex<State>,
}

/// The results so far.
#[derive(Default)]
struct State {
    runs: [RunStatistics; 2],
    sums: [ExactSum; 2],
    squares: [ExactSum; 2],
    spreads: [Spread; 2],
    bins: [Bins; 2],
    /// Tiles whose numbers are in the spreads.
    n_spread: u64,
    n_same: u64,
    distance: Distance,
    /// The sums of squares of the distance: of differences, and of a and b.
    apart: [ExactSum; 3],
}

/// The state of one worker.
#[derive(Default)]
struct Slot {
    buffers: [Vec<u8>; 2],
    /// Its counts of the current work, and the number of tiles they cover.
    spreads: [Spread; 2],
    work: Option<usize>,
    n_tiles: u64,
}

impl Work {
    fn new(engine: &Engine, sides: [&Side<'_>; 2], of: Together, has_bins: bool) -> Result<Work> {
        let registry = &engine.registry;
        let tensors = [0, 1].map(|side| of[side].map(|number| sides[side].tensor(number)));
        let Some(one) = tensors[0].or(tensors[1]) else {
            return Err(Error::invalid_argument("nothing to read"));
        };
        let [a, b] = tensors.map(|tensor| tensor.unwrap_or(one));
        let infos = [a.dtype.require()?, b.dtype.require()?];
        let numbers = tensors.map(|tensor| Numbers::with(tensor?.dtype, registry));
        let is_both = of.iter().all(Option::is_some);
        let measure = if is_both { Measure::new(a.dtype, b.dtype, 0.0, registry) } else { None };
        let mut expressions = [None, None];
        let mut is_random = true;
        for side in 0..2 {
            if let Some(number) = of[side] {
                expressions[side] = sides[side].random(number, registry)?;
                is_random &= expressions[side].is_some();
            }
        }
        let made_of = is_random.then_some(expressions);
        let len = [a.payload_len()?, b.payload_len()?];
        let per_element = numbers.iter().flatten().map(|numbers| numbers.per_element).max().unwrap_or(1);
        // What no plugin decodes is not read.
        let expressions = made_of.as_ref().map(|both| both.iter().flatten().collect::<Vec<_>>());
        let elements = checked_elements(&one.shape)?;
        let mut tiles = PairTiles::new(infos, len, expressions.as_deref(), elements, per_element);
        if numbers.iter().all(Option::is_none) {
            tiles.count = 0;
        }
        Ok(Work {
            of,
            made_of,
            numbers,
            measure,
            one_type: a.dtype == b.dtype,
            has_bins,
            tiles,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a tile; the bytes of a side that is not read are empty.
    fn look(&self, tile: u64, bytes: [&[u8]; 2], spreads: &mut [Spread; 2]) {
        let n = self.tiles.n_numbers(tile);
        let mut runs = [RunStatistics::default(), RunStatistics::default()];
        let mut see = |side: usize, chunk: Chunk<'_>| {
            runs[side].add(&statistics_in(chunk));
            if self.has_bins {
                spreads[side].add_all(chunk);
            }
        };
        let [a, b] = bytes;
        let distance = self.measure.as_ref().map(|measure| measure.run_seen(a, b, n, &mut see));
        if distance.is_none() {
            for (side, numbers) in self.numbers.iter().enumerate() {
                if let Some(numbers) = numbers {
                    numbers.chunks(bytes[side], n, &mut |chunk| see(side, chunk));
                }
            }
        }
        let mut state = self.state();
        for (side, run) in runs.iter().enumerate() {
            state.runs[side].add(run);
            state.sums[side].add_wide(run.moments.sum);
            state.squares[side].add_wide(run.moments.squares);
        }
        if let Some(distance) = distance {
            state.n_same += u64::from(self.one_type && a == b);
            let squares = [distance.sum_squares, distance.squares[0], distance.squares[1]];
            state.apart.iter_mut().zip(squares).for_each(|(sum, of)| sum.add_wide(of));
            state.distance.merge(&distance, tile * self.tiles.tile_numbers);
        }
    }

    /// Takes what was counted in `n_tiles` tiles; with the last of them its histograms are made, and the counts freed.
    fn spread(&self, spreads: &mut [Spread; 2], n_tiles: u64) {
        let mut state = self.state();
        let state = &mut *state;
        state.n_spread += n_tiles;
        for (side, spread) in spreads.iter_mut().enumerate() {
            state.spreads[side].take(spread);
            let least = state.runs[side].min;
            let greatest = state.runs[side].max;
            if state.n_spread == self.tiles.count && self.has_bins && least <= greatest {
                state.bins[side] = std::mem::take(&mut state.spreads[side]).bins([least, greatest], BINS);
            }
        }
    }

    fn measured(self) -> Measured {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut measured = Measured::default();
        for (side, bins) in state.bins.into_iter().enumerate() {
            if self.numbers[side].is_some() {
                let sum = state.sums[side].wide();
                let squares = state.squares[side].wide();
                let statistics = Statistics::new(&state.runs[side], Moments { sum, squares });
                measured.sides[side] = Some((statistics, bins));
            }
        }
        if self.measure.is_some() {
            let [sum_squares, a, b] = state.apart.map(|sum| sum.wide());
            let distance = Distance { sum_squares, squares: [a, b], ..state.distance };
            let same_bytes = self.one_type && state.n_same == self.tiles.count;
            measured.apart = Some(Apart { same_bytes, distance });
        }
        measured
    }
}

/// The measuring of a batch.
struct Run<'a> {
    engine: &'a Engine,
    sides: [&'a Side<'a>; 2],
    works: &'a [Work],
    done: &'a AtomicU64,
    total: u64,
}

impl Run<'_> {
    fn all(&self) -> Result<()> {
        let tiles: Vec<&PairTiles> = self.works.iter().map(|work| &work.tiles).collect();
        let mut slots = run_units(self.engine, &tiles, &|slot, at, unit| self.unit(slot, at, unit))?;
        slots.iter_mut().for_each(|slot| self.settle(slot));
        Ok(())
    }

    /// Hands over what a worker has counted.
    fn settle(&self, slot: &mut Slot) {
        if let Some(work) = slot.work.take() {
            self.works[work].spread(&mut slot.spreads, std::mem::take(&mut slot.n_tiles));
        }
    }

    fn unit(&self, slot: &mut Slot, at: usize, unit: u64) -> Result<()> {
        self.engine.check_cancelled()?;
        let work = &self.works[at];
        if slot.work != Some(at) {
            self.settle(slot);
            slot.work = Some(at);
        }
        let Slot { buffers, spreads, n_tiles, .. } = slot;
        let Some(made_of) = &work.made_of else { return self.in_order(work, spreads, n_tiles) };
        for (side, made_of) in made_of.iter().enumerate() {
            let Some((number, made_of)) = work.of[side].zip(made_of.as_ref()) else {
                buffers[side].clear();
                continue;
            };
            buffers[side].resize(work.tiles.tile_bytes(side, unit), 0);
            let at = unit * work.tiles.tile_len[side];
            self.sides[side].fill(self.engine, number, made_of, at, &mut buffers[side])?;
        }
        let [a, b] = &*buffers;
        self.look(work, unit, [a, b], spreads, n_tiles);
        Ok(())
    }

    /// Reads payload that comes in order.
    fn in_order(&self, work: &Work, spreads: &mut [Spread; 2], n_tiles: &mut u64) -> Result<()> {
        let sizes = work.tiles.tile_len.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        match work.of {
            [Some(a), Some(b)] => {
                let a = self.payload(0, a)?;
                let b = self.payload(1, b)?;
                side_by_side(self.engine, a, b, sizes, &mut |tile, a, b| {
                    self.look(work, tile, [a, b], spreads, n_tiles);
                    Ok(())
                })
            }
            [Some(a), None] => in_pieces(self.engine, self.payload(0, a)?, sizes[0], &mut |tile, a| {
                self.look(work, tile, [a, &[]], spreads, n_tiles);
                Ok(())
            }),
            [None, b] => {
                in_pieces(self.engine, self.payload(1, b.unwrap_or(0))?, sizes[1], &mut |tile, b| {
                    self.look(work, tile, [&[], b], spreads, n_tiles);
                    Ok(())
                })
            }
        }
    }

    /// The model of a side, and the index there of a tensor that comes in order.
    fn payload(&self, side: usize, number: usize) -> Result<(&OpenedModel, usize)> {
        let side = self.sides[side];
        Ok((side.opened, check_in_order(side, number)?))
    }

    /// Looks at a tile, and counts it.
    fn look(&self, work: &Work, tile: u64, bytes: [&[u8]; 2], spreads: &mut [Spread; 2], n_tiles: &mut u64) {
        work.look(tile, bytes, spreads);
        *n_tiles += 1;
        self.tell(work, bytes[0].len() + bytes[1].len());
    }

    fn tell(&self, work: &Work, bytes: usize) {
        let done = self.done.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let name = work.of.iter().zip(self.sides).find_map(|(number, side)| Some(side.own_name((*number)?)));
        self.engine.progress.bytes(done, self.total, name.unwrap_or_default());
    }
}
