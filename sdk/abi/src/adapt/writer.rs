//! Writers: puts a plugin's on the wire, and presents the wire's to the host.

use super::error::result;
use super::layout::{
    FromWireLayoutSink, FromWirePatchSink, ToWireLayoutSink, ToWirePatchSink, codec_from_wire, with_written,
    written_from_wire,
};
use super::model::{self, ToWireModel};
use super::reader::within;
use super::request::{
    from_choice, from_dtype, from_facts, from_request, to_choice, to_dtype, to_facts, to_request,
};
use crate::guard::{Guarded, plugin_wire};
use crate::wire::{
    DTypeNumber, LayoutSinkMut, ModelRef, PatchSinkMut, R, WireBlockAt, WireLayoutSink_TO, WirePatchSink_TO,
    WireWriter, WireWritten, WriterObject, pairs,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RSlice, RSliceMut, RVec};
use apr_sdk::{
    BlockAt, Carries, CheckedModel, Codec, DType, DTypeChoice, FormatManifest, LayoutRequest, LayoutSink,
    PatchSink, Result, TensorFacts, Writer, Written,
};

/// Puts a plugin's writer on the wire, with its format's part of the manifest: whichever host lends it a
/// model, the plugin only sees models that its format can hold.
pub struct ToWireWriter {
    writer: Guarded<dyn Writer>,
    name: String,
    carries: Carries,
}

impl ToWireWriter {
    /// Wraps the writer of `format`, guarding its calls and its drop.
    pub fn new(writer: Box<dyn Writer>, format: FormatManifest) -> ToWireWriter {
        let FormatManifest { name, carries, .. } = format;
        ToWireWriter { writer: Guarded::new(writer, "dropping its writer", None), name, carries }
    }
}

impl WireWriter for ToWireWriter {
    fn layout(&self, model: &ModelRef<'_>, request: RSlice<'_, u8>, sink: &mut LayoutSinkMut<'_>) -> R<()> {
        plugin_wire("laying out the output", || {
            let model = model::from_wire(model)?;
            let request = to_request(request.as_slice())?;
            let checked = CheckedModel::new(model, &self.carries);
            let model = checked.map_err(|refusal| refusal.error(&self.name))?;
            self.writer.layout(&model, &request, &mut FromWireLayoutSink(sink))
        })
    }

    fn finish(&self, written: &WireWritten<'_>, sink: &mut PatchSinkMut<'_>) -> R<()> {
        plugin_wire("finishing the output", || {
            self.writer.finish(&written_from_wire(written), &mut FromWirePatchSink(sink))
        })
    }

    fn dtypes(&self, facts: RSlice<'_, u8>, wanted: DTypeNumber) -> R<RVec<DTypeNumber>> {
        plugin_wire("choosing dtypes", || {
            let chosen = self.writer.dtypes(&to_facts(facts.as_slice())?, to_dtype(wanted))?;
            Ok(chosen.into_iter().map(from_choice).collect())
        })
    }

    fn encoded_bound(&self, codec: u32, options: RSlice<'_, u8>, raw_len: u64) -> R<u64> {
        plugin_wire("bounding a block", || {
            self.writer.encoded_bound(&codec_from_wire(codec, options.as_slice())?, raw_len)
        })
    }

    fn encode(
        &self,
        codec: u32,
        at: WireBlockAt<'_>,
        options: RSlice<'_, u8>,
        raw: RSlice<'_, u8>,
        mut out: RSliceMut<'_, u8>,
    ) -> R<u64> {
        plugin_wire("encoding a block", || {
            let at = BlockAt { tensor: at.tensor, block: at.block };
            let codec = codec_from_wire(codec, options.as_slice())?;
            Ok(self.writer.encode(&codec, at, raw.as_slice(), out.as_mut_slice())? as u64)
        })
    }
}

/// Presents the wire's writer to the host.
pub struct FromWireWriter {
    pub(crate) object: WriterObject,
}

impl Writer for FromWireWriter {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let model = ToWireModel(model);
        let request = from_request(request);
        let mut sink = ToWireLayoutSink(sink);
        let mut sink = WireLayoutSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.object.layout(&model.object(), request.as_slice().into(), &mut sink))
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        let mut sink = ToWirePatchSink(sink);
        let mut sink = WirePatchSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        with_written(written, |written| result(self.object.finish(written, &mut sink)))
    }

    fn dtypes(&self, tensors: &[TensorFacts], wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        let facts = from_facts(tensors);
        let chosen = result(self.object.dtypes(facts.as_slice().into(), from_dtype(wanted)))?;
        Ok(chosen.iter().map(|choice| to_choice(*choice)).collect())
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        let options = pairs::from_options(&codec.options);
        result(self.object.encoded_bound(codec.number, options.as_slice().into(), raw_len))
    }

    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        let room = out.len();
        let options = pairs::from_options(&codec.options);
        let options = options.as_slice().into();
        let filled = result(self.object.encode(codec.number, at.into(), options, raw.into(), out.into()))?;
        within(filled, room)
    }
}
