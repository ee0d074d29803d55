//! Commits the payload of one file in order.

use super::coder::Coder;
use super::commit_places::{CommittedFile, Unit};
use crate::expression::TILE;
use crate::layout::{OutputFile, Segment};
use crate::tiles::inline::write_zeros;
use crate::tiles::sink::{TileRecord, TileSink};
use apr_sdk::{Error, Model, Result, Writer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A segment that is committed in order.
struct Lane<'a> {
    segment: &'a Segment,
    /// Its length, if that does not follow from what is written.
    len: u64,
    /// Encodes it, unless it is raw.
    coder: Option<Coder<'a>>,
    /// Index of its first unit in the file.
    first: usize,
    n_units: usize,
    raw_len: u64,
    /// Raw bytes per unit; the last may be shorter.
    unit_len: u64,
}

impl Lane<'_> {
    /// Raw length of its unit `unit`.
    fn len_of(&self, unit: usize) -> u64 {
        self.unit_len.min(self.raw_len - unit as u64 * self.unit_len)
    }
}

/// A file whose payload is committed in order.
pub struct Committer<'a> {
    file: usize,
    /// Index of its first such segment.
    first: usize,
    lanes: Vec<Lane<'a>>,
    /// The names of the segments' tensors, for errors; empty for a segment that has none.
    names: Vec<&'a str>,
    /// The number of units.
    pub n_units: usize,
    /// Limit on the number of units that are started but not committed.
    window: usize,
    /// Index of its first unit in the journal.
    base: usize,
    state: Mutex<State>,
    /// Signalled when `next` grows.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// The unit to commit next.
    next: usize,
    /// Number of units that an earlier run committed.
    kept: usize,
    /// The offset of the next byte.
    offset: u64,
    /// True if some thread is committing.
    is_writing: bool,
    /// Units of which some bytes have arrived.
    filling: HashMap<usize, Filling>,
    /// Units that wait for their turn.
    ready: HashMap<usize, Ready>,
    places: Vec<(u64, u64)>,
    units: Vec<Unit>,
}

struct Filling {
    bytes: Vec<u8>,
    missing: usize,
}

struct Ready {
    stored: Vec<u8>,
    blocks: Box<[u32]>,
    raw: u32,
}

