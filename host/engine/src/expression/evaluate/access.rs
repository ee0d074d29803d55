//! The way to obtain the bytes of a leaf: from where its elements are stored.

use crate::expression::gather::Gather;
use crate::expression::region::merged;
use crate::expression::source::{Source, Storage, unit};
use crate::expression::spool::SPOOL;
use crate::expression::unpack::{Panel, Unpack};
use crate::expression::{Expression, TILE};
use crate::open::blocks::SHARED;
use crate::open::decoded::decoded_extent;
use crate::values::swap;
use apr_sdk::{Codec, DTypeInfo, Endian, Error, Extent, Result, View};

/// The way to obtain a leaf's bytes.
#[derive(Clone, Debug)]
pub enum Access<'e> {
    /// Copy the bytes.
    Copy(Extent),
    /// Reverse the bytes of each multi-byte field.
    Swap(Extent, &'static DTypeInfo),
    /// Gather elements from many places.
    Gather(Box<Gather>),
    /// Decode compressed blocks of a source tensor.
    Decode {
        /// Index of the tensor.
        tensor: usize,
        /// The compression method.
        codec: &'e Codec,
    },
    /// Follow the stream of a source tensor from start to end.
    Stream {
        /// Index of the tensor.
        tensor: usize,
    },
    /// Bytes in memory.
    Held(&'e [u8]),
    /// Compute rows of a packed weight.
    Unpack(Box<Unpack<'e>>),
}

impl Expression {
    /// The way to obtain the bytes of its leaf; for an expression other than a `Concat`.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn access(&self) -> Result<Access<'_>> {
        match self.leaf() {
            Expression::Fill(fill) => Ok(Access::Held(&fill.bytes)),
            Expression::Source(source) => match (&source.storage, source.tensor) {
                (Storage::Extent { extent, endian }, _) => {
                    Ok(Access::run(*extent, *endian, unit(source.dtype)?))
                }
                (Storage::Blocks(codec), Some(tensor)) => Ok(Access::Decode { tensor, codec }),
                (Storage::Sequential, Some(tensor)) => Ok(Access::Stream { tensor }),
                (Storage::Packed(of), _) => {
                    let dtype = source.dtype;
                    let units = source.len / u64::from(unit(dtype)?.block_bytes);
                    Ok(Access::Unpack(Box::new(Unpack { of, dtype, start: 0, dims: vec![(units, 1)] })))
                }
                _ => Err(Error::plugin("compressed payload does not belong to a tensor")),
            },
            Expression::Region(region) => {
                if let Expression::Source(Source { dtype, storage: Storage::Packed(of), .. }) = &region.of {
                    let dims = merged(&region.dims);
                    let unpack = Unpack { of, dtype: *dtype, start: region.start, dims };
                    return Ok(Access::Unpack(Box::new(unpack)));
                }
                let (extent, endian) = region.of.extent()?;
                let info = unit(region.of.dtype())?;
                let each = u64::from(info.block_bytes);
                let dims = merged(&region.dims);
                let run = match dims[..] {
                    [] => Some(1),
                    [(size, 1)] => Some(size),
                    _ => None,
                };
                if let Some(run) = run {
                    let extent = Extent::new(extent.file, extent.offset + region.start * each, run * each);
                    return Ok(Access::run(extent, endian, info));
                }
                let (shape, strides): (Vec<u64>, Vec<u64>) = dims.into_iter().unzip();
                let view = View { strides, start: region.start, endian };
                Ok(Access::Gather(Box::new(Gather::new(extent, &view, info, &shape))))
            }
            spool => Ok(Access::Copy(spool.extent()?.0)),
        }
    }

    /// The extent that a source or a spool lies in, and its byte order.
    fn extent(&self) -> Result<(Extent, Endian)> {
        match self {
            Expression::Source(Source { storage: Storage::Blocks(_), tensor: Some(tensor), len, .. }) => {
                Ok((decoded_extent(*tensor, *len)?, Endian::Little))
            }
            Expression::Source(Source { storage: Storage::Extent { extent, endian }, .. }) => {
                Ok((*extent, *endian))
            }
            Expression::Spool(spool) => {
                Ok((Extent::new(SPOOL, spool.at, spool.of.byte_len()?), Endian::Little))
            }
            _ => Err(Error::plugin("a region requires a source in a single extent")),
        }
    }
}

impl Access<'_> {
    /// The way to obtain all of an extent.
    fn run(extent: Extent, endian: Endian, info: &'static DTypeInfo) -> Access<'static> {
        match endian {
            Endian::Big if !info.swap.is_empty() => Access::Swap(extent, info),
            _ => Access::Copy(extent),
        }
    }

    /// The word for it in a plan; `None` for a copy.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            _ if self.extent().is_some_and(|extent| extent.file == SPOOL) => Some("spool"),
            Access::Copy(_) => None,
            Access::Swap(..) => Some("swap bytes"),
            Access::Gather(_) => Some("gather"),
            Access::Decode { .. } => Some("decode"),
            Access::Stream { .. } => Some("stream"),
            Access::Held(_) => Some("generate"),
            Access::Unpack(_) => Some("unpack"),
        }
    }

    /// The extent that it reads, if there is only one.
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Access::Copy(extent) | Access::Swap(extent, _) => Some(*extent),
            Access::Gather(gather) => Some(gather.extent()),
            _ => None,
        }
    }

    /// Returns whether its bytes are available at any offset, in any order.
    pub fn is_random(&self) -> bool {
        !matches!(self, Access::Stream { .. })
    }

    /// The same for a reader that decodes compressed blocks itself: [`OpenedModel::read_at`] with `len` bytes of payload.
    ///
    /// [`OpenedModel::read_at`]: crate::open::OpenedModel::read_at
    pub fn at_any_offset(self, len: u64) -> Result<Self> {
        match self {
            Access::Decode { tensor, .. } => Ok(Access::Copy(decoded_extent(tensor, len)?)),
            other => Ok(other),
        }
    }

    /// Bytes per tile: whole elements where they matter.
    pub fn tile_len(&self) -> u64 {
        match self {
            Access::Swap(_, info) => TILE - TILE % u64::from(info.block_bytes),
            Access::Gather(gather) => TILE - TILE % gather.element,
            Access::Unpack(unpack) => unpack.tile_len(),
            _ => TILE,
        }
    }

    /// Bytes best produced at once when reading in order: whole elements.
    pub fn window(&self) -> u64 {
        match self {
            Access::Gather(gather) => gather.window(),
            _ => self.tile_len(),
        }
    }

    /// The most memory that a thread needs, in bytes, besides what threads share. Blocks above [`SHARED`] come on top, one at a time.
    pub fn memory(&self) -> u64 {
        match self {
            Access::Gather(_) => Gather::memory(),
            Access::Decode { .. } => TILE + 2 * SHARED,
            Access::Unpack(unpack) => unpack.memory(),
            _ => TILE,
        }
    }

    /// The bytes that `threads` threads hold together, each of them shared by several where that saves memory.
    pub fn shared(&self, threads: usize) -> u64 {
        match self {
            Access::Unpack(unpack) => unpack.held_by(threads),
            _ => 0,
        }
    }

    /// Fills `out` with the bytes at offset `at`, whole elements; returns the CRC-32 of the source's bytes if
    /// it differs.
    ///
    /// # Errors
    /// Any error from `read`; Unsupported for sequential payload.
    pub fn fill(
        &self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        at: u64,
        out: &mut [u8],
    ) -> Result<Option<u32>> {
        match self {
            Access::Copy(extent) | Access::Swap(extent, _) => {
                read(Extent::new(extent.file, extent.offset + at, out.len() as u64), out)?;
                let Access::Swap(_, info) = self else { return Ok(None) };
                let before = crc32fast::hash(out);
                swap::reverse_fields(info, out);
                Ok(Some(before))
            }
            Access::Gather(gather) => gather.fill(read, at, out, &mut Vec::new()).map(|()| None),
            Access::Unpack(unpack) => unpack.fill(read, at, out, &mut Panel::default()).map(|()| None),
            Access::Held(bytes) => {
                let held = usize::try_from(at).ok().and_then(|at| bytes.get(at..at + out.len()));
                out.copy_from_slice(held.ok_or_else(|| Error::plugin("not enough bytes were computed"))?);
                Ok(None)
            }
            Access::Decode { .. } | Access::Stream { .. } => {
                Err(Error::unsupported("this payload is not stored in an extent of a file"))
            }
        }
    }
}
