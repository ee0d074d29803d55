//! One thread of the pipeline: computes and writes the tiles of a unit.

use crate::expression::evaluate::{Buffers, Outcome};
use crate::expression::gather::{Gather, Part};
use crate::expression::{Access, Panel};
use crate::open::blocks::{BlockList, Decoder};
use crate::open::in_order::InOrder;
use crate::tiles::job::{Piece, Shared};
use crate::tiles::schedule::Member;
use crate::tiles::tile::Run;
use crate::values::cast::Changes;
use crate::values::usize_of;
use apr_sdk::{Codec, Error, Extent, Result};
use std::sync::{Arc, PoisonError};

/// Fills a tile or fails; returns the CRC-32 of the source's bytes if it differs from that of the tile.
type Fill<'f> = dyn FnMut(&mut Decoder, u64, &mut [u8]) -> Result<Option<u32>> + 'f;

/// The state that one thread keeps from unit to unit.
pub struct Worker<'a> {
    outputs: &'a [Shared<'a>],
    buffer: Vec<u8>,
    /// The other side of evaluating `buffer`.
    made: Vec<u8>,
    /// The result for the run beside it.
    beside: Vec<u8>,
    buffers: Buffers,
    strip: Vec<u8>,
    decoder: Decoder,
    /// Rows of the current packed weight.
    panel: Panel,
    /// The block list of the current tensor.
    list: Option<(usize, Arc<BlockList>)>,
}

