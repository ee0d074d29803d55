//! The interface between host and plugin. From the first tagged release on, this only grows: fields are appended to
//! [`PluginMod`], and methods with a default body to the traits. Plain structs never change: additions go into their
//! `detail`, pairs of key and value whose unknown keys are ignored; reserved words are zero and not read. Every
//! enumeration is a number with named constants, since a Rust enum could not grow.

#![allow(missing_docs, reason = "the trait objects' types and constructors are generated without docs")]

mod error;
mod image;
mod kernel;
mod layout;
mod model;
mod module;
mod numbers;
mod packed_weights;
pub mod pairs;
mod quantizer;
mod reader;
mod source;
mod step;
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
pub use module::{PluginMod, PluginMod_Ref, WireProgram};
pub use numbers::{
    ByteOrder, CodingNumber, DTypeNumber, DigestNumber, EncodingNumber, ErrorNumber, FactNumber, FormNumber,
    LogNumber, NUMBERS, PayloadNumber, PolicyNumber, ScoreNumber, SupportNumber,
};
pub use packed_weights::{WireHeldRows, WirePackedRows};
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
