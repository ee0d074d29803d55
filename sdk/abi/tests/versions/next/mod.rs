//! A synthetic version 1.1 of the wire: one field appended to the module, one defaulted method to the reader.

#![allow(missing_docs, reason = "the trait objects' types and constructors are generated without docs")]

#[path = "../../../src/wire/error.rs"]
mod error;
#[path = "../../../src/wire/image.rs"]
mod image;
#[path = "../../../src/wire/kernel.rs"]
mod kernel;
#[path = "../../../src/wire/layout.rs"]
mod layout;
#[path = "../../../src/wire/model.rs"]
mod model;
mod module;
#[path = "../../../src/wire/numbers.rs"]
mod numbers;
#[path = "../../../src/wire/packed_weights.rs"]
mod packed;
#[path = "../../../src/wire/pairs.rs"]
pub mod pairs;
#[path = "../../../src/wire/quantizer.rs"]
mod quantizer;
mod reader;
#[path = "../../../src/wire/source.rs"]
mod source;
#[path = "../../../src/wire/step.rs"]
mod step;
#[path = "../../../src/wire/writer.rs"]
mod writer;

pub use error::{R, WireError};
pub use image::{
    ImageMemoryObject, ImageSinkMut, PlainRowsRef, RowsSinkMut, WireImage, WireImageMemory,
    WireImageMemory_TO, WireImageSink, WireImageSink_TO, WireMatrix, WirePlainRows, WirePlainRows_TO,
    WireRowsSink, WireRowsSink_TO,
};
pub use kernel::{
    DeviceObject, DeviceSinkMut, KernelObject, SessionObject, WireDevice, WireDevice_TO, WireDeviceInfo,
    WireDeviceSink, WireDeviceSink_TO, WireKernel, WireKernel_TO, WireMemory, WireOp, WireSession,
    WireSession_TO, WireSessionLimits, WireSupport,
};
pub use layout::{
    LayoutSinkMut, PatchSinkMut, WireDigest, WireEncoding, WireLayoutSink, WireLayoutSink_TO, WireOwnedBytes,
    WireOwnedCodec, WirePartRequest, WirePatchSink, WirePatchSink_TO, WireWritten, WireWrittenFile,
    WireWrittenHole, WireWrittenInput, WireWrittenTensor,
};
pub use model::{
    BlockSinkMut, ModelRef, ModelSinkMut, WireBlockSink, WireBlockSink_TO, WireBytes, WireExtent, WireModel,
    WireModel_TO, WireModelSink, WireModelSink_TO, WirePart, WireTensor,
};
pub use module::{PluginMod, PluginMod_Ref};
pub use numbers::{
    ByteOrder, CodingNumber, DTypeNumber, DigestNumber, EncodingNumber, ErrorNumber, FactNumber, FormNumber,
    LogNumber, NUMBERS, PayloadNumber, PolicyNumber, ScoreNumber, SupportNumber,
};
pub use packed::{WireHeldRows, WirePackedRows};
pub use quantizer::{
    ImportanceSinkMut, QuantizerObject, WireImportanceSink, WireImportanceSink_TO, WireQuantizer,
    WireQuantizer_TO, WireRows,
};
pub use reader::{
    OpenModelObject, ReaderObject, StreamObject, WireBlockAt, WireLimits, WireLook, WireOpenModel,
    WireOpenModel_TO, WireOpened, WireReader, WireReader_TO, WireReport, WireStream, WireStream_TO,
};
pub use source::{SourceRef, WireSource, WireSource_TO};
pub use step::{
    BarrierRef, RegionRef, StepSinkMut, TimingSinkMut, WireBarrier, WireBarrier_TO, WireBatch, WireRegion,
    WireRegion_TO, WireStateCommand, WireStepSink, WireStepSink_TO, WireTimingSink, WireTimingSink_TO,
    WireWorkers, WireWorkers_TO, WorkersRef,
};
pub use writer::{WireWriter, WireWriter_TO, WriterObject};
