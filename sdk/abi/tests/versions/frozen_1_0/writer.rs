//! The writer role.

use super::{DTypeNumber, LayoutSinkMut, ModelRef, PatchSinkMut, R, WireBlockAt, WireWritten};
use abi_stable::sabi_trait;
use abi_stable::std_types::{RBox, RSlice, RSliceMut, RVec};

/// `apr_sdk::Writer`.
#[sabi_trait]
pub trait WireWriter: Send + Sync {
    /// Pushes the layout; `request` is encoded as pairs.
    fn layout(&self, model: &ModelRef<'_>, request: RSlice<'_, u8>, sink: &mut LayoutSinkMut<'_>) -> R<()>;
    /// Fills the holes.
    fn finish(&self, written: &WireWritten<'_>, sink: &mut PatchSinkMut<'_>) -> R<()>;
    /// The dtypes it prefers; `facts` are nested pairs, one entry per tensor.
    fn dtypes(&self, facts: RSlice<'_, u8>, wanted: DTypeNumber) -> R<RVec<DTypeNumber>>;
    /// The most bytes that `encode` can produce; `options` are pairs, here and below.
    fn encoded_bound(&self, codec: u32, options: RSlice<'_, u8>, raw_len: u64) -> R<u64>;
    /// Encodes a block.
    #[sabi(last_prefix_field)]
    fn encode(
        &self,
        codec: u32,
        at: WireBlockAt<'_>,
        options: RSlice<'_, u8>,
        raw: RSlice<'_, u8>,
        out: RSliceMut<'_, u8>,
    ) -> R<u64>;
}

/// A plugin's writer.
pub type WriterObject = WireWriter_TO<'static, RBox<()>>;
