//! Cuts a planned model's payload into tiles: runs of at most about 1 MiB, whose boundaries depend on the
//! plan alone, so that every thread count gives the same work and the same bytes.

use crate::expression::{Access, Expression, Granule, SPOOL, Source};
use crate::layout::{Layout, Segment};
use crate::open::read_record::ByteSpace;
use crate::planned::TensorMap;
use apr_sdk::{Error, Model, Result};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// Tiles that one thread decodes in one go, for a tensor in blocks: a block at either edge is decoded twice.
const DECODED: usize = 16;

/// The same, if output is written in order: other threads wait for it.
const DECODED_IN_ORDER: usize = 2;

/// The place of a run in the output.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Index of the output file.
    pub file: usize,
    /// Index of the segment in that file.
    pub segment: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Offset in the segment before encoding, if it is committed in order
    /// ([`Commits`](super::commit::Commits)): its offset in the file is not known in advance.
    pub in_order: Option<u64>,
}

/// A part of an expression, other than a `Concat`, with its place in an output file.
#[derive(Clone, Debug)]
pub struct Run {
    /// Index of the tensor in the planned model; `None` for other bytes of the source.
    pub tensor: Option<usize>,
    /// The computation of its bytes.
    pub expression: Expression,
    /// The smallest part that can be evaluated separately; `None` if its values are unchanged.
    pub granule: Option<Box<Granule>>,
    /// Index of the output file.
    pub file: usize,
    /// Index of the segment in that file.
    pub segment: usize,
    /// Offset in the file; if `in_order` is set, only differences are meaningful.
    pub offset: u64,
    /// Offset in the segment before encoding, if it is committed in order.
    pub in_order: Option<u64>,
    /// Length in bytes.
    pub len: u64,
    /// Bytes per tile; the last may be shorter.
    pub tile_len: u64,
    /// Index of its first tile.
    pub first: usize,
    /// Its division into units.
    cut: Cut,
    /// The run whose tiles correspond to this one's and come from the same values: both are computed
    /// together.
    pub beside: Option<usize>,
}

/// The division of a run into units, which one worker evaluates at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Units of so many tiles.
    Tiles(usize),
    /// So many boxes, each of which touches many tiles.
    Boxes(usize),
    /// One unit, in order.
    Whole,
    /// No unit: it is computed beside another run.
    Beside,
}

impl Run {
    /// The number of tiles.
    pub fn n_tiles(&self) -> usize {
        usize::try_from(self.len.div_ceil(self.tile_len)).unwrap_or(usize::MAX)
    }

    /// The number of units that threads can share.
    pub fn n_units(&self) -> usize {
        match self.cut {
            Cut::Tiles(1) => self.n_tiles(),
            // At least one, to check that the source is empty too.
            Cut::Tiles(each) => self.n_tiles().div_ceil(each).max(1),
            Cut::Boxes(count) => count,
            Cut::Whole => 1,
            Cut::Beside => 0,
        }
    }

    /// Returns whether a run of another output, with the same leaf, has the same units and tiles, so that
    /// corresponding tiles come from the same bytes. Runs that are committed in order or gathered in boxes
    /// are computed separately, and each output has its own scratch file.
    pub fn goes_with(&self, other: &Run) -> bool {
        let both = [self, other];
        let may =
            both.iter().all(|run| run.in_order.is_none() && !run.is_boxed() && !run.expression.is_spooled());
        let [own, others] =
            both.map(|run| (run.n_tiles(), run.before(run.tile_len), run.before(run.len), run.cut));
        may && self.cut != Cut::Beside && self.granule.is_some() == other.granule.is_some() && own == others
    }

    /// Returns whether it needs whole rows, so that it is computed tile by tile even if reading would be
    /// faster otherwise.
    pub fn is_rows(&self) -> bool {
        self.granule.as_ref().is_some_and(|granule| granule.is_row)
    }

    /// Returns whether it is gathered from many places of a file, box by box.
    pub fn is_boxed(&self) -> bool {
        matches!(self.cut, Cut::Boxes(_))
    }

    /// The place of the source bytes for `len` bytes at offset `at`, if they are contiguous: the file or
    /// decoded payload, the offset there, and the length.
    pub fn read_from(&self, at: u64, len: u64) -> Option<(ByteSpace, u64, u64)> {
        let [at, len] = [at, len].map(|n| self.before(n));
        match self.expression.access().ok()? {
            Access::Copy(extent) | Access::Swap(extent, _) if extent.file != SPOOL => {
                Some((ByteSpace::File(extent.file), extent.offset.checked_add(at)?, len))
            }
            Access::Decode { tensor, .. } | Access::Stream { tensor } => {
                Some((ByteSpace::Decoded(tensor), at, len))
            }
            _ => None,
        }
    }