impl<'a> Worker<'a> {
    /// The initial state of a thread.
    pub fn new(outputs: &'a [Shared<'a>]) -> Worker<'a> {
        Worker {
            outputs,
            buffer: Vec::new(),
            made: Vec::new(),
            beside: Vec::new(),
            buffers: Buffers::default(),
            strip: Vec::new(),
            decoder: Decoder::default(),
            panel: outputs.first().map_or_else(Panel::default, |shared| Panel::among(&shared.common.panels)),
            list: None,
        }
    }

    /// Processes unit `unit` of runs that come from the same bytes, except for finished tiles. Failures of a
    /// single output are recorded there, as belonging to unit `number` among all.
    ///
    /// # Errors
    /// Failures that affect all of them: any error from reading and the reader; Cancelled. Also any failure
    /// of an output that is computed alone.
    pub fn unit(&mut self, members: &[Member], unit: usize, number: usize) -> Result<()> {
        let together = Together { outputs: self.outputs, members, number };
        let (shared, run) = together.lead();
        let collect = |extent: Extent, out: &mut [u8]| shared.job.collect(extent, out);
        let access = run.expression.access()?;
        if !matches!(access, Access::Unpack(_)) {
            self.panel.leave();
        }
        match access {
            Access::Decode { tensor, codec } => self.decode(together, unit, tensor, codec),
            Access::Stream { tensor } => self.stream(together, tensor),
            Access::Gather(gather) if run.is_boxed() => {
                self.gather_box(together, &gather, &gather.part(unit), &collect)
            }
            Access::Unpack(unpack) => {
                let mut panel = std::mem::take(&mut self.panel);
                let done = self.tiles(together, unit, &mut |_, at, out| {
                    unpack.fill(&collect, at, out, &mut panel).map(|()| None)
                });
                self.panel = panel;
                done
            }
            access @ Access::Gather(_) => {
                self.tiles(together, unit, &mut |_, at, out| access.fill(&collect, at, out))
            }
            access => self.tiles(together, unit, &mut |_, at, out| {
                access.fill(&|extent, out| shared.job.read(extent, out), at, out)
            }),
        }
    }

    /// Computes a unit's tiles in order.
    fn tiles(&mut self, together: Together<'a, '_>, unit: usize, fill: &mut Fill<'_>) -> Result<()> {
        let tiles = together.lead().1.tiles_of(unit);
        let mut left = tiles.filter(|&tile| !together.is_done(tile));
        left.try_for_each(|tile| self.tile(together, tile, fill))
    }

    /// Computes and writes one tile for each output that still needs it.
    fn tile(&mut self, together: Together<'a, '_>, tile: usize, fill: &mut Fill<'_>) -> Result<()> {
        let (shared, run) = together.lead();
        let lead = together.members[0].run;
        shared.engine.check_cancelled()?;
        if together.members.iter().all(|member| together.outputs[member.output].stopped()) {
            return Ok(());
        }
        let at = shared.job.tiles.tile(tile);
        if run.granule.is_none() {
            let out = room(&mut self.buffer, at.len)?;
            let source = fill(&mut self.decoder, at.at, out)?;
            let sum = crc32fast::hash(out);
            let bytes = source.is_none().then_some(&*out);
            let source = source.unwrap_or(sum);
            shared.job.saw(lead, at.at, at.len, source, bytes);
            together.each(tile, |shared, member, tile| {
                shared.put(member.run, tile, out, [sum, source], Changes::default())
            });
            return Ok(());
        }
        let leaf = room(&mut self.made, run.before(at.len))?;
        let swapped = fill(&mut self.decoder, run.before(at.at), leaf)?;
        let source = swapped.unwrap_or_else(|| crc32fast::hash(leaf));
        let bytes = swapped.is_none().then_some(&*leaf);
        shared.job.saw(lead, at.at, at.len, source, bytes);
        let Worker { buffer, beside, buffers, .. } = self;
        // The last result and its inputs: the next may be the same.
        let mut last: Option<(usize, Outcome, [u32; 2])> = None;
        let mut values_of = None;
        together.each(tile, |shared, member, tile| {
            let Shared { job, .. } = shared;
            let at = job.tiles.tile(tile);
            let other = job.tiles.beside(member.run, tile);
            let out = room(buffer, at.len)?;
            let scales = room(beside, other.map_or(0, |(_, tile)| job.tiles.tile(tile).len))?;
            let (outcome, [sum, sum_beside]) = match last {
                Some((group, outcome, sums)) if group == together.alike(member) => (outcome, sums),
                _ => {
                    last = None;
                    // The F32 values it was computed from may be those of the next, too.
                    let operand = job.tiles.runs[member.run].expression.operand();
                    if values_of.is_some() && values_of == operand {
                        buffers.keep_values();
                    }
                    values_of = None;
                    let piece = Piece { run: member.run, at: at.at, out, beside: scales };
                    let outcome = job.evaluate(&shared.engine.registry, leaf, piece, buffers)?;
                    let sums = [crc32fast::hash(out), crc32fast::hash(scales)];
                    last = Some((together.alike(member), outcome, sums));
                    values_of = operand.filter(|_| buffers.holds_values());
                    (outcome, sums)
                }
            };
            job.lost(member.run, outcome.loss.as_ref());
            shared.put(member.run, tile, out, [sum, source], outcome.changes)?;
            let Some((run, tile)) = other else { return Ok(()) };
            shared.put(run, tile, scales, [sum_beside, source], outcome.changes)
        });
        Ok(())
    }

    fn decode(
        &mut self,
        together: Together<'a, '_>,
        unit: usize,
        tensor: usize,
        codec: &Codec,
    ) -> Result<()> {
        let (shared, run) = together.lead();
        if run.len > 0 && run.tiles_of(unit).all(|tile| together.is_done(tile)) {
            return Ok(());
        }
        let list = self.list(shared, tensor)?;
        let source = shared.job.source;
        if list.small {
            return self.tiles(together, unit, &mut |decoder, at, out| {
                decoder.fill(source, tensor, codec, &list, at, out).map(|()| None)
            });
        }
        // Only one thread at a time holds large blocks, and decodes each once.
        if unit > 0 {
            return Ok(());
        }
        // Runs that are committed in order take turns instead: the lock's owner must not wait for a thread
        // that wants the lock.
        let _alone = match run.in_order {
            None => Some(shared.common.lists.large.lock().unwrap_or_else(PoisonError::into_inner)),
            Some(_) if shared.await_turn(together.members[0].run) => None,
            Some(_) => return Ok(()),
        };
        let mut large = Decoder::default();
        let mut tiles = run.first..run.first + run.n_tiles();
        tiles.try_for_each(|tile| match together.is_done(tile) {
            true => Ok(()),
            false => self.tile(together, tile, &mut |_, at, out| {
                large.fill(source, tensor, codec, &list, at, out).map(|()| None)
            }),
        })
    }

    /// The block list of a tensor, created by the first thread that needs it.
    fn list(&mut self, shared: &Shared<'_>, tensor: usize) -> Result<Arc<BlockList>> {
        if let Some((_, list)) = self.list.as_ref().filter(|(of, _)| *of == tensor) {
            return Ok(list.clone());
        }
        self.list = None;
        let mut held = shared.common.lists.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(_, list)| list.strong_count() > 0);
        let there = held.iter().find(|(of, _)| *of == tensor).and_then(|(_, list)| list.upgrade());
        let list = match there {
            Some(list) => list,
            None => {
                let list = Arc::new(BlockList::read(shared.engine, shared.job.source, tensor)?);
                held.push((tensor, Arc::downgrade(&list)));
                list
            }
        };
        self.list = Some((tensor, list.clone()));
        Ok(list)
    }

    /// Follows a stream from start to end. A stream that was abandoned halfway starts anew.
    fn stream(&mut self, together: Together<'a, '_>, tensor: usize) -> Result<()> {
        let (shared, run) = together.lead();
        let mut tiles = run.tiles_of(0);
        if run.len > 0 && tiles.clone().all(|tile| together.is_done(tile)) {
            return Ok(());
        }
        let mut stream = InOrder::begin(shared.engine, shared.job.source, tensor)?;
        tiles.try_for_each(|tile| match together.is_done(tile) {
            // A finished tile is only read to get to the next.
            true => {
                shared.engine.check_cancelled()?;
                let len = run.before(shared.job.tiles.tile(tile).len);
                stream.fill(room(&mut self.buffer, len)?)
            }
            false => self.tile(together, tile, &mut |_, _, out| stream.fill(out).map(|()| None)),
        })
    }

    /// Gathers a box, and writes each of its runs to its place.
    fn gather_box(
        &mut self,
        together: Together<'a, '_>,
        gather: &Gather,
        part: &Part,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (shared, placed) = together.lead();
        let number = together.members[0].run;
        shared.engine.check_cancelled()?;
        let (run, offsets) = gather.runs_of(part);
        let offsets: Vec<u64> = offsets.map(|before| placed.after(before)).collect();
        let mut tiles = offsets.iter().flat_map(|&at| tiles_in(placed, at, placed.after(run)));
        if tiles.all(|(tile, ..)| shared.job.sums.get(tile).is_some()) {
            return Ok(());
        }
        let gathered = room(&mut self.buffer, run * offsets.len() as u64)?;
        gather.read_part(read, part, gathered, &mut self.strip)?;
        for (mut rest, &begin) in gathered.chunks_exact(usize_of(run)).zip(&offsets) {
            let mut at = begin;
            for (tile, len, behind) in tiles_in(placed, begin, placed.after(run)) {
                let (now, later) = rest.split_at(usize::try_from(placed.before(len)).unwrap_or(0));
                // A finished tile is not reported again.
                let is_new = shared.job.sums.get(tile).is_none();
                if placed.granule.is_some() {
                    let out = room(&mut self.made, len)?;
                    let piece = Piece { run: number, at, out, beside: &mut [] };
                    let registry = &shared.engine.registry;
                    let outcome = shared.job.evaluate(registry, now, piece, &mut self.buffers)?;
                    shared.job.lost(number, outcome.loss.as_ref());
                    if is_new {
                        shared.job.see(number, at, out)?;
                    }
                    shared.job.sink.write_at(placed.file, placed.offset + at, out)?;
                    let source = Some((now, placed.before(behind)));
                    if shared.job.sums.add(tile, (out, behind), source, outcome.changes) {
                        shared.finished(tile);
                    }
                } else {
                    if is_new {
                        shared.job.see(number, at, now)?;
                    }
                    // Tile by tile: the bytes are in the cache, and the kernel handles long writes in pages
                    // of 2 MiB.
                    shared.job.sink.write_at(placed.file, placed.offset + at, now)?;
                    if shared.job.sums.add(tile, (now, behind), None, Changes::default()) {
                        shared.finished(tile);
                    }
                }
                at += len;
                rest = later;
            }
        }
        shared.written(number, placed.after(gathered.len() as u64));
        Ok(())
    }
}