impl<'a> Committer<'a> {
    /// Commits file `number` from its segment `first` on. At most `window` units may be started but not
    /// committed; the journal numbers them from `base`.
    pub fn new(
        number: usize,
        file: &'a OutputFile,
        first: usize,
        writer: &Arc<dyn Writer>,
        window: usize,
        base: usize,
    ) -> Committer<'a> {
        let mut n_units = 0;
        let lanes = file.segments[first..].iter().map(|placed| {
            let (raw_len, unit_len, coder) = match &placed.segment {
                Segment::Payload { encoded: Some(encoded), .. } => {
                    let coder = Coder { writer: Arc::clone(writer), encoded };
                    (encoded.raw_len, encoded.unit_len(), Some(coder))
                }
                Segment::Payload { .. } | Segment::Copy(_) => (placed.len, TILE, None),
                _ => (0, TILE, None),
            };
            let of_lane = usize::try_from(raw_len.div_ceil(unit_len)).unwrap_or(usize::MAX);
            let first = n_units;
            n_units += of_lane;
            let len = placed.len;
            Lane { segment: &placed.segment, len, coder, first, n_units: of_lane, raw_len, unit_len }
        });
        let lanes: Vec<_> = lanes.collect();
        let names = vec![""; lanes.len()];
        let offset = file.segments[first].offset;
        let state = Mutex::new(State { offset, ..State::default() });
        Committer { file: number, first, lanes, names, n_units, window, base, state, moved: Condvar::new() }
    }

    /// Sets the tensors' names, for errors.
    pub fn name(&mut self, model: &'a Model) {
        for (name, lane) in self.names.iter_mut().zip(&self.lanes) {
            if let Segment::Payload { tensor, .. } = lane.segment {
                *name = &model.tensors[*tensor].name;
            }
        }
    }

    /// Wakes all waiting threads.
    pub fn wake(&self) {
        // While locked, or a thread could check before and go to sleep after.
        let _state = self.lock();
        self.moved.notify_all();
    }

    /// Waits until everything before the unit at offset `at` of a segment is committed; returns whether to
    /// continue.
    pub fn await_turn(&self, segment: usize, at: u64, stopped: &dyn Fn() -> bool) -> bool {
        let Some((lane, unit)) = self.unit_at(segment, at) else { return true };
        self.wait(lane.first + unit, 0, stopped).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unit that contains a byte of a segment.
    fn unit_at(&self, segment: usize, at: u64) -> Option<(&Lane<'a>, usize)> {
        let lane = self.lanes.get(segment.checked_sub(self.first)?)?;
        Some((lane, usize::try_from(at / lane.unit_len).ok()?))
    }

    /// Waits until at most `ahead` units before this one are uncommitted; `None` if the work was stopped.
    fn wait(&self, unit: usize, ahead: usize, stopped: &dyn Fn() -> bool) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        while unit > state.next + ahead && !stopped() {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (!stopped()).then_some(state)
    }

    /// Accepts raw bytes that begin `at` bytes into a segment; returns whether to continue.
    ///
    /// # Errors
    /// Any error from encoding and the sink.
    pub fn put(
        &self,
        segment: usize,
        mut at: u64,
        bytes: &[u8],
        sink: &dyn TileSink,
        stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let there = self.unit_at(segment, at).filter(|(lane, _)| at < lane.raw_len);
            let (lane, unit) = there.ok_or_else(|| Error::plugin("more bytes were written than planned"))?;
            let into = at - unit as u64 * lane.unit_len;
            let n = usize::try_from(lane.len_of(unit) - into).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(n);
            let Some(state) = self.wait(lane.first + unit, self.window - 1, stopped) else {
                return Ok(false);
            };
            if let Some(raw) = whole(state, lane, unit, into, now)? {
                self.done(lane, unit, raw, sink)?;
            }
            at += n as u64;
            rest = later;
        }
        Ok(true)
    }

    /// Encodes a unit, and commits every unit whose turn has come. A unit that an earlier run committed is
    /// only compared.
    fn done(&self, lane: &Lane<'_>, unit: usize, raw: Cow<'_, [u8]>, sink: &dyn TileSink) -> Result<()> {
        let number = lane.first + unit;
        let sum = crc32fast::hash(&raw);
        {
            let state = self.lock();
            if number < state.kept {
                if state.units[number].raw == sum {
                    return Ok(());
                }
                let error = Error::failed("the encoded bytes differ from those of the interrupted run");
                return Err(error.hint("run the command without --resume to start over"));
            }
        }
        let (stored, blocks) = match &lane.coder {
            Some(coder) => {
                let encoded = coder.encode(unit as u64 * lane.unit_len, &raw);
                encoded.map_err(|e| e.in_file(sink.show(self.file)))?
            }
            None => (raw.into_owned(), Box::default()),
        };
        self.commit(number, Ready { stored, blocks, raw: sum }, sink)
    }

    /// Commits a unit and those after it that are ready, unless another thread is already doing so: then that
    /// one will.
    fn commit(&self, number: usize, ready: Ready, sink: &dyn TileSink) -> Result<()> {
        let mut state = self.lock();
        state.ready.insert(number, ready);
        if state.is_writing {
            return Ok(());
        }
        state.is_writing = true;
        let mut done = Ok(());
        while done.is_ok() {
            let next = state.next;
            let Some(Ready { stored, blocks, raw }) = state.ready.remove(&next) else { break };
            let offset = state.offset;
            // The others continue meanwhile.
            drop(state);
            done = sink.write_at(self.file, offset, &stored).map_err(|e| self.of_tensor(next, e));
            let len = stored.len() as u64;
            let unit = Unit { offset, len, stored: crc32fast::hash(&stored), raw, blocks };
            let record = unit.record();
            state = self.lock();
            done = done.and_then(|()| {
                self.note(&mut state, unit, sink)?;
                sink.finished(self.base + next, record);
                Ok(())
            });
            self.moved.notify_all();
        }
        state.is_writing = false;
        done
    }

    /// Index of the lane that a unit belongs to.
    fn lane_of(&self, unit: usize) -> usize {
        self.lanes.partition_point(|lane| lane.first + lane.n_units <= unit)
    }

    /// Adds the name of a unit's tensor to an error: the committing thread may have computed another one.
    fn of_tensor(&self, unit: usize, error: Error) -> Error {
        let name = self.names.get(self.lane_of(unit)).filter(|name| !name.is_empty());
        name.into_iter().fold(error, |error, name| error.tensor(*name))
    }

    /// Records that the next unit is committed, and writes what follows it up to the next unit.
    fn note(&self, state: &mut State, unit: Unit, sink: &dyn TileSink) -> Result<()> {
        state.offset += unit.len;
        state.next += 1;
        if let Some((_, len)) = state.places.last_mut() {
            *len += unit.len;
        }
        state.units.push(unit);
        self.pass(state, sink)
    }

    /// Settles the places of segments up to that of the next unit, and writes those that are not payload.
    fn pass(&self, state: &mut State, sink: &dyn TileSink) -> Result<()> {
        loop {
            let at = state.places.len();
            let is_open = at.checked_sub(1).is_some_and(|last| {
                let lane = &self.lanes[last];
                state.next < lane.first + lane.n_units
            });
            let Some(lane) = self.lanes.get(at).filter(|_| !is_open) else { return Ok(()) };
            let offset = state.offset;
            let len = match lane.segment {
                Segment::Inline(bytes) => {
                    sink.write_at(self.file, offset, bytes)?;
                    bytes.len() as u64
                }
                Segment::Pad { to } => {
                    let len = (to - offset % to) % to;
                    write_zeros(sink, self.file, offset, len)?;
                    len
                }
                Segment::Hole { .. } => lane.len,
                Segment::Payload { .. } | Segment::Copy(_) => 0,
            };
            state.places.push((offset, len));
            state.offset += len;
        }
    }

    /// Writes what comes before the first unit, and keeps the units in `records` that are still intact.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn begin(&self, sink: &dyn TileSink, records: &HashMap<u64, &TileRecord>) -> Result<()> {
        let mut state = self.lock();
        self.pass(&mut state, sink)?;
        let mut bytes = Vec::new();
        while state.next < self.n_units {
            let Some(record) = records.get(&((self.base + state.next) as u64)) else { break };
            let Some(unit) = self.recorded(state.next, record, state.offset) else { break };
            bytes.resize(usize::try_from(unit.len).unwrap_or(usize::MAX), 0);
            let there = sink.read_back(self.file)?.read_at(unit.offset, &mut bytes);
            if there.is_err() || crc32fast::hash(&bytes) != unit.stored {
                break;
            }
            self.note(&mut state, unit, sink)?;
        }
        state.kept = state.next;
        Ok(())
    }

    /// An earlier run's record of a unit, if it can be a unit at this offset.
    fn recorded(&self, number: usize, record: &[u8], offset: u64) -> Option<Unit> {
        let lane = self.lanes.get(self.lane_of(number))?;
        let raw_len = lane.len_of(number - lane.first);
        let (n_blocks, bound) = match &lane.coder {
            Some(coder) => (coder.n_blocks(raw_len), coder.bound(raw_len)),
            None => (0, raw_len),
        };
        let mut unit = Unit::of_record(record)?;
        let blocks: u64 = unit.blocks.iter().map(|len| u64::from(*len)).sum();
        unit.len = if lane.coder.is_some() { blocks } else { raw_len };
        let fits = unit.offset == offset && unit.blocks.len() as u64 == n_blocks && unit.len <= bound;
        fits.then_some(unit)
    }

    /// The places that everything was written to.
    ///
    /// # Errors
    /// Plugin if something was never computed.
    pub fn finish(self) -> Result<CommittedFile> {
        let Committer { first, lanes, n_units, state, .. } = self;
        let State { places, units, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if units.len() != n_units || places.len() != lanes.len() {
            let made = units.len();
            return Err(Error::plugin(format!(
                "only {made} of {n_units} units of encoded payload were written"
            )));
        }
        let cuts = lanes.iter().map(|lane| (lane.unit_len, lane.first)).collect();
        Ok(CommittedFile { first, places, units, cuts })
    }
}

/// The bytes of a unit, once they are complete.
fn whole<'b>(
    mut state: MutexGuard<'_, State>,
    lane: &Lane<'_>,
    unit: usize,
    into: u64,
    now: &'b [u8],
) -> Result<Option<Cow<'b, [u8]>>> {
    let too_long = || Error::limit("a unit of encoded payload does not fit in memory");
    let len = usize::try_from(lane.len_of(unit)).map_err(|_| too_long())?;
    if now.len() == len {
        return Ok(Some(Cow::Borrowed(now)));
    }
    let number = lane.first + unit;
    let filling = match state.filling.entry(number) {
        Entry::Occupied(filling) => filling.into_mut(),
        Entry::Vacant(place) => {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|_| too_long())?;
            bytes.resize(len, 0);
            place.insert(Filling { bytes, missing: len })
        }
    };
    let begin = usize::try_from(into).map_err(|_| too_long())?;
    filling.bytes[begin..begin + now.len()].copy_from_slice(now);
    filling.missing -= now.len();
    if filling.missing > 0 {
        return Ok(None);
    }
    Ok(state.filling.remove(&number).map(|filling| Cow::Owned(filling.bytes)))
}
