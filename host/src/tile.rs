//! How a planned model's payload is cut into tiles: runs of at most about 1 MiB, whose edges depend on nothing but the
//! plan, so that every thread count gives the same work and the same bytes.

use crate::blocks::SHARED;
use crate::gather::Gather;
use crate::layout::{Layout, Segment};
use crate::recode::Recode;
use crate::seen::Place;
use crate::spool;
use crate::swap;
use apr_sdk::{Codec, DTypeInfo, Endian, Error, Extent, Model, Payload, Result};
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of a tile, where nothing forces another size.
pub const TILE: u64 = 1 << 20;

/// Tiles of a tensor in blocks that one thread decodes in one go: a block at either edge is decoded twice.
const DECODED: usize = 16;

/// What is done to get a tile.
#[derive(Clone, Debug)]
pub enum Work {
    /// Bytes as they lie.
    Copy(Extent),
    /// Multi-byte fields reversed.
    Swap(Extent, &'static DTypeInfo),
    /// Elements collected from a strided view.
    Gather(Box<Gather>),
    /// Blocks of a tensor of the source decoded.
    Decode {
        /// The tensor's number.
        tensor: usize,
        /// The compression method.
        codec: Codec,
    },
    /// The stream of a tensor of the source, followed from its begin to its end.
    Stream {
        /// The tensor's number.
        tensor: usize,
    },
    /// Bytes that were computed.
    Made(Vec<u8>),
}

impl Work {
    /// The op's name, for the plan.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Copy(_) => "copy",
            Work::Swap(..) => "swap bytes",
            Work::Gather(_) => "gather",
            Work::Decode { .. } => "decode",
            Work::Stream { .. } => "stream",
            Work::Made(_) => "generate",
        }
    }

    /// Where the bytes lie that it reads, if they lie in one extent.
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Work::Copy(extent) | Work::Swap(extent, _) => Some(*extent),
            Work::Gather(gather) => Some(gather.extent()),
            _ => None,
        }
    }

    /// What must be done for the payload of tensor number `number` of the source.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown, or a payload of an unknown kind.
    pub fn new(tensor: &apr_sdk::Tensor, number: usize) -> Result<Work> {
        let info = tensor.dtype.require()?;
        match &tensor.payload {
            Payload::Extent { extent, view: None } => Ok(Work::Copy(*extent)),
            Payload::Extent { extent, view: Some(view) } if view.strides.is_empty() => {
                let little = view.endian == Endian::Little || info.swap.is_empty();
                Ok(if little { Work::Copy(*extent) } else { Work::Swap(*extent, info) })
            }
            Payload::Extent { extent, view: Some(view) } => {
                Ok(Work::Gather(Box::new(Gather::new(*extent, view, info, &tensor.shape))))
            }
            Payload::Blocks { codec } => Ok(Work::Decode { tensor: number, codec: codec.clone() }),
            Payload::Sequential => Ok(Work::Stream { tensor: number }),
            _ => Err(Error::unsupported("payload of a kind that this program does not know")),
        }
    }

    /// Bytes of a tile for this work: whole blocks where they matter.
    pub fn tile_len(&self) -> u64 {
        match self {
            Work::Swap(_, info) => TILE - TILE % u64::from(info.block_bytes),
            Work::Gather(gather) => TILE - TILE % gather.element,
            _ => TILE,
        }
    }

    /// Bytes that are best made at once, if they are made in order: whole elements.
    pub fn window(&self) -> u64 {
        match self {
            Work::Gather(gather) => gather.window(),
            _ => self.tile_len(),
        }
    }

    /// The most memory that a thread needs for this work, in bytes. Blocks above [`SHARED`] come on top, one at a time.
    pub fn memory(&self) -> u64 {
        match self {
            Work::Gather(_) => Gather::memory(),
            Work::Decode { .. } => TILE + 2 * SHARED,
            _ => TILE,
        }
    }

    /// Fills `out` with the bytes at `at` of the result, whole elements of it; gives the CRC-32 of the source's bytes if
    /// that differs.
    ///
    /// # Errors
    /// What `read` raises; Unsupported for payload that lies in no extent.
    pub fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
    ) -> Result<Option<u32>> {
        let piece =
            |extent: &Extent, out: &[u8]| Extent::new(extent.file, extent.offset + at, out.len() as u64);
        match self {
            Work::Copy(extent) => read(piece(extent, out), out).map(|()| None),
            Work::Swap(extent, info) => {
                read(piece(extent, out), out)?;
                let before = crc32fast::hash(out);
                swap::reverse_fields(info, out);
                Ok(Some(before))
            }
            Work::Gather(gather) => gather.fill(read, at, out, &mut Vec::new()).map(|()| None),
            Work::Made(bytes) => {
                let made = usize::try_from(at).ok().and_then(|at| bytes.get(at..at + out.len()));
                out.copy_from_slice(made.ok_or_else(|| Error::plugin("too few bytes were made"))?);
                Ok(None)
            }
            Work::Decode { .. } | Work::Stream { .. } => {
                Err(Error::unsupported("this payload lies in no extent of a file"))
            }
        }
    }
}

