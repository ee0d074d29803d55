//! How a planned model's payload is cut into tiles: runs of at most about 1 MiB, whose edges depend on nothing but the
//! plan, so that every thread count gives the same work and the same bytes.

use crate::expression::transcode::Transcode;
use crate::expression::work::{Portion, Portions, SPOOL, Work};
use crate::layout::{Layout, Segment};
use crate::open::seen::Place;
use apr_sdk::{Error, Model, Result};
use std::cmp::Reverse;
use std::ops::Range;

/// Tiles of a tensor in blocks that one thread decodes in one go: a block at either edge is decoded twice.
const DECODED: usize = 16;

/// A run of payload in an output file.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The tensor's number in the planned model; `None` for other bytes of the source.
    pub tensor: Option<usize>,
    /// The number of the source's tensor that it comes from, if it comes from one.
    pub source: Option<usize>,
    /// How its bytes are made.
    pub work: Work,
    /// What is done to each element then.
    pub transcode: Option<Box<Transcode>>,
    /// The output file's number.
    pub file: usize,
    /// Its offset there.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// Bytes of its tiles; the last may be shorter.
    pub tile_len: u64,
    /// The number of its first tile.
    pub first: usize,
    /// The number of its first unit of work.
    first_unit: usize,
}

impl Stretch {
    /// How many tiles it has.
    pub fn n_tiles(&self) -> usize {
        usize::try_from(self.len.div_ceil(self.tile_len)).unwrap_or(usize::MAX)
    }

    /// In how many units the threads share its work.
    fn n_units(&self) -> usize {
        match &self.work {
            Work::Copy(_) | Work::Swap(..) | Work::Made(_) => self.n_tiles(),
            Work::Gather(_) if self.is_tiled() => self.n_tiles(),
            Work::Gather(gather) => gather.n_parts(),
            // One even if it is empty: then there must be nothing.
            Work::Decode { .. } => self.n_tiles().div_ceil(DECODED).max(1),
            Work::Stream { .. } => 1,
        }
    }

    /// Whether it is made tile by tile, whatever suits the reading best: whole rows are needed at once.
    pub fn is_tiled(&self) -> bool {
        self.transcode.as_deref().is_some_and(Transcode::needs_rows)
    }

    /// Where the bytes lie that `len` bytes at `at` of it are made of, if they are one run of the source: in which file or
    /// decoded payload, from where on, and how many.
    pub fn read_from(&self, at: u64, len: u64) -> Option<(Place, u64, u64)> {
        let (at, len) = (self.before(at), self.before(len));
        match &self.work {
            Work::Copy(extent) | Work::Swap(extent, _) if extent.file != SPOOL => {
                Some((Place::File(extent.file), extent.offset.checked_add(at)?, len))
            }
            Work::Decode { tensor, .. } | Work::Stream { tensor } => Some((Place::Tensor(*tensor), at, len)),
            _ => None,
        }
    }

    /// Bytes before for so many bytes of it.
    pub fn before(&self, len: u64) -> u64 {
        self.transcode.as_ref().map_or(len, |transcode| transcode.before(len))
    }

    /// The tiles that a unit of its work makes, if they are one after another and its alone.
    pub fn tiles_of(&self, unit: usize) -> Range<usize> {
        let each = match self.work {
            Work::Copy(_) | Work::Swap(..) | Work::Made(_) => 1,
            Work::Gather(_) if self.is_tiled() => 1,
            Work::Decode { .. } => DECODED,
            Work::Gather(_) | Work::Stream { .. } => self.n_tiles(),
        };
        let tiles = unit.saturating_mul(each)..unit.saturating_add(1).saturating_mul(each);
        self.first + tiles.start.min(self.n_tiles())..self.first + tiles.end.min(self.n_tiles())
    }
}

/// One tile.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The stretch's number.
    pub stretch: usize,
    /// Its offset in the stretch.
    pub at: u64,
    /// Its length.
    pub len: u64,
}

