//! Compressed payload: blocks of at most 64 KiB of raw data, each decoded on its own.
//!
//! ```text
//! tensor         blocks, one after another
//! block          one frame; with planes, one frame per byte of an element
//! frame          u32: its length; top bit set if the data is stored as it is
//!                an LZ4 block (no header of its own), or a zstd frame, or raw data
//! ```
//!
//! With planes, the bits of each element are rotated left by one, so that the sign of a float moves from the top to the
//! bottom and its exponent fills the highest byte; then the bytes of all elements are sorted by their place. The
//! exponents of weights are alike and shrink, the rest is noise. Frames of planes are coded without searching for
//! matches.
//!
//! The lengths of all blocks lie in the hidden tensor [`LENGTHS`], so that a slice is found without walking the frames
//! before it. Files without it are walked.

pub mod block;
mod choice;
mod codecs;
mod frame;
mod lengths;
mod lz4;
pub mod planes;
mod pool;

pub use block::{Decoder, Encoder};
pub use choice::Choice;
pub use lengths::Blocks;

use crate::layout::tensor_flags;
use apr_sdk::{Codec, DType, DTypeKind, Error, Options, Result};

/// Raw bytes per block; the last one of a tensor may be shorter.
pub const BLOCK: u64 = 64 << 10;
/// The hidden tensor with the stored length of each block as a u32, of all compressed tensors by their offset.
pub const LENGTHS: &str = "__apr__/blocks";
/// The level of zstd unless one is given.
pub const LEVEL: i32 = 3;

/// The coder of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coder {
    /// LZ4 blocks.
    Lz4,
    /// zstd frames.
    Zstd,
}

/// The compression of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The coder of its frames.
    pub coder: Coder,
    /// The level it was, or will be, encoded with; decoding needs none.
    pub level: i32,
    /// Frames per block: bytes of an element if it is cut into planes, otherwise 1.
    pub planes: u8,
    /// True if the elements' bits are rotated: planes of elements of one byte are one frame as well.
    pub is_rotated: bool,
}

impl Method {
    /// Whole blocks, coded with this level.
    pub fn new(coder: Coder, level: i32) -> Method {
        Method { coder, level, planes: 1, is_rotated: false }
    }

    /// The same for the planes of elements of this type; `None` unless they are floats of whole bytes.
    pub fn in_planes(self, dtype: DType) -> Option<Method> {
        let planes = planes_of(dtype)?;
        Some(Method { planes, is_rotated: true, ..self })
    }

    /// The method that a tensor's flags state; `None` if it is stored as it is.
    ///
    /// # Errors
    /// Malformed for flags that contradict each other, and planes of a type that has none; Unsupported for undefined ones.
    pub fn from_flags(flags: u32, dtype: DType) -> Result<Option<Method>> {
        let coder = match flags & (tensor_flags::LZ4 | tensor_flags::ZSTD) {
            0 if flags & tensor_flags::PLANES == 0 => return Ok(None),
            0 => return Err(Error::malformed("its flags state planes, but no compression")),
            tensor_flags::LZ4 => Coder::Lz4,
            tensor_flags::ZSTD => Coder::Zstd,
            _ => return Err(Error::malformed("its flags state both LZ4 and zstd compression")),
        };
        let undefined = flags & !tensor_flags::DEFINED;
        if undefined != 0 {
            let message =
                format!("it is compressed, with flags {undefined:#x} that this version does not know");
            return Err(Error::unsupported(message)
                .code("E003")
                .hint("install a newer apr that can read it"));
        }
        let method = Method::new(coder, LEVEL);
        if flags & tensor_flags::PLANES == 0 {
            return Ok(Some(method));
        }
        let no_planes = || Error::malformed(format!("its flags state planes, which {dtype} does not have"));
        method.in_planes(dtype).ok_or_else(no_planes).map(Some)
    }

    /// The flags that state this method.
    pub fn flags(self) -> u32 {
        let coder = match self.coder {
            Coder::Lz4 => tensor_flags::LZ4,
            Coder::Zstd => tensor_flags::ZSTD,
        };
        coder | if self.is_rotated { tensor_flags::PLANES } else { 0 }
    }

    /// The method for the host to keep and to hand back; `stored` is the tensor's length in the file, if it is known.
    pub fn codec(self, stored: Option<u64>) -> Codec {
        let words = match (self.coder, self.is_rotated) {
            (Coder::Lz4, false) => "lz4",
            (Coder::Lz4, true) => "lz4, planes",
            (Coder::Zstd, false) => "zstd",
            (Coder::Zstd, true) => "zstd, planes",
        };
        let mut options = Options::new().with(Codec::METHOD, words);
        match stored {
            Some(stored) => options = options.with(Codec::STORED, stored.to_string()),
            None => options = options.with("level", self.level.to_string()),
        }
        Codec { number: self.flags() | u32::from(self.planes) << 8, options }
    }

    /// The method that [`Method::codec`] gave to the host.
    ///
    /// # Errors
    /// Plugin for any other.
    pub fn from_codec(codec: &Codec) -> Result<Method> {
        let foreign = || Error::plugin(format!("unknown compression method {:#x}", codec.number));
        let coder = match codec.number & (tensor_flags::LZ4 | tensor_flags::ZSTD) {
            tensor_flags::LZ4 => Coder::Lz4,
            tensor_flags::ZSTD => Coder::Zstd,
            _ => return Err(foreign()),
        };
        let level = codec.options.get("level").map_or(Ok(LEVEL), str::parse).map_err(|_| foreign())?;
        let planes = u8::try_from(codec.number >> 8).ok().filter(|planes| *planes > 0).ok_or_else(foreign)?;
        Ok(Method { coder, level, planes, is_rotated: codec.number & tensor_flags::PLANES != 0 })
    }

    /// The fewest and the most stored bytes of a payload with so many raw bytes.
    pub fn stored_bounds(self, raw_len: u64) -> (u64, u64) {
        let frames = raw_len.div_ceil(BLOCK).saturating_mul(u64::from(self.planes));
        let heads = frames.saturating_mul(frame::HEAD_LEN);
        let excess = frames.saturating_mul(frame::EXCESS).saturating_add(raw_len / frame::SHARE);
        (heads.saturating_add(frames), heads.saturating_add(raw_len).saturating_add(excess))
    }
}

/// Bytes of an element of this type if it can be cut into planes: a float of whole bytes.
fn planes_of(dtype: DType) -> Option<u8> {
    let info = dtype.info()?;
    if info.kind != DTypeKind::Float || info.block_elements != 1 {
        return None;
    }
    u8::try_from(info.block_bytes).ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))
}
