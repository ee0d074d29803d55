//! How a tensor of the planned model is made from tensors of the source: a few ops, as data. Every op that moves elements
//! is a *box* of a source tensor: a permutation, a transpose, a split, a slice are one box, a stack or a concatenation is
//! one for each part. What changes values ([`Making::add`], a cast) is done to each element on its way.

use crate::cast::Cast;
use crate::compose::{compose, merged};
use crate::spool::Spool;
use crate::tile::{Portion, Work};
use apr_sdk::{DType, DTypeInfo, Error, Model, Packing, Result, Tensor, checked_payload_len};

/// How one tensor is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Making {
    /// What it is made of, in the row-major order of the result.
    pub pieces: Vec<Piece>,
    /// The element type of the pieces. Where the planned tensor's own is another, the elements are cast.
    pub source_dtype: DType,
    /// Added to each element, in F32, before the cast.
    pub add: Option<f32>,
    /// What the pieces do, in words, for the plan: `rename`, `stack 4`. A cast and an addition are named without it.
    pub ops: Vec<String>,
}

/// A run of a tensor being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Some of the elements of a tensor of the source, in units of its dtype ([`unit()`]).
    Box {
        /// The tensor's number in the source.
        tensor: usize,
        /// Where it begins in the tensor's row-major payload, in units.
        start: u64,
        /// Size and stride of each dimension, outermost first; strides are in units of the tensor's row-major payload.
        /// None for one unit.
        dims: Vec<(u64, u64)>,
    },
    /// Computed bytes, row-major, little-endian.
    Bytes(Vec<u8>),
}

/// What a box counts in: elements, blocks of block types, and bytes where bits run on. The table's row has the bytes of a
/// unit as `block_bytes`.
///
/// # Errors
/// Unsupported for a dtype that the table lacks.
pub fn unit(dtype: DType) -> Result<&'static DTypeInfo> {
    let info = dtype.require()?;
    if info.packing == Packing::Flat { DType::U8.require() } else { Ok(info) }
}

/// Copies of all tensors of a model, in order.
///
/// # Errors
/// As [`Making::copy`].
pub fn copies(model: &Model) -> Result<Vec<Making>> {
    model.tensors.iter().enumerate().map(|(number, tensor)| Making::copy(number, tensor)).collect()
}

impl Making {
    /// A copy of tensor number `number` of the source.
    ///
    /// # Errors
    /// What the sizes of the tensor raise, which cannot be for one of a model.
    pub fn copy(number: usize, tensor: &Tensor) -> Result<Making> {
        let units = tensor.payload_len()? / u64::from(unit(tensor.dtype)?.block_bytes);
        let whole = Piece::Box { tensor: number, start: 0, dims: vec![(units, 1)] };
        Ok(Making { pieces: vec![whole], source_dtype: tensor.dtype, add: None, ops: Vec::new() })
    }

    /// Checks that this makes all of `planned`, of bytes that the tensors of the source have.
    ///
    /// # Errors
    /// Plugin, with what does not fit: only a wrong architecture table makes such a thing.
    pub fn check(&self, planned: &Tensor, sources: &[Tensor]) -> Result<()> {
        let wrong = |what: String| Err(Error::plugin(what).tensor(&planned.name));
        let mut made = 0u64;
        for piece in &self.pieces {
            if let Piece::Box { tensor, start, dims } = piece {
                let Some(source) = sources.get(*tensor) else {
                    return wrong(format!("it is made of tensor number {tensor}, which the source lacks"));
                };
                if source.dtype != self.source_dtype {
                    let (name, have, want) = (&source.name, source.dtype, self.source_dtype);
                    return wrong(format!("it is made of {want}, and `{name}` is {have}"));
                }
                let units = source.payload_len()? / u64::from(unit(source.dtype)?.block_bytes);
                if !fits(*start, dims, units) {
                    return wrong(format!("it is made of more than `{}` has", source.name));
                }
            }
            made = made.saturating_add(self.piece_len(piece)?);
        }
        let want = checked_payload_len(self.source_dtype, &planned.shape)?;
        if made != want {
            return wrong(format!("it is made of {made} bytes of {}, and needs {want}", self.source_dtype));
        }
        Ok(())
    }

    /// Bytes of a piece, before a cast; `u64::MAX` for more than a number can say.
    ///
    /// # Errors
    /// As [`unit()`].
    pub fn piece_len(&self, piece: &Piece) -> Result<u64> {
        Ok(match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Box { dims, .. } => {
                let each = u64::from(unit(self.source_dtype)?.block_bytes);
                dims.iter().fold(each, |len, (size, _)| len.saturating_mul(*size))
            }
        })
    }

    /// What the pipeline does for each piece of a tensor of this dtype. Payload of `sources` that cannot be read as its box wants it is read from
    /// `spool`, which makes room for it.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown, a cast that there is not, or a payload of an unknown kind.
    pub fn portions(&self, dtype: DType, sources: &[Tensor], spool: &mut Spool) -> Result<Vec<Portion>> {
        let cast = Cast::new(self.source_dtype, dtype, self.add)?;
        let portion = |piece: &Piece| {
            let len = self.piece_len(piece)?;
            let len = cast.map_or(len, |cast| cast.after(len));
            Ok(match piece {
                Piece::Bytes(bytes) => Portion { work: Work::Made(bytes.clone()), source: None, cast, len },
                Piece::Box { tensor: number, start, dims } => {
                    let (dims, tensor) = (merged(dims), &sources[*number]);
                    let work = match compose(tensor, *number, *start, &dims)? {
                        Some(work) => work,
                        None => spool.read(tensor, *number, *start, &dims)?,
                    };
                    Portion { work, source: Some(*number), cast, len }
                }
            })
        };
        self.pieces.iter().map(portion).collect()
    }
}

/// Whether a box lies inside so many units.
fn fits(start: u64, dims: &[(u64, u64)], units: u64) -> bool {
    let steps = dims
        .iter()
        .try_fold(start, |at, &(size, stride)| at.checked_add(size.saturating_sub(1).checked_mul(stride)?));
    dims.iter().any(|(size, _)| *size == 0) || steps.is_some_and(|last| last < units)
}