    /// Bytes of the leaf for so many bytes of the run.
    pub fn before(&self, len: u64) -> u64 {
        self.granule.as_ref().map_or(len, |granule| granule.before(len))
    }

    /// Bytes of the run for so many bytes of the leaf.
    pub fn after(&self, len: u64) -> u64 {
        self.granule.as_ref().map_or(len, |granule| granule.after(len))
    }

    /// The tiles of a unit, if they are consecutive and belong to no other unit.
    pub fn tiles_of(&self, unit: usize) -> Range<usize> {
        let each = match self.cut {
            Cut::Tiles(each) => each,
            Cut::Boxes(_) | Cut::Whole | Cut::Beside => self.n_tiles(),
        };
        let tiles = unit.saturating_mul(each)..unit.saturating_add(1).saturating_mul(each);
        self.first + tiles.start.min(self.n_tiles())..self.first + tiles.end.min(self.n_tiles())
    }
}

/// One tile of a run.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Index of the run.
    pub run: usize,
    /// Offset in the run.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

/// All payload of an output, cut into tiles.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    /// The runs, in output order.
    pub runs: Vec<Run>,
    /// The number of tiles.
    pub count: usize,
    /// Total bytes of all tiles.
    pub bytes: u64,
    /// For each tensor of the planned model, the indices of its runs.
    of_tensor: Vec<Range<usize>>,
    /// Indices of the runs, in the order of their units.
    by_unit: Vec<usize>,
    /// Number of threads that compute them. Units depend on it, tiles do not.
    threads: usize,
}

impl Tiles {
    /// No tiles yet; `threads` will compute them.
    pub fn of_threads(threads: usize) -> Tiles {
        Tiles { threads, ..Tiles::default() }
    }

    /// Cuts the payload of `layout` into tiles, and these into units for `threads` threads; `expressions` has one expression per tensor
    /// of the planned model.
    ///
    /// # Errors
    /// Plugin if a tensor's expression gives more or fewer bytes than its place holds; Unsupported for an
    /// unknown dtype.
    pub fn new(
        layout: &Layout,
        model: &Model,
        expressions: TensorMap<Expression>,
        threads: usize,
    ) -> Result<Tiles> {
        let mut tiles = Tiles { of_tensor: vec![0..0; model.tensors.len()], ..Tiles::of_threads(threads) };
        tiles.runs.reserve(expressions.iter().map(|expression| expression.parts().len()).sum());
        let mut expressions = expressions.map(Some);
        for (number, file) in layout.files.iter().enumerate() {
            for (segment, placed) in file.segments.iter().enumerate() {
                let floats = file.floats_from.is_some_and(|first| first <= segment);
                let mut spot =
                    Spot { file: number, segment, offset: placed.offset, in_order: floats.then_some(0) };
                match &placed.segment {
                    Segment::Payload { tensor, encoded } => {
                        let first = tiles.runs.len();
                        let handle = expressions.handle(*tensor);
                        let own = handle.and_then(|handle| expressions[handle].take());
                        for part in own.into_iter().flat_map(Expression::into_parts) {
                            let placed = tiles.push(Some(*tensor), part, spot);
                            let len = placed.map_err(|e| e.tensor(&model.tensors[*tensor].name))?;
                            spot.offset = spot.offset.saturating_add(len);
                            spot.in_order = spot.in_order.map(|at| at.saturating_add(len));
                        }
                        let made = spot.offset - placed.offset;
                        let want = encoded.as_ref().map_or(placed.len, |encoded| encoded.raw_len);
                        if made != want {
                            let error = Error::plugin(format!("computed {made} bytes, expected {want}"));
                            return Err(error.tensor(&model.tensors[*tensor].name));
                        }
                        tiles.of_tensor[*tensor] = first..tiles.runs.len();
                    }
                    Segment::Copy(extent) => {
                        tiles.push(None, Source::bytes(*extent), spot)?;
                    }
                    _ => {}
                }
            }
        }
        tiles.seal();
        Ok(tiles)
    }

