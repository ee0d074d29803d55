//! Packed checkpoints: weights that a scheme stores as codes, scales and tables in several tensors. A plugin
//! that knows schemes says which tensors of a model belong together, and turns their bytes into values.
//!
//! Everything is a function of bytes. The host reads the parts and holds them; a plugin is told which rows
//! are wanted, says where these lie in each part, and gets the bytes.

use crate::{DType, Error, Result};
use std::ops::Range;

/// A scheme's view of a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoredModel {
    /// Its tensors as they are stored, in the source's order.
    pub tensors: Vec<StoredTensor>,
    /// Its configuration's statements about packed weights.
    pub announced: Vec<Announced>,
    /// The type that the configuration states for the weights before they were packed.
    pub dtype: Option<DType>,
    /// Contents of small tensors that an earlier answer asked for: the tensor's number, and its bytes,
    /// row-major and little-endian; in ascending order of numbers.
    pub contents: Vec<(usize, Vec<u8>)>,
}

impl StoredModel {
    /// The bytes of tensor number `tensor`, if they were asked for and read.
    pub fn contents_of(&self, tensor: usize) -> Option<&[u8]> {
        let at = self.contents.binary_search_by_key(&tensor, |(number, _)| *number).ok()?;
        Some(&self.contents[at].1)
    }
}

/// A tensor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
}

/// The key under which schemes find the name of the recipe by which apr quantized a model, as `{"recipe": "int8"}`, among what
/// announces packed weights.
pub const RECIPE: &str = "recipe";

/// An object of a model's configuration that announces packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The file it is in, for messages.
    pub file: String,
    /// The key of the object; empty if it is the whole file.
    pub key: String,
    /// The object as JSON.
    pub json: String,
}

/// A scheme's findings in a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// The weights, each with the tensors that it is stored in.
    pub packed: Vec<PackedTensor>,
    /// Tensors that are no weights and that values do not depend on, such as scales of activations: the
    /// tensor's number, and what it is, in words.
    pub unused: Vec<(usize, String)>,
    /// Numbers of small tensors, at most [`MOST_CONTENTS`] bytes each, whose contents are needed for an
    /// answer. If there are any, the rest of the answer does not count, and the host asks again.
    pub wanted: Vec<usize>,
    /// Notes for the user, such as an assumption.
    pub notes: Vec<String>,
    /// Types that hold weights but for a factor.
    pub factored: Vec<FactoredType>,
    /// Weights whose activations must not be narrowed to the weight's own type, because the checkpoint's configuration says that only
    /// weights were quantized: indices in `packed`.
    pub wide_activations: Vec<usize>,
}

/// Blocks that hold the values of a packed weight but for one factor, for targets that store the factor beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactoredType {
    /// Index of the weight in [`Understood::packed`].
    pub weight: usize,
    /// The type of the blocks.
    pub dtype: DType,
    /// The weight's rows without the factor, in the first ones of its parts.
    pub rows: PackedRows,
    /// Numbers of the parts whose contents decide whether blocks hold them; empty if they always do.
    pub evidence: Vec<usize>,
    /// The number of the tensor that is the factor, one F32, and whether values are divided by it.
    pub factor: (usize, bool),
    /// Likewise the scale of the activations that the weight is multiplied with, if there is one.
    pub input: Option<(usize, bool)>,
}

/// The host's reading of a [`FactoredType`].
#[derive(Clone, Debug, PartialEq)]
pub struct Factored {
    /// The type of the blocks.
    pub dtype: DType,
    /// The rows without the factor.
    pub rows: PackedRows,
    /// Numbers of the parts that decide whether blocks hold them.
    pub evidence: Vec<usize>,
    /// Multiplier of the values.
    pub factor: f32,
    /// Multiplier of the activations, if one is stored.
    pub input: Option<f32>,
}

/// The most bytes of a tensor that is read for an answer. 64 KiB: a thousand times a stored shape or state.
pub const MOST_CONTENTS: u64 = 64 << 10;

/// A weight, and how it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedTensor {
    /// The weight's name, as the same model has it without packing.
    pub name: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Layout of the weight's elements among the packed rows: the stride of each dimension in elements; empty if the
    /// rows, one after the other, are the weight.
    pub strides: Vec<u64>,
    /// The type of the weight before it was packed, as far as the model says.
    pub dtype: DType,
    /// The scheme in a few words, for the user: `GPTQ, 4 bits, groups of 128`.
    pub about: String,
    /// Packing of the rows.
    pub rows: PackedRows,
    /// The tensors it is stored in, in the scheme's own order: the tensor's number, and what it is, in words.
    pub parts: Vec<(usize, String)>,
    /// Number of rows that are best read together: 1 if each row lies in one place.
    pub panel: u64,
    /// Types other than F32 that may hold every value, best first.
    pub exact: Vec<ExactType>,
}