/// The runs that a unit computes from the same bytes; the first says which bytes these are.
#[derive(Clone, Copy)]
struct Together<'a, 'm> {
    outputs: &'a [Shared<'a>],
    members: &'m [Member],
    /// Index of the unit among all.
    number: usize,
}

impl<'a> Together<'a, '_> {
    /// The output and the run of the first member.
    fn lead(self) -> (&'a Shared<'a>, &'a Run) {
        let Member { output, run, .. } = self.members[0];
        let shared = &self.outputs[output];
        (shared, &shared.job.tiles.runs[run])
    }

    /// A member's tile that corresponds to one of the first member.
    fn tile_of(self, member: &Member, tile: usize) -> usize {
        self.outputs[member.output].job.tiles.runs[member.run].first + (tile - self.lead().1.first)
    }

    /// Returns whether no output needs a tile any more.
    fn is_done(self, tile: usize) -> bool {
        self.members.iter().all(|member| self.has(member, tile))
    }

    fn has(self, member: &Member, tile: usize) -> bool {
        let shared = &self.outputs[member.output];
        // A failed output needs nothing; if all have failed, computing the tile will show it.
        let is_over = self.members.len() > 1 && shared.stopped();
        is_over || shared.is_done(member.run, self.tile_of(member, tile))
    }

    /// Index of the first member with the same result as this one.
    fn alike(self, member: &Member) -> usize {
        let at = self.members.iter().position(|known| known == member).unwrap_or(0);
        (0..=at).rev().find(|&at| !self.members[at].repeats).unwrap_or(0)
    }

    /// Calls `make` for each output that needs a tile; if that fails, only that output is given up.
    fn each(self, tile: usize, mut make: impl FnMut(&'a Shared<'a>, &Member, usize) -> Result<()>) {
        for member in self.members {
            let shared = &self.outputs[member.output];
            if !self.has(member, tile)
                && let Err(error) = make(shared, member, self.tile_of(member, tile))
            {
                shared.fail(self.number, member.run, error);
            }
        }
    }
}

/// The tiles that overlap `len` bytes at offset `at` of a run: for each its index, how many of the bytes it
/// has, and how many bytes of the tile come after them.
fn tiles_in(run: &Run, at: u64, len: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let tile_len = run.tile_len;
    let end = at + len;
    (at / tile_len..end.div_ceil(tile_len)).map(move |tile| {
        let tile_end = ((tile + 1) * tile_len).min(run.len);
        let from = at.max(tile * tile_len);
        let to = end.min(tile_end);
        (run.first + usize_of(tile), to - from, tile_end - to)
    })
}

/// The first `len` bytes of a buffer, which grows if necessary.
fn room(buffer: &mut Vec<u8>, len: u64) -> Result<&mut [u8]> {
    let len = usize::try_from(len).map_err(|_| Error::limit("a tile does not fit in memory"))?;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    Ok(&mut buffer[..len])
}