/// What makes a run of payload.
#[derive(Clone, Debug)]
pub struct Portion {
    /// How its bytes are made.
    pub work: Work,
    /// The number of the source's tensor that they come from, if they come from one.
    pub source: Option<usize>,
    /// What is done to each element then.
    pub recode: Option<Box<Recode>>,
    /// How many bytes come of it.
    pub len: u64,
}

impl Portion {
    /// The most memory that a thread needs for it, in bytes, but for what [`Work::memory`] leaves out.
    pub fn memory(&self) -> u64 {
        self.work.memory() + self.recode.as_deref().map_or(0, Recode::memory)
    }

    /// Bytes of its tiles.
    fn tile_len(&self) -> u64 {
        self.recode.as_deref().map_or_else(|| self.work.tile_len(), Recode::tile_len)
    }
}

/// What makes every tensor of a planned model, one list behind the other: nearly every tensor is one portion, and there may
/// be a million.
#[derive(Clone, Debug, Default)]
pub struct Portions {
    all: Vec<Portion>,
    /// Where the portions of each tensor end.
    ends: Vec<usize>,
}

impl Portions {
    /// Adds those of the next tensor.
    pub fn push(&mut self, mut of_tensor: Vec<Portion>) {
        self.all.append(&mut of_tensor);
        self.ends.push(self.all.len());
    }

    /// Those of a tensor; none for one that is not there.
    pub fn of(&self, tensor: usize) -> &[Portion] {
        let begin = tensor.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = begin.zip(self.ends.get(tensor)).map(|(begin, &end)| begin..end);
        range.and_then(|range| self.all.get(range)).unwrap_or_default()
    }
}

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
    pub recode: Option<Box<Recode>>,
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
        self.recode.as_deref().is_some_and(Recode::needs_rows)
    }

    /// Where the bytes lie that `len` bytes at `at` of it are made of, if they are one run of the source: in which file or
    /// decoded payload, from where on, and how many.
    pub fn read_from(&self, at: u64, len: u64) -> Option<(Place, u64, u64)> {
        let (at, len) = (self.before(at), self.before(len));
        match &self.work {
            Work::Copy(extent) | Work::Swap(extent, _) if extent.file != spool::FILE => {
                Some((Place::File(extent.file), extent.offset.checked_add(at)?, len))
            }
            Work::Decode { tensor, .. } | Work::Stream { tensor } => Some((Place::Tensor(*tensor), at, len)),
            _ => None,
        }
    }

    /// Bytes before for so many bytes of it.
    pub fn before(&self, len: u64) -> u64 {
        self.recode.as_ref().map_or(len, |recode| recode.before(len))
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
        tiles.stretches.reserve(portions.all.len());
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
                            recode: None,
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
        let Portion { work, source, recode, len } = portion;
        let stretch =
            Stretch { tensor, source, work, recode, file, offset, len, tile_len, first, first_unit: 0 };
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
