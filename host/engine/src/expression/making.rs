//! How a tensor of the planned model is made from tensors of the source: a few ops, as data. Every op that moves elements
//! is a *box* of a source tensor: a permutation, a transpose, a split, a slice are one box, a stack or a concatenation is
//! one for each part. What changes values ([`Making::add`], a cast) is done to each element on its way.

use crate::expression::compose::{compose, merged};
use crate::expression::spool::Spool;
use crate::expression::transcode::{Transcode, Wanted};
use crate::expression::work::{Portion, Work};
use crate::registry::Registry;
use apr_sdk::{DType, DTypeInfo, Error, Model, Packing, Result, Tensor, checked_payload_len};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How one tensor is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Making {
    /// What it is made of, in the row-major order of the result.
    pub pieces: Vec<Piece>,
    /// The element type of the pieces. Where the planned tensor's own is another, the elements are cast.
    pub source_dtype: DType,
    /// Added to each element, in F32, before the cast.
    pub add: Option<f32>,
    /// The importance of the columns: for each index of the outermost of three dimensions, else once, as many values as a
    /// row has. For quantizers.
    pub importance: Option<Arc<[f32]>>,
    /// What is done with rows whose scale is a tensor of its own.
    pub row_scale: Option<RowScale>,
    /// What the pieces do, in words, for the plan: `rename`, `stack 4`. A cast and an addition are named without it.
    pub ops: Vec<String>,
}

/// What is done with rows whose scale is a tensor of its own: the greatest magnitude of a row is the greatest integer.
#[derive(Clone, Debug, PartialEq)]
pub enum RowScale {
    /// They become integers.
    Codes,
    /// They become their scales.
    Scales {
        /// Elements of a row.
        row_len: u64,
        /// The greatest integer.
        most: u8,
    },
    /// Integers become floats again.
    Undone {
        /// The number of the source's tensor that has the scales.
        tensor: usize,
        /// The scale of each row.
        scales: Arc<[f32]>,
    },
}

impl RowScale {
    /// The same for the rows from this one on.
    fn behind(&self, row: u64) -> RowScale {
        match self {
            RowScale::Undone { tensor, scales } => {
                let rest = usize::try_from(row).ok().and_then(|row| scales.get(row..)).unwrap_or_default();
                RowScale::Undone { tensor: *tensor, scales: rest.into() }
            }
            other => other.clone(),
        }
    }
}

impl Hash for Making {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let Making { pieces, source_dtype, add, importance, row_scale, ops } = self;
        (pieces, source_dtype, ops, add.map(f32::to_bits), importance.as_deref().map(bits)).hash(state);
        match row_scale {
            None => state.write_u8(0),
            Some(RowScale::Codes) => state.write_u8(1),
            Some(RowScale::Scales { row_len, most }) => (2u8, row_len, most).hash(state),
            Some(RowScale::Undone { tensor, scales }) => (3u8, tensor, bits(scales)).hash(state),
        }
    }
}

/// A run of a tensor being made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// Whether importance says nothing, and counts as none.
pub fn is_all_zero(importance: &[f32]) -> bool {
    importance.iter().all(|value| *value == 0.0)
}