    /// Adds a run at `spot`, and returns its length. Call [`Tiles::seal`] after the last.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn push(&mut self, tensor: Option<usize>, expression: Expression, spot: Spot) -> Result<u64> {
        let len = expression.byte_len()?;
        let first = self.count;
        let granule = match expression.is_leaf() {
            true => None,
            false => Some(Box::new(Granule::of(&expression)?)),
        };
        let access = expression.access()?;
        let is_rows = granule.as_ref().is_some_and(|granule| granule.is_row);
        let Spot { file, segment, offset, in_order } = spot;
        let cut = match &access {
            Access::Decode { .. } if in_order.is_some() => Cut::Tiles(DECODED_IN_ORDER),
            Access::Decode { .. } => Cut::Tiles(DECODED),
            Access::Stream { .. } => Cut::Whole,
            Access::Unpack(_) if in_order.is_some() => Cut::Tiles(1),
            Access::Unpack(unpack) => Cut::Tiles(unpack.together(self.threads)),
            Access::Gather(gather) if !is_rows && in_order.is_none() => Cut::Boxes(gather.n_parts()),
            _ => Cut::Tiles(1),
        };
        let tile_len = match (&granule, &access) {
            (None, access) => access.tile_len(),
            // Whole rows, even where each element could be computed by itself.
            (Some(granule), Access::Unpack(unpack)) if !granule.is_row => granule.after(unpack.tile_len()),
            (Some(granule), _) => granule.tile_len(),
        };
        let run = Run {
            tensor,
            expression,
            granule,
            file,
            segment,
            offset,
            in_order,
            len,
            tile_len,
            first,
            cut,
            beside: None,
        };
        self.count += run.n_tiles();
        self.bytes = self.bytes.saturating_add(len);
        self.runs.push(run);
        Ok(len)
    }

    /// Divides the runs into units of work.
    pub fn seal(&mut self) {
        for (codes, scales) in self.of_same_values() {
            self.runs[codes].beside = Some(scales);
            self.runs[scales].cut = Cut::Beside;
        }
        // One thread follows a stream from start to end: longest first, or they would finish last. Runs that
        // are committed in order also start in order, or threads would wait for something that nobody has
        // started.
        let mut by_unit: Vec<usize> = (0..self.runs.len()).collect();
        by_unit.sort_by_key(|&n| match &self.runs[n] {
            Run { cut: Cut::Whole, in_order: None, len, .. } => (false, Reverse(*len)),
            _ => (true, Reverse(0)),
        });
        self.by_unit = by_unit;
    }

    /// Integers and the scales of their rows, which come from the same values: the indices of both runs.
    fn of_same_values(&self) -> Vec<(usize, usize)> {
        let numbered = self.runs.iter().enumerate().filter(|(_, run)| run.in_order.is_none());
        let scales = numbered.clone().filter_map(|(number, run)| match &run.expression {
            Expression::RowScales(scales) => Some((&scales.of, number)),
            _ => None,
        });
        let mut scales: HashMap<&Expression, usize> = scales.collect();
        let mut pairs = Vec::new();
        for (number, run) in numbered {
            if let Expression::RowCodes(codes) = &run.expression
                && !scales.is_empty()
                && let Some(beside) = scales.remove(&codes.of)
                // With the same number of rows per tile.
                && self.runs[beside].n_tiles() == run.n_tiles()
            {
                pairs.push((number, beside));
            }
        }
        pairs
    }

    /// Indices of the runs, in the order of their units.
    pub fn by_unit(&self) -> &[usize] {
        &self.by_unit
    }

    /// The tile with this index.
    pub fn tile(&self, number: usize) -> Tile {
        let run = self.runs.partition_point(|s| s.first <= number) - 1;
        // Runs without tiles share their first index with the next run: the last of these owns it.
        let placed = &self.runs[run];
        let at = (number - placed.first) as u64 * placed.tile_len;
        Tile { run, at, len: placed.tile_len.min(placed.len - at) }
    }

    /// The tile that is computed beside one of a run: its run and index.
    pub fn beside(&self, run: usize, tile: usize) -> Option<(usize, usize)> {
        let beside = self.runs[run].beside?;
        Some((beside, self.runs[beside].first + (tile - self.runs[run].first)))
    }

    /// Indices of the runs of a segment.
    pub fn of_segment(&self, file: usize, segment: usize) -> Range<usize> {
        let begin = self.runs.partition_point(|run| (run.file, run.segment) < (file, segment));
        let end = self.runs.partition_point(|run| (run.file, run.segment) <= (file, segment));
        begin..end
    }

    /// Indices of a tensor's runs, which are consecutive in its file.
    pub fn of_tensor(&self, tensor: usize) -> Range<usize> {
        self.of_tensor.get(tensor).cloned().unwrap_or_default()
    }
}
