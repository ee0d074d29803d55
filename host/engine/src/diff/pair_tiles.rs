//! Cuts payloads that are read side by side into tiles, and shares the tiles of many pairs among threads.

use crate::crew::run_at_most;
use crate::diff::sides;
use crate::engine::Engine;
use crate::expression::{self, Expression};
use apr_sdk::{DTypeInfo, Error, Result};
use std::sync::{Mutex, PoisonError};

/// Bytes of a tile on the wider side: two of them fit a core's cache.
const TILE: u64 = 256 << 10;
/// Bytes of a tile where a side must be gathered: a transposed view is read in runs as long as its tile is
/// high.
const GATHER_TILE: u64 = 4 << 20;
/// Bytes that all tiles together may take.
const MEMORY: u64 = 96 << 20;
/// Pairs processed together: enough to keep all threads busy, few enough that a model of a million tensors
/// needs no memory for each.
pub const BATCH: usize = 4096;

/// The tiles of two payloads with the same number of elements, or of one payload taken as both.
pub struct PairTiles {
    /// Length of each side in bytes.
    pub len: [u64; 2],
    /// Length of a tile on each side, in bytes: whole blocks on both sides, and multiples of eight, so that packed types
    /// start on whole bytes.
    pub tile_len: [u64; 2],
    /// Number of tiles; 0 where nothing is to be read.
    pub count: u64,
    /// Numbers in a tile.
    pub tile_numbers: u64,
    /// Numbers in all tiles.
    numbers: u64,
    is_sequential: bool,
    memory: u64,
}

impl PairTiles {
    /// Cuts two payloads of `len` bytes and `elements` elements. `made_of` says how each side is read, or `None` for sequential
    /// payload; an element is `per_element` numbers.
    pub fn new(
        infos: [&DTypeInfo; 2],
        len: [u64; 2],
        made_of: Option<&[&Expression]>,
        elements: u64,
        per_element: u64,
    ) -> PairTiles {
        let expressions = made_of.unwrap_or_default();
        let gathers = expressions.iter().any(|expression| sides::is_gathered(expression));
        let tile = if gathers { GATHER_TILE } else { TILE };
        let per_tile =
            infos.iter().map(|i| tile / (8 * u64::from(i.block_bytes))).min().unwrap_or(1).max(1) * 8;
        let per_block = infos.map(|info| u64::from(info.block_elements));
        let common = per_block[0].max(per_block[1]);
        let tile_len =
            [0, 1].map(|side| per_tile * common / per_block[side] * u64::from(infos[side].block_bytes));
        // Sequential payload is held in windows and pieces of them, and a stream has its own buffer.
        let (times, streams) = if made_of.is_some() { (1, 0) } else { (4, 2 * expression::TILE) };
        let gathered =
            expressions.iter().map(|expression| sides::memory(expression)).fold(0, u64::saturating_add);
        PairTiles {
            len,
            tile_len,
            count: len[0].div_ceil(tile_len[0]),
            tile_numbers: per_tile * common * per_element,
            numbers: elements.saturating_mul(per_element),
            is_sequential: made_of.is_none(),
            memory: ((tile_len[0] + tile_len[1]) * times + streams).saturating_add(gathered),
        }
    }

    /// The number of units that threads can share.
    fn n_units(&self) -> u64 {
        if self.is_sequential { self.count.min(1) } else { self.count }
    }

    /// Length of tile `tile` on a side, in bytes.
    pub fn tile_bytes(&self, side: usize, tile: u64) -> usize {
        let at = tile * self.tile_len[side];
        usize::try_from(self.tile_len[side].min(self.len[side].saturating_sub(at))).unwrap_or(0)
    }

    /// Numbers in tile `tile`. Not what its bytes could hold: the last byte of a packed tensor may have
    /// unused bits.
    pub fn n_numbers(&self, tile: u64) -> usize {
        let left = self.numbers.saturating_sub(tile * self.tile_numbers);
        usize::try_from(left.min(self.tile_numbers)).unwrap_or(0)
    }
}

/// Runs `unit` for each unit of work of these pairs on all threads, as far as memory allows, with the worker's slot, the index
/// of the pair, and the unit's number in it: a tile, or 0 for the whole of sequential payload. Returns the slots.
///
/// # Errors
/// Any error from `unit`.
pub fn run_units<Slot: Default + Send>(
    engine: &Engine,
    pairs: &[&PairTiles],
    unit: &(dyn Fn(&mut Slot, usize, u64) -> Result<()> + Sync),
) -> Result<Vec<Slot>> {
    // The index of each pair's first unit, and of the first after all.
    let mut firsts = Vec::with_capacity(pairs.len() + 1);
    let mut n_units = 0u64;
    for pair in pairs {
        firsts.push(n_units);
        n_units += pair.n_units();
    }
    let memory = pairs.iter().filter(|pair| pair.count > 0).map(|pair| pair.memory).max().unwrap_or(1).max(1);
    let most = usize::try_from((MEMORY / memory).min(n_units).clamp(1, 64)).unwrap_or(1);
    let crew = engine.crew.as_ref();
    let slots: Vec<Mutex<Slot>> = (0..most.min(crew.width()).max(1)).map(|_| Mutex::default()).collect();
    let n_units = usize::try_from(n_units).map_err(|_| Error::limit("too much to read"))?;
    run_at_most(crew, most, n_units, &|slot, number| {
        let number = number as u64;
        let at = firsts.partition_point(|&first| first <= number) - 1;
        let mut slot = slots[slot].lock().unwrap_or_else(PoisonError::into_inner);
        unit(&mut slot, at, number - firsts[at])
    })?;
    Ok(slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}
