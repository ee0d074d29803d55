//! The quantizing role.

use super::{DTypeNumber, R, SourceRef, WireBytes};
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RBox, ROption, RSlice, RSliceMut, RStr, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// Rows to be encoded.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireRows<'a> {
    /// All elements, row after row.
    pub values: RSlice<'a, f32>,
    /// The importance of each column, if there is any.
    pub importance: ROption<RSlice<'a, f32>>,
    /// Elements of a row.
    pub row_len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::Quantizer`.
#[sabi_trait]
pub trait WireQuantizer: Send + Sync {
    /// The types it decodes.
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
    /// Pairs of types, one after the other, of which the first becomes the second without any loss.
    fn repacks(&self) -> R<RVec<DTypeNumber>>;
    /// Does that.
    fn repack(
        &self,
        from: DTypeNumber,
        to: DTypeNumber,
        blocks: RSlice<'_, u8>,
        out: RSliceMut<'_, u8>,
    ) -> R<()>;
    /// Its recipes, as pairs of name and what it is.
    fn recipes(&self) -> R<RVec<u8>>;
    /// What becomes of each tensor; `facts`, `model` and `options` are pairs, and so is what comes back.
    fn assign(
        &self,
        recipe: RStr<'_>,
        facts: RSlice<'_, u8>,
        model: RSlice<'_, u8>,
        options: RSlice<'_, u8>,
    ) -> R<RVec<u8>>;
    /// What a model quantized by a recipe records of it: format, key, kind and bytes in turn, as pairs.
    fn records(&self, recipe: RStr<'_>) -> R<RVec<u8>>;
    /// Reads an importance matrix.
    #[sabi(last_prefix_field)]
    fn importance(&self, source: &SourceRef<'_>, sink: &mut ImportanceSinkMut<'_>) -> R<()>;
}

/// A plugin's quantizer.
pub type QuantizerObject = WireQuantizer_TO<'static, RBox<()>>;

/// `apr_sdk::ImportanceSink`, implemented by the host.
#[sabi_trait]
pub trait WireImportanceSink {
    /// The importance of a tensor's columns.
    fn tensor(&mut self, dialect: RStr<'_>, name: RStr<'_>, values: RSlice<'_, f32>) -> R<()>;
    /// What a model quantized with it records.
    #[sabi(last_prefix_field)]
    fn record(&mut self, format: RStr<'_>, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()>;
}

/// A lent importance sink.
pub type ImportanceSinkMut<'a> = WireImportanceSink_TO<'a, RMut<'a, ()>>;
