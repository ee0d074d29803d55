//! What is done to get bytes of the source as a plan wants them: copied, swapped, gathered, decoded, streamed, computed; and
//! what is done to each element then.

use crate::expression::gather::Gather;
use crate::expression::transcode::Transcode;
use crate::open::blocks::SHARED;
use crate::values::swap;
use apr_sdk::{Codec, DTypeInfo, Endian, Error, Extent, FileId, Payload, Result};

/// Bytes of a tile, where nothing forces another size.
pub const TILE: u64 = 1 << 20;

/// The spool's number in an extent: no model has so many files.
pub const SPOOL: FileId = FileId::MAX;

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
    pub transcode: Option<Box<Transcode>>,
    /// How many bytes come of it.
    pub len: u64,
}

impl Portion {
    /// The most memory that a thread needs for it, in bytes, but for what [`Work::memory`] leaves out.
    pub fn memory(&self) -> u64 {
        self.work.memory() + self.transcode.as_deref().map_or(0, Transcode::memory)
    }

    /// Bytes of its tiles.
    pub fn tile_len(&self) -> u64 {
        self.transcode.as_deref().map_or_else(|| self.work.tile_len(), Transcode::tile_len)
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

    /// How many there are, of all tensors.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Those of a tensor; none for one that is not there.
    pub fn of(&self, tensor: usize) -> &[Portion] {
        let begin = tensor.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = begin.zip(self.ends.get(tensor)).map(|(begin, &end)| begin..end);
        range.and_then(|range| self.all.get(range)).unwrap_or_default()
    }
}
