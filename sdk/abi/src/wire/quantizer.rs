//! The quantizer role.

use super::{DTypeNumber, R, SourceRef, WireBytes, WireHeldRows, WirePackedRows};
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RBox, ROption, RSlice, RSliceMut, RStr, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// Rows to encode.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireRows<'a> {
    /// All elements, row after row.
    pub values: RSlice<'a, f32>,
    /// The importance of each column, if known.
    pub importance: ROption<RSlice<'a, f32>>,
    /// Elements per row.
    pub row_len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::Quantizer`.
#[sabi_trait]
pub trait WireQuantizer: Send + Sync {
    /// The block types it decodes.
    fn dtypes(&self) -> R<RVec<DTypeNumber>>;
    /// Decodes whole rows.
    fn decode(
        &self,
        dtype: DTypeNumber,
        blocks: RSlice<'_, u8>,
        row_len: u64,
        out: RSliceMut<'_, f32>,
    ) -> R<()>;
    /// Encodes whole rows.
    fn encode(&self, dtype: DTypeNumber, rows: &WireRows<'_>, out: RSliceMut<'_, u8>) -> R<()>;
    /// Pairs of types, flattened, of which the first converts losslessly to the second.
    fn repacks(&self) -> R<RVec<DTypeNumber>>;
    /// Converts blocks from the first type of such a pair to the second.
    fn repack(
        &self,
        from: DTypeNumber,
        to: DTypeNumber,
        blocks: RSlice<'_, u8>,
        out: RSliceMut<'_, u8>,
    ) -> R<()>;
    /// Its recipes, as pairs of name and description.
    fn recipes(&self) -> R<RVec<u8>>;
    /// Applies a recipe to tensors; `facts`, `model` and `options` are pairs, and so is the result.
    fn assign(
        &self,
        recipe: RStr<'_>,
        facts: RSlice<'_, u8>,
        model: RSlice<'_, u8>,
        options: RSlice<'_, u8>,
    ) -> R<RVec<u8>>;
    /// Records that a model quantized by a recipe stores: format, key, kind and bytes in turn, as pairs.
    fn records(&self, recipe: RStr<'_>) -> R<RVec<u8>>;
    /// Reads an importance matrix.
    fn importance(&self, source: &SourceRef<'_>, sink: &mut ImportanceSinkMut<'_>) -> R<()>;
    /// Reads an importance matrix as sums, which are pairs.
    fn importance_sums(&self, source: &SourceRef<'_>) -> R<RVec<u8>>;
    /// Writes sums, which are pairs, as a file of a name, in a form; empty for that of its extension.
    fn importance_file(&self, sums: RSlice<'_, u8>, file: RStr<'_>, form: RStr<'_>) -> R<RVec<u8>>;
    /// Returns whether it knows schemes of packed weights: the methods below are called only then.
    fn has_schemes(&self) -> R<bool>;
    /// Finds packed weights; the model and the answer are pairs.
    fn understand(&self, model: RSlice<'_, u8>) -> R<RVec<u8>>;
    /// Ranges of the rows from `first` to before `end` in each part: for each part 0 for all of it, or one more than
    /// the number of its boxes, and for each box its start, the number of its dimensions, and their sizes and strides
    /// in turn.
    fn ranges(&self, packed: &WirePackedRows<'_>, first: u64, end: u64) -> R<RVec<u64>>;
    /// Unpacks rows.
    fn unpack(&self, packed: &WirePackedRows<'_>, held: &WireHeldRows<'_>, out: RSliceMut<'_, f32>) -> R<()>;
    /// Returns whether a type holds every value of the rows held.
    fn holds(&self, packed: &WirePackedRows<'_>, held: &WireHeldRows<'_>, dtype: DTypeNumber) -> R<bool>;
    /// Turns rows into blocks of the same values.
    fn repack_rows(
        &self,
        packed: &WirePackedRows<'_>,
        held: &WireHeldRows<'_>,
        dtype: DTypeNumber,
        out: RSliceMut<'_, u8>,
    ) -> R<()>;
    /// Pieces of rows begin and end at multiples of so many columns; 0 if there are only whole rows.
    fn column_unit(&self, packed: &WirePackedRows<'_>) -> R<u64>;
    /// Unpacks the columns from `first` to before `end` of rows.
    #[sabi(last_prefix_field)]
    fn unpack_columns(
        &self,
        packed: &WirePackedRows<'_>,
        held: &WireHeldRows<'_>,
        first: u64,
        end: u64,
        out: RSliceMut<'_, f32>,
    ) -> R<()>;
}

/// A plugin's quantizer.
pub type QuantizerObject = WireQuantizer_TO<'static, RBox<()>>;

/// `apr_sdk::ImportanceSink`, implemented by the host.
#[sabi_trait]
pub trait WireImportanceSink {
    /// Adds the importance of a tensor's columns.
    fn tensor(&mut self, dialect: RStr<'_>, name: RStr<'_>, values: RSlice<'_, f32>) -> R<()>;
    /// Adds a record for models quantized with this matrix.
    #[sabi(last_prefix_field)]
    fn record(&mut self, format: RStr<'_>, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()>;
}

/// A borrowed importance sink.
pub type ImportanceSinkMut<'a> = WireImportanceSink_TO<'a, RMut<'a, ()>>;