impl Making {
    /// A copy of tensor number `number` of the source.
    ///
    /// # Errors
    /// What the sizes of the tensor raise, which cannot be for one of a model.
    pub fn copy(number: usize, tensor: &Tensor) -> Result<Making> {
        let units = tensor.payload_len()? / u64::from(unit(tensor.dtype)?.block_bytes);
        let whole = Piece::Box { tensor: number, start: 0, dims: vec![(units, 1)] };
        Ok(Making {
            pieces: vec![whole],
            source_dtype: tensor.dtype,
            add: None,
            importance: None,
            row_scale: None,
            ops: Vec::new(),
        })
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
        let want = checked_payload_len(self.source_dtype, &self.shape_before(planned))?;
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

    /// What the pipeline does for each piece of the planned tensor. Payload of `sources` that cannot be read as its box wants
    /// it is read from `spool`, which makes room for it.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown, a cast that there is not, pieces that are no whole rows where rows are
    /// needed, or a payload of an unknown kind.
    pub fn portions(
        &self,
        planned: &Tensor,
        sources: &[Tensor],
        spool: &mut Spool,
        registry: &Registry,
    ) -> Result<Vec<Portion>> {
        let shape = self.shape_before(planned);
        let row_len = shape.last().copied().unwrap_or(1);
        let row = checked_payload_len(self.source_dtype, &[row_len])?;
        let transcode = |importance, at: u64| {
            let wanted = Wanted {
                dtypes: (self.source_dtype, planned.dtype),
                row_len,
                add: self.add,
                importance,
                row_scale: self.row_scale.as_ref().map(|scale| scale.behind(at / row.max(1))),
            };
            Transcode::new(wanted, registry)
        };
        let plain = transcode(None, 0)?;
        let cuts = match &self.importance {
            Some(importance) if row_len > 0 => importance.len() as u64 / row_len,
            _ => 1,
        };
        let matrix = checked_payload_len(self.source_dtype, &shape)? / cuts.max(1);
        // Nearly every tensor is one piece, and a list that grows by itself begins with room for four.
        let (mut portions, mut at) = (Vec::with_capacity(self.pieces.len()), 0u64);
        for piece in &self.pieces {
            for piece in self.cut(piece, at, matrix)? {
                let len = self.piece_len(&piece)?;
                if plain.as_ref().is_some_and(Transcode::needs_rows) && !len.is_multiple_of(row.max(1)) {
                    let message = "it is made of parts of rows, which cannot be quantized at once";
                    return Err(
                        Error::unsupported(message).hint("convert it first, then quantize the result")
                    );
                }
                let transcode = match &self.importance {
                    Some(importance) if cuts > 0 => {
                        let importance = slice_of(importance, at / matrix.max(1), row_len);
                        transcode(Some(importance).filter(|values| !is_all_zero(values)), at)?
                    }
                    _ => transcode(None, at)?,
                };
                let after = transcode.as_ref().map_or(len, |transcode| transcode.after(len));
                portions.push(self.portion(&piece, transcode, after, sources, spool)?);
                at = at.saturating_add(len);
            }
        }
        Ok(portions)
    }

    /// The shape of what the planned tensor is made of.
    fn shape_before(&self, planned: &Tensor) -> Vec<u64> {
        let mut shape = planned.shape.clone();
        if let Some(RowScale::Scales { row_len, .. }) = self.row_scale {
            shape.push(row_len);
        }
        shape
    }

    fn portion(
        &self,
        piece: &Piece,
        transcode: Option<Transcode>,
        len: u64,
        sources: &[Tensor],
        spool: &mut Spool,
    ) -> Result<Portion> {
        let (work, source) = match piece {
            Piece::Bytes(bytes) => (Work::Made(bytes.clone()), None),
            Piece::Box { tensor: number, start, dims } => {
                let (dims, tensor) = (merged(dims), &sources[*number]);
                let work = match compose(tensor, *number, *start, &dims)? {
                    Some(work) => work,
                    None => spool.read(tensor, *number, *start, &dims)?,
                };
                (work, Some(*number))
            }
        };
        Ok(Portion { work, source, transcode: transcode.map(Box::new), len })
    }

    /// A piece that begins at `at` of the result, cut where one matrix of `matrix` bytes ends and the next begins, if the
    /// matrices have importance of their own.
    fn cut(&self, piece: &Piece, at: u64, matrix: u64) -> Result<Vec<Piece>> {
        let len = self.piece_len(piece)?;
        if self.importance.is_none() || matrix == 0 || at % matrix + len <= matrix {
            return Ok(vec![piece.clone()]);
        }
        let uneven =
            || Error::unsupported("its matrices cannot be told apart, and each has its own importance");
        let Piece::Box { tensor, start, dims } = piece else { return Err(uneven()) };
        let parts = len / matrix;
        let dims = merged(dims);
        let Some(&(size, stride)) = dims.first() else { return Err(uneven()) };
        if !at.is_multiple_of(matrix) || !len.is_multiple_of(matrix) || !size.is_multiple_of(parts) {
            return Err(uneven());
        }
        let (each, rest) = (size / parts, &dims[1..]);
        let part = |n: u64| {
            let dims = [&[(each, stride)], rest].concat();
            Piece::Box { tensor: *tensor, start: start + n * each * stride, dims }
        };
        Ok((0..parts).map(part).collect())
    }
}

/// The importance of matrix number `number`.
fn slice_of(importance: &[f32], number: u64, row_len: u64) -> Arc<[f32]> {
    let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let from = place(number.saturating_mul(row_len));
    importance.get(from..from.saturating_add(place(row_len))).unwrap_or_default().into()
}

/// Whether a box lies inside so many units.
fn fits(start: u64, dims: &[(u64, u64)], units: u64) -> bool {
    let steps = dims
        .iter()
        .try_fold(start, |at, &(size, stride)| at.checked_add(size.saturating_sub(1).checked_mul(stride)?));
    dims.iter().any(|(size, _)| *size == 0) || steps.is_some_and(|last| last < units)
}
