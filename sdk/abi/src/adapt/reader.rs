//! Readers, open models and streams: puts a plugin's on the wire, and presents the wire's to the host.

use super::error::result;
use super::layout::codec_from_wire;
use super::model_sink::{FromWireBlockSink, FromWireModelSink, ToWireBlockSink, ToWireModelSink};
use super::source::{FromWireSource, ToWireSource};
use crate::guard::{Faults, Guarded, plugin_wire};
use crate::wire::{
    BlockSinkMut, ModelSinkMut, OpenModelObject, R, ReaderObject, ScoreNumber, SourceRef, StreamObject,
    WireBlockAt, WireBlockSink_TO, WireLimits, WireLook, WireModelSink_TO, WireOpenModel, WireOpened,
    WireReader, WireReport, WireStream, pairs,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RSlice, RSliceMut, RStr, RVec};
use apr_sdk::{
    BlockAt, BlockSink, Budget, Codec, Error, Limits, Look, ModelSink, OpenModel, Options, Reader, Report,
    Result, Score, Source, Stream,
};
use std::sync::Arc;

/// Puts a plugin's reader on the wire.
pub struct ToWireReader(Guarded<dyn Reader>);

impl ToWireReader {
    /// Wraps `reader`, guarding its calls and its drop.
    pub fn new(reader: Box<dyn Reader>) -> ToWireReader {
        ToWireReader(Guarded::new(reader, "dropping its reader", None))
    }
}

impl WireReader for ToWireReader {
    fn probe(&self, look: &WireLook<'_>) -> R<ScoreNumber> {
        plugin_wire("probing", || {
            let entries: Vec<String> = look.entries.iter().map(|name| name.as_str().to_owned()).collect();
            let score = self.0.probe(&Look {
                name: look.name.as_str(),
                len: look.len,
                head: look.head.as_slice(),
                tail: look.tail.as_slice(),
                is_folder: look.is_folder,
                entries: &entries,
            });
            Ok(ScoreNumber(score.0))
        })
    }

    fn open(
        &self,
        source: &SourceRef<'_>,
        limits: &WireLimits<'_>,
        options: RSlice<'_, u8>,
    ) -> R<WireOpened> {
        plugin_wire("opening", || {
            let limits = limits_from_wire(limits);
            let options = pairs::to_options(options.as_slice())?;
            let model = self.0.open(&FromWireSource(source), &limits, &options)?;
            let model = ToWireOpenModel(Guarded::new(model, "dropping an open model", None));
            Ok(WireOpened {
                model: OpenModelObject::from_value(model, TD_Opaque),
                budget_left: limits.budget.left(),
                detail: RVec::new(),
            })
        })
    }

    fn report(
        &self,
        id: RStr<'_>,
        source: &SourceRef<'_>,
        limits: &WireLimits<'_>,
        options: RSlice<'_, u8>,
    ) -> R<WireReport> {
        plugin_wire("creating a report", || {
            let options = pairs::to_options(options.as_slice())?;
            let source = FromWireSource(source);
            let report = self.0.report(id.as_str(), &source, &limits_from_wire(limits), &options)?;
            Ok(WireReport {
                text: report.text.into(),
                json: report.json.into(),
                passed: u32::from(report.passed),
                padding: 0,
                reserved: [0; 2],
            })
        })
    }
}

struct ToWireOpenModel(Guarded<dyn OpenModel>);

impl WireOpenModel for ToWireOpenModel {
    fn describe(&self, source: &SourceRef<'_>, sink: &mut ModelSinkMut<'_>) -> R<()> {
        plugin_wire("describing a model", || {
            self.0.describe(&FromWireSource(source), &mut FromWireModelSink(sink))
        })
    }

    fn blocks(&self, source: &SourceRef<'_>, tensor: u64, sink: &mut BlockSinkMut<'_>) -> R<()> {
        plugin_wire("listing blocks", || {
            self.0.blocks(&FromWireSource(source), tensor, &mut FromWireBlockSink(sink))
        })
    }

    fn decode(
        &self,
        codec: u32,
        at: WireBlockAt<'_>,
        options: RSlice<'_, u8>,
        stored: RSlice<'_, u8>,
        mut out: RSliceMut<'_, u8>,
    ) -> R<()> {
        plugin_wire("decoding a block", || {
            let at = BlockAt { tensor: at.tensor, block: at.block };
            let codec = codec_from_wire(codec, options.as_slice())?;
            self.0.decode(&codec, at, stored.as_slice(), out.as_mut_slice())
        })
    }

    fn stream(&self, tensor: u64) -> R<StreamObject> {
        plugin_wire("starting a stream", || {
            let stream = Guarded::new(self.0.stream(tensor)?, "dropping a stream", None);
            Ok(StreamObject::from_value(ToWireStream(stream), TD_Opaque))
        })
    }

    fn tokenizer(&self, source: &SourceRef<'_>) -> R<RVec<u8>> {
        plugin_wire("parsing a tokenizer", || {
            Ok(self.0.tokenizer(&FromWireSource(source))?.unwrap_or_default().into())
        })
    }