/// All payload of an output, as tiles.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    /// The stretches, in the order of the output.
    pub stretches: Vec<Stretch>,
    /// How many tiles there are.
    pub count: usize,
    /// How many units of work.
    pub units: usize,
    /// Bytes of all tiles.
    pub bytes: u64,
    /// For each tensor of the planned model, the numbers of its stretches.
    of_tensor: Vec<Range<usize>>,
    /// The stretches' numbers in the order of their units.
    by_unit: Vec<usize>,
}

impl Tiles {
    /// Cuts the payload of `layout`; `portions` has what makes each tensor of the planned model.
    ///
    /// # Errors
    /// Plugin if a tensor is made of more or fewer bytes than its place has.
    pub fn new(layout: &Layout, model: &Model, portions: &Portions) -> Result<Tiles> {
        let mut tiles = Tiles { of_tensor: vec![0..0; model.tensors.len()], ..Tiles::default() };
        tiles.stretches.reserve(portions.count());
        for (number, file) in layout.files.iter().enumerate() {
            for placed in &file.segments {
                match &placed.segment {
                    Segment::Payload { tensor } => {
                        let (first, mut offset) = (tiles.stretches.len(), placed.offset);
                        for portion in portions.of(*tensor) {
                            tiles.push(Some(*tensor), portion.clone(), number, offset);
                            offset = offset.saturating_add(portion.len);
                        }
                        if offset - placed.offset != placed.len {
                            let (made, want) = (offset - placed.offset, placed.len);
                            let error = Error::plugin(format!("{made} bytes are made, its place has {want}"));
                            return Err(error.tensor(&model.tensors[*tensor].name));
                        }
                        tiles.of_tensor[*tensor] = first..tiles.stretches.len();
                    }
                    Segment::Copy(extent) => {
                        let portion = Portion {
                            work: Work::Copy(*extent),
                            source: None,
                            transcode: None,
                            len: placed.len,
                        };
                        tiles.push(None, portion, number, placed.offset);
                    }
                    _ => {}
                }
            }
        }
        tiles.seal();
        Ok(tiles)
    }

    /// Adds a stretch at `offset` of an output file. [`Tiles::seal`] comes after the last.
    pub fn push(&mut self, tensor: Option<usize>, portion: Portion, file: usize, offset: u64) {
        let (tile_len, first) = (portion.tile_len(), self.count);
        let Portion { work, source, transcode, len } = portion;
        let stretch =
            Stretch { tensor, source, work, transcode, file, offset, len, tile_len, first, first_unit: 0 };
        self.count += stretch.n_tiles();
        self.bytes = self.bytes.saturating_add(len);
        self.stretches.push(stretch);
    }

    /// Cuts the stretches into units of work.
    pub fn seal(&mut self) {
        // A stream is one thread's work from begin to end: the longest first, or they would end last.
        let mut by_unit: Vec<usize> = (0..self.stretches.len()).collect();
        by_unit.sort_by_key(|&n| match &self.stretches[n] {
            Stretch { work: Work::Stream { .. }, len, .. } => (false, Reverse(*len)),
            _ => (true, Reverse(0)),
        });
        for &number in &by_unit {
            let stretch = &mut self.stretches[number];
            stretch.first_unit = self.units;
            self.units = self.units.saturating_add(stretch.n_units());
        }
        self.by_unit = by_unit;
    }

    /// The stretch that a unit of work is of, and the unit's number there.
    pub fn unit(&self, number: usize) -> (usize, usize) {
        // Stretches without units share their first number with the next: the last such is the one that has it.
        let at = self.by_unit.partition_point(|&n| self.stretches[n].first_unit <= number) - 1;
        let stretch = self.by_unit[at];
        (stretch, number - self.stretches[stretch].first_unit)
    }

    /// The tile of this number.
    pub fn tile(&self, number: usize) -> Tile {
        let stretch = self.stretches.partition_point(|s| s.first <= number) - 1;
        // Stretches without tiles share their first number with the next: the last such is the one that has it.
        let s = &self.stretches[stretch];
        let at = (number - s.first) as u64 * s.tile_len;
        Tile { stretch, at, len: s.tile_len.min(s.len - at) }
    }

    /// The numbers of a tensor's stretches, which follow one another in its file.
    pub fn of_tensor(&self, tensor: usize) -> Range<usize> {
        self.of_tensor.get(tensor).cloned().unwrap_or_default()
    }
}