/// A type that may hold every value of a packed weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactType {
    /// The type: blocks, or floats.
    pub dtype: DType,
    /// Numbers of the parts whose contents decide whether it does; empty if it always does.
    pub evidence: Vec<usize>,
}

/// Packing of the rows of a weight: what a scheme needs in order to unpack them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedRows {
    /// The scheme, by the plugin's own name for it.
    pub scheme: String,
    /// The scheme's own parameters.
    pub numbers: Vec<u64>,
    /// Number of rows, those of all stacked matrices together.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
}

/// Place of some rows in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartRange {
    /// They need all of it, whatever the rows are: the host reads it once. At most [`MOST_WHOLE`] bytes.
    Whole,
    /// They need these boxes of its elements, one after the other.
    Boxes(Vec<PartBox>),
}

/// The most bytes of a part that is held as a whole. 64 MiB: a hundred times the longest list of columns.
pub const MOST_WHOLE: u64 = 64 << 20;

/// A box of a part's elements, in row-major order (of its bytes, for types of less than a byte).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartBox {
    /// Index of the first element.
    pub start: u64,
    /// Size and stride of each dimension in elements, outermost first; empty for one element.
    pub dims: Vec<(u64, u64)>,
}

impl PartBox {
    /// `len` elements in a row.
    pub fn run(start: u64, len: u64) -> PartBox {
        PartBox { start, dims: vec![(len, 1)] }
    }
}

/// Rows in memory: those that [`Schemes::ranges`] was asked about, with the bytes of each part.
#[derive(Clone, Debug)]
pub struct HeldRows<'a> {
    /// The rows.
    pub rows: Range<u64>,
    /// For each part the bytes of its boxes, or of the whole part; little-endian.
    pub parts: &'a [&'a [u8]],
}

/// Schemes of packed weights. Several threads call at once.
pub trait Schemes: Send + Sync {
    /// Finds the packed weights of a model.
    ///
    /// # Errors
    /// Malformed for parts that are missing or do not fit, naming the tensor; Unsupported for a scheme that is
    /// recognised and not known.
    fn understand(&self, model: &StoredModel) -> Result<Understood>;

    /// Returns the places of rows `rows` in each part.
    ///
    /// # Errors
    /// Plugin for rows that there are not.
    fn ranges(&self, packed: &PackedRows, rows: Range<u64>) -> Result<Vec<PartRange>>;

    /// The values of rows `rows`, all of which are among those held.
    ///
    /// # Errors
    /// Malformed for codes, scales or indices that mean no value.
    fn unpack(
        &self,
        packed: &PackedRows,
        held: &HeldRows<'_>,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<()>;

    /// Pieces of rows that [`Schemes::unpack_columns`] gives begin and end at multiples of so many columns, or at the
    /// end of the row; 0 if it gives none.
    ///
    /// # Errors
    /// Plugin for rows that it does not know.
    fn column_unit(&self, _packed: &PackedRows) -> Result<u64> {
        Ok(0)
    }

    /// The values of columns `columns` of rows `rows`, row after row: for weights that are transposed on the way, so that
    /// each row need not be unpacked as a whole for a few of its values.
    ///
    /// # Errors
    /// As [`Schemes::unpack`].
    fn unpack_columns(
        &self,
        packed: &PackedRows,
        _held: &HeldRows<'_>,
        _rows: Range<u64>,
        _columns: Range<u64>,
        _out: &mut [f32],
    ) -> Result<()> {
        Err(Error::plugin(format!("`{}` cannot be read in parts of rows", packed.scheme)))
    }

    /// Returns whether `dtype`, one of the weight's exact types, holds every value of the rows held. Only the parts
    /// that are evidence have bytes.
    ///
    /// # Errors
    /// As [`Schemes::unpack`].
    fn holds(&self, packed: &PackedRows, _held: &HeldRows<'_>, dtype: DType) -> Result<bool> {
        let scheme = &packed.scheme;
        Err(Error::plugin(format!("cannot tell whether {dtype} holds the values of `{scheme}`")))
    }

    /// Rows `rows` as blocks of `dtype` with the same values. The host compares the values.
    ///
    /// # Errors
    /// As [`Schemes::unpack`]; Unsupported for a type that is none of the weight's exact types.
    fn repack(
        &self,
        packed: &PackedRows,
        _held: &HeldRows<'_>,
        _rows: Range<u64>,
        dtype: DType,
        _out: &mut [u8],
    ) -> Result<()> {
        Err(Error::unsupported(format!("`{}` cannot be repacked as {dtype} without loss", packed.scheme)))
    }
}
