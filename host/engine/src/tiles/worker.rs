//! One thread of the pipeline: makes the tiles of a unit of work, and writes them.

use crate::expression::Access;
use crate::expression::evaluate::Buffers;
use crate::expression::gather::{Gather, Part};
use crate::open::blocks::{BlockList, Decoder};
use crate::open::in_order::InOrder;
use crate::tiles::pipeline::Shared;
use crate::tiles::tile::Run;
use crate::values::cast::Changes;
use apr_sdk::{Codec, Error, Extent, Result};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The lists of blocks that some thread works by. The last thread that leaves a tensor drops its list.
#[derive(Default)]
pub struct Lists {
    /// Of which run, and its list.
    held: Mutex<Vec<(usize, Weak<BlockList>)>>,
    /// Held by the one thread that has blocks in memory too large for all to have one.
    large: Mutex<()>,
}

/// Fills a tile, or says why not; gives the CRC-32 of the source's bytes if it is not that of the tile.
type Fill<'f> = dyn FnMut(&mut Decoder, u64, &mut [u8]) -> Result<Option<u32>> + 'f;

/// What one thread keeps between its units.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    buffer: Vec<u8>,
    /// What is made into `buffer`, or out of it.
    made: Vec<u8>,
    /// What is made beside it.
    beside: Vec<u8>,
    buffers: Buffers,
    strip: Vec<u8>,
    decoder: Decoder,
    /// The blocks of the run that it works on.
    list: Option<(usize, Arc<BlockList>)>,
}