    fn covered(&self, checksum: u64) -> R<StreamObject> {
        plugin_wire("starting a stream", || {
            let stream = Guarded::new(self.0.covered(checksum)?, "dropping a stream", None);
            Ok(StreamObject::from_value(ToWireStream(stream), TD_Opaque))
        })
    }
}

struct ToWireStream(Guarded<dyn Stream>);

impl WireStream for ToWireStream {
    fn read(&mut self, source: &SourceRef<'_>, mut out: RSliceMut<'_, u8>) -> R<u64> {
        plugin_wire("reading a stream", || {
            Ok(self.0.read(&FromWireSource(source), out.as_mut_slice())? as u64)
        })
    }
}

fn limits_from_wire(wire: &WireLimits<'_>) -> Limits {
    Limits {
        tensors: wire.tensors,
        dims: usize::try_from(wire.dims).unwrap_or(usize::MAX),
        name_bytes: wire.name_bytes,
        metadata_keys: wire.metadata_keys,
        nesting: wire.nesting,
        files: wire.files,
        budget: Budget::new(wire.budget_left),
    }
}

fn limits_to_wire(limits: &Limits) -> WireLimits<'static> {
    WireLimits {
        tensors: limits.tensors,
        dims: limits.dims as u64,
        name_bytes: limits.name_bytes,
        metadata_keys: limits.metadata_keys,
        nesting: limits.nesting,
        files: limits.files,
        budget_left: limits.budget.left(),
        detail: RSlice::EMPTY,
    }
}

/// Presents the wire's reader to the host.
pub struct FromWireReader {
    pub(crate) object: ReaderObject,
    pub(crate) faults: Arc<Faults>,
}

impl Reader for FromWireReader {
    fn probe(&self, look: &Look<'_>) -> Score {
        let entries: Vec<RStr<'_>> = look.entries.iter().map(|name| name.as_str().into()).collect();
        let wire = WireLook {
            name: look.name.into(),
            head: look.head.into(),
            tail: look.tail.into(),
            entries: entries.as_slice().into(),
            len: look.len,
            is_folder: look.is_folder,
            detail: RSlice::EMPTY,
        };
        match result(self.object.probe(&wire)) {
            Ok(score) => Score(score.0),
            Err(error) => {
                self.faults.note(error.message());
                Score::NO
            }
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let before = limits.budget.left();
        let wire = limits_to_wire(limits);
        let options = pairs::from_options(options);
        let source = ToWireSource(source);
        let opened = result(self.object.open(&source.object(), &wire, options.as_slice().into()))?;
        // The plugin worked on a copy of the budget: apply its charges and earnings to the host's.
        match opened.budget_left.checked_sub(before) {
            Some(gained) => limits.budget.earn(gained / Budget::PER_BYTE),
            None => limits.budget.charge((before - opened.budget_left).min(limits.budget.left()))?,
        }
        Ok(Box::new(FromWireOpenModel(opened.model)))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Report> {
        let options = pairs::from_options(options);
        let source = ToWireSource(source);
        let wire = limits_to_wire(limits);
        let report =
            result(self.object.report(id.into(), &source.object(), &wire, options.as_slice().into()))?;
        Ok(Report { text: report.text.into(), json: report.json.into(), passed: report.passed == 1 })
    }
}

struct FromWireOpenModel(OpenModelObject);

impl OpenModel for FromWireOpenModel {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let source = ToWireSource(source);
        let mut sink = ToWireModelSink(sink);
        let mut sink = WireModelSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.0.describe(&source.object(), &mut sink))
    }

    fn blocks(&self, source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let source = ToWireSource(source);
        let mut sink = ToWireBlockSink(sink);
        let mut sink = WireBlockSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.0.blocks(&source.object(), tensor, &mut sink))
    }

    fn decode(&self, codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let options = pairs::from_options(&codec.options);
        let options = options.as_slice().into();
        result(self.0.decode(codec.number, at.into(), options, stored.into(), out.into()))
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        Ok(Box::new(FromWireStream(result(self.0.stream(tensor))?)))
    }

    fn tokenizer(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        let source = ToWireSource(source);
        let json = result(self.0.tokenizer(&source.object()))?.into_vec();
        Ok(Some(json).filter(|json| !json.is_empty()))
    }

    fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        Ok(Box::new(FromWireStream(result(self.0.covered(checksum))?)))
    }
}

impl From<BlockAt> for WireBlockAt<'_> {
    fn from(at: BlockAt) -> Self {
        WireBlockAt { tensor: at.tensor, block: at.block, detail: RSlice::EMPTY }
    }
}

struct FromWireStream(StreamObject);

impl Stream for FromWireStream {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let source = ToWireSource(source);
        let room = out.len();
        let filled = result(self.0.read(&source.object(), out.into()))?;
        within(filled, room)
    }
}

/// Checks that a count returned by a plugin fits the room it was given.
///
/// # Errors
/// Plugin if it does not fit.
pub(crate) fn within(filled: u64, room: usize) -> Result<usize> {
    usize::try_from(filled).ok().filter(|filled| *filled <= room).ok_or_else(|| {
        Error::plugin(format!("claims to have written {filled} bytes to a buffer of {room}")).code("E_PLUGIN")
    })
}
