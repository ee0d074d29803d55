//! How a planned model's payload is cut into tiles: runs of at most about 1 MiB, whose edges depend on nothing but the
//! plan, so that every thread count gives the same work and the same bytes.

use crate::gather::Gather;
use crate::layout::{Layout, Segment};
use crate::swap;
use apr_sdk::{DTypeInfo, Endian, Error, Extent, Model, Payload, Result};

/// Bytes of a tile, where nothing forces another size.
pub const TILE: u64 = 1 << 20;

/// What is done to get a tile.
#[derive(Clone, Debug)]
pub enum Work {
    /// Bytes as they lie.
    Copy(Extent),
    /// Multi-byte fields reversed.
    Swap(Extent, &'static DTypeInfo),
    /// Elements collected from a strided view.
    Gather(Box<Gather>),
}

impl Work {
    /// The op's name, for the plan.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Copy(_) => "copy",
            Work::Swap(..) => "swap bytes",
            Work::Gather(_) => "gather",
        }
    }

    /// What must be done for a payload; `spooled` says where compressed or sequential payload was put.
    ///
    /// # Errors
    /// Unsupported for a payload that was not spooled, or a block type whose fields are unknown.
    pub fn new(tensor: &apr_sdk::Tensor, spooled: Option<Extent>) -> Result<Work> {
        let info = tensor.dtype.require()?;
        match (&tensor.payload, spooled) {
            (_, Some(extent)) => Ok(Work::Copy(extent)),
            (Payload::Extent { extent, view: None }, None) => Ok(Work::Copy(*extent)),
            (Payload::Extent { extent, view: Some(view) }, None) if view.strides.is_empty() => {
                let little = view.endian == Endian::Little || info.swap.is_empty();
                Ok(if little { Work::Copy(*extent) } else { Work::Swap(*extent, info) })
            }
            (Payload::Extent { extent, view: Some(view) }, None) => {
                Ok(Work::Gather(Box::new(Gather::new(*extent, view, info, &tensor.shape))))
            }
            _ => Err(Error::unsupported("compressed and sequential payload must be spooled first")
                .tensor(&tensor.name)),
        }
    }

    /// Bytes of a tile for this work: whole blocks where they matter.
    pub fn tile_len(&self) -> u64 {
        match self {
            Work::Copy(_) => TILE,
            Work::Swap(_, info) => TILE - TILE % u64::from(info.block_bytes),
            Work::Gather(gather) => TILE - TILE % gather.element,
        }
    }

    /// The most memory that making a tile takes, in bytes.
    pub fn tile_memory(&self) -> u64 {
        match self {
            Work::Copy(_) | Work::Swap(..) => TILE,
            Work::Gather(gather) => TILE + gather.memory(TILE),
        }
    }

    /// Fills `out` with the bytes at `at` of the result; gives the CRC-32 of the source's bytes if that differs.
    ///
    /// # Errors
    /// What `read` raises.
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
            Work::Gather(gather) => gather.fill(read, at, out).map(|()| None),
        }
    }
}

/// A run of payload in an output file.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The tensor's number in the planned model; `None` for other bytes of the source.
    pub tensor: Option<usize>,
    /// How its bytes are made.
    pub work: Work,
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
}

impl Stretch {
    /// How many tiles it has.
    pub fn n_tiles(&self) -> usize {
        usize::try_from(self.len.div_ceil(self.tile_len)).unwrap_or(usize::MAX)
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
    /// Bytes of all tiles.
    pub bytes: u64,
    /// For each tensor of the planned model, the number of its stretch.
    of_tensor: Vec<Option<usize>>,
}

impl Tiles {
    /// Cuts the payload of `layout`; `work` gives what is to be done for each tensor.
    pub fn new(layout: &Layout, model: &Model, mut work: impl FnMut(usize) -> Result<Work>) -> Result<Tiles> {
        let mut tiles = Tiles { of_tensor: vec![None; model.tensors.len()], ..Tiles::default() };
        for (number, file) in layout.files.iter().enumerate() {
            for placed in &file.segments {
                let (tensor, work) = match &placed.segment {
                    Segment::Payload { tensor } => {
                        let named = |e: Error| e.tensor(&model.tensors[*tensor].name);
                        (Some(*tensor), work(*tensor).map_err(named)?)
                    }
                    Segment::Copy(extent) => (None, Work::Copy(*extent)),
                    _ => continue,
                };
                let tile_len = work.tile_len();
                let (offset, len, first) = (placed.offset, placed.len, tiles.count);
                let stretch = Stretch { tensor, work, file: number, offset, len, tile_len, first };
                if let Some(tensor) = tensor {
                    tiles.of_tensor[tensor] = Some(tiles.stretches.len());
                }
                tiles.count += stretch.n_tiles();
                tiles.bytes = tiles.bytes.saturating_add(len);
                tiles.stretches.push(stretch);
            }
        }
        Ok(tiles)
    }

    /// The tile of this number.
    pub fn tile(&self, number: usize) -> Tile {
        let stretch = self.stretches.partition_point(|s| s.first <= number) - 1;
        // Stretches without tiles share their first number with the next: the last such is the one that has it.
        let s = &self.stretches[stretch];
        let at = (number - s.first) as u64 * s.tile_len;
        Tile { stretch, at, len: s.tile_len.min(s.len - at) }
    }

    /// The number of a tensor's stretch.
    pub fn of_tensor(&self, tensor: usize) -> Option<usize> {
        self.of_tensor.get(tensor).copied().flatten()
    }
}