impl<'a> Worker<'a> {
    /// A thread's beginning.
    pub fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker {
            shared,
            buffer: Vec::new(),
            made: Vec::new(),
            beside: Vec::new(),
            buffers: Buffers::default(),
            strip: Vec::new(),
            decoder: Decoder::default(),
            list: None,
        }
    }

    /// Does unit number `unit` of a run, but for the tiles that are known already.
    ///
    /// # Errors
    /// What reading, the reader and writing raise; Cancelled.
    pub fn unit(&mut self, number: usize, unit: usize) -> Result<()> {
        let shared = self.shared;
        let run = &shared.job.tiles.runs[number];
        let read = |extent: Extent, out: &mut [u8]| shared.job.read(extent, out);
        let collect = |extent: Extent, out: &mut [u8]| shared.job.collect(extent, out);
        match run.expression.access()? {
            Access::Decode { tensor, codec } => self.decode(number, unit, (tensor, codec)),
            Access::Stream { tensor } => self.stream(number, tensor),
            Access::Gather(gather) if run.is_boxed() => {
                self.gather_box(number, &gather, &gather.part(unit), &collect)
            }
            access @ Access::Gather(_) => {
                self.tiles(number, unit, &mut |_, at, out| access.fill(&collect, at, out))
            }
            access => self.tiles(number, unit, &mut |_, at, out| access.fill(&read, at, out)),
        }
    }

    /// Makes a unit's tiles in order.
    fn tiles(&mut self, number: usize, unit: usize, fill: &mut Fill<'_>) -> Result<()> {
        let tiles = self.shared.job.tiles.runs[number].tiles_of(unit);
        let shared = self.shared;
        let mut left = tiles.filter(|&tile| !shared.is_done(number, tile));
        left.try_for_each(|tile| self.tile(number, tile, fill))
    }

    /// Makes and writes one tile, unless another thread failed.
    fn tile(&mut self, number: usize, tile: usize, fill: &mut Fill<'_>) -> Result<()> {
        let shared = self.shared;
        shared.engine.check_cancelled()?;
        if shared.stopped() {
            return Ok(());
        }
        let run = &shared.job.tiles.runs[number];
        let at = shared.job.tiles.tile(tile);
        let out = room(&mut self.buffer, at.len)?;
        let beside = shared.job.tiles.beside(number, tile);
        let beside_len = beside.map_or(0, |(_, tile)| shared.job.tiles.tile(tile).len);
        let scales = room(&mut self.beside, beside_len)?;
        let (source, changes) = match run.granule.is_some() {
            false => (fill(&mut self.decoder, at.at, out)?, Changes::default()),
            true => {
                let leaf = room(&mut self.made, run.before(at.len))?;
                let swapped = fill(&mut self.decoder, run.before(at.at), leaf)?;
                let source = swapped.unwrap_or_else(|| crc32fast::hash(leaf));
                let bytes = swapped.is_none().then_some(&*leaf);
                shared.job.saw(number, (at.at, at.len), source, bytes);
                let registry = &shared.engine.registry;
                let made = (at.at, &mut *out, &mut *scales);
                let changes = shared.job.evaluate(registry, number, leaf, made, &mut self.buffers)?;
                (Some(source), changes)
            }
        };
        let sum = crc32fast::hash(out);
        if run.granule.is_none() {
            let bytes = source.is_none().then_some(&*out);
            shared.job.saw(number, (at.at, at.len), source.unwrap_or(sum), bytes);
        }
        let source = source.unwrap_or(sum);
        shared.put((number, tile), out, (sum, source), changes)?;
        let Some(beside) = beside else { return Ok(()) };
        shared.put(beside, scales, (crc32fast::hash(scales), source), changes)
    }

    fn decode(&mut self, number: usize, unit: usize, (tensor, codec): (usize, &Codec)) -> Result<()> {
        let shared = self.shared;
        let run = &shared.job.tiles.runs[number];
        if run.len > 0 && run.tiles_of(unit).all(|tile| shared.is_done(number, tile)) {
            return Ok(());
        }
        let list = self.list(number, tensor)?;
        let source = shared.job.source;
        if list.small {
            return self.tiles(number, unit, &mut |decoder, at, out| {
                decoder.fill(source, (tensor, codec), &list, at, out).map(|()| None)
            });
        }
        // One thread at a time has large blocks, and decodes each once.
        if unit > 0 {
            return Ok(());
        }
        // What is committed in order has its turn instead: who holds the lock must not wait for one who wants it.
        let _alone = match run.in_order {
            None => Some(shared.lists.large.lock().unwrap_or_else(PoisonError::into_inner)),
            Some(_) if shared.await_turn(number) => None,
            Some(_) => return Ok(()),
        };
        let mut large = Decoder::default();
        let mut tiles = run.first..run.first + run.n_tiles();
        tiles.try_for_each(|tile| match shared.is_done(number, tile) {
            true => Ok(()),
            false => self.tile(number, tile, &mut |_, at, out| {
                large.fill(source, (tensor, codec), &list, at, out).map(|()| None)
            }),
        })
    }

    /// The blocks of a run's tensor, listed by the first thread that needs them.
    fn list(&mut self, number: usize, tensor: usize) -> Result<Arc<BlockList>> {
        if let Some((_, list)) = self.list.as_ref().filter(|(of, _)| *of == number) {
            return Ok(list.clone());
        }
        self.list = None;
        let mut held = self.shared.lists.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(_, list)| list.strong_count() > 0);
        let there = held.iter().find(|(of, _)| *of == number).and_then(|(_, list)| list.upgrade());
        let list = match there {
            Some(list) => list,
            None => {
                let list = Arc::new(BlockList::read(self.shared.engine, self.shared.job.source, tensor)?);
                held.push((number, Arc::downgrade(&list)));
                list
            }
        };
        self.list = Some((number, list.clone()));
        Ok(list)
    }

    /// Follows a stream from beginning to end. One that was followed half way before begins anew.
    fn stream(&mut self, number: usize, tensor: usize) -> Result<()> {
        let shared = self.shared;
        let run = &shared.job.tiles.runs[number];
        let mut tiles = run.tiles_of(0);
        if run.len > 0 && tiles.clone().all(|tile| shared.is_done(number, tile)) {
            return Ok(());
        }
        let mut stream = InOrder::begin(shared.engine, shared.job.source, tensor)?;
        tiles.try_for_each(|tile| match shared.is_done(number, tile) {
            // Known before, it is only passed on the way to the next.
            true => {
                shared.engine.check_cancelled()?;
                let len = run.before(shared.job.tiles.tile(tile).len);
                stream.fill(room(&mut self.buffer, len)?)
            }
            false => self.tile(number, tile, &mut |_, _, out| stream.fill(out).map(|()| None)),
        })
    }

    /// Gathers a box, and writes each of its runs to its place.
    fn gather_box(
        &mut self,
        number: usize,
        gather: &Gather,
        part: &Part,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let shared = self.shared;
        shared.engine.check_cancelled()?;
        let placed = &shared.job.tiles.runs[number];
        let after = |before: u64| placed.after(before);
        let (run, offsets) = gather.runs_of(part);
        let offsets: Vec<u64> = offsets.map(after).collect();
        let known = |(tile, ..): (usize, u64, u64)| shared.job.sums.get(tile).is_some();
        if offsets.iter().all(|&at| tiles_in(placed, at, after(run)).all(known)) {
            return Ok(());
        }
        let gathered = room(&mut self.buffer, run * offsets.len() as u64)?;
        gather.read_part(read, part, gathered, &mut self.strip)?;
        let size = usize::try_from(run).unwrap_or(usize::MAX);
        for (bytes, &at) in gathered.chunks_exact(size).zip(&offsets) {
            let (mut rest, mut at) = (bytes, at);
            for (tile, len, behind) in tiles_in(placed, at, after(run)) {
                let (now, later) = rest.split_at(usize::try_from(placed.before(len)).unwrap_or(0));
                // What was known before is not told again.
                let is_new = shared.job.sums.get(tile).is_none();
                let see = |bytes: &[u8]| if is_new { shared.job.see(number, at, bytes) } else { Ok(()) };
                if placed.granule.is_some() {
                    let out = room(&mut self.made, len)?;
                    let registry = &shared.engine.registry;
                    let changes =
                        shared.job.evaluate(registry, number, now, (at, out, &mut []), &mut self.buffers)?;
                    see(out)?;
                    shared.job.sink.write_at(placed.file, placed.offset + at, out)?;
                    let source = Some((now, placed.before(behind)));
                    if shared.job.sums.add(tile, (out, behind), source, changes) {
                        shared.finished(tile);
                    }
                } else {
                    see(now)?;
                    // Tile by tile: its bytes are in the cache, and the kernel takes long writes in pages of 2 MiB.
                    shared.job.sink.write_at(placed.file, placed.offset + at, now)?;
                    if shared.job.sums.add(tile, (now, behind), None, Changes::default()) {
                        shared.finished(tile);
                    }
                }
                at += len;
                rest = later;
            }
        }
        shared.written(number, after(gathered.len() as u64));
        Ok(())
    }
}

/// The tiles that `len` bytes at `at` of a run lie in: for each its number, how many of the bytes, and how many bytes
/// of the tile are behind them.
fn tiles_in(run: &Run, at: u64, len: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let (tile_len, end) = (run.tile_len, at + len);
    (at / tile_len..end.div_ceil(tile_len)).map(move |tile| {
        let tile_end = ((tile + 1) * tile_len).min(run.len);
        let (from, to) = (at.max(tile * tile_len), end.min(tile_end));
        (run.first + usize::try_from(tile).unwrap_or(usize::MAX), to - from, tile_end - to)
    })
}

/// So many bytes of a buffer, which grows if it must.
fn room(buffer: &mut Vec<u8>, len: u64) -> Result<&mut [u8]> {
    let len = usize::try_from(len).map_err(|_| Error::limit("a tile does not fit memory"))?;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    Ok(&mut buffer[..len])
}
