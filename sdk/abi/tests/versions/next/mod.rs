//! A synthetic version 1.1 of the wire: one field appended to the module, one defaulted method to the reader.

#![allow(missing_docs, reason = "the trait objects' types and constructors are generated without docs")]

#[path = "../../../src/wire/error.rs"]
mod error;
#[path = "../../../src/wire/layout.rs"]
mod layout;
#[path = "../../../src/wire/model.rs"]
mod model;
mod module;
#[path = "../../../src/wire/numbers.rs"]
mod numbers;
#[path = "../../../src/wire/pairs.rs"]
pub mod pairs;
#[path = "../../../src/wire/quantizer.rs"]
mod quantizer;
mod reader;
#[path = "../../../src/wire/source.rs"]
mod source;
#[path = "../../../src/wire/writer.rs"]
mod writer;

pub use error::{R, WireError};
pub use layout::{
    LayoutSinkMut, PatchSinkMut, WireDigest, WireEncoding, WireLayoutSink, WireLayoutSink_TO, WireOwnedBytes,
    WirePartRequest, WirePatchSink, WirePatchSink_TO, WireWritten, WireWrittenFile, WireWrittenHole,
    WireWrittenInput, WireWrittenTensor,
};
pub use model::{
    BlockSinkMut, ModelRef, ModelSinkMut, WireBlockSink, WireBlockSink_TO, WireBytes, WireExtent, WireModel,
    WireModel_TO, WireModelSink, WireModelSink_TO, WirePart, WireTensor,
};
pub use module::{PluginMod, PluginMod_Ref};
pub use numbers::{
    ByteOrder, CodingNumber, DTypeNumber, DigestNumber, EncodingNumber, ErrorNumber, FactNumber, FormNumber,
    LogNumber, NUMBERS, PayloadNumber, PolicyNumber, ScoreNumber,
};
pub use quantizer::{
    ImportanceSinkMut, QuantizerObject, WireImportanceSink, WireImportanceSink_TO, WireQuantizer,
    WireQuantizer_TO, WireRows,
};
pub use reader::{
    OpenModelObject, ReaderObject, StreamObject, WireBlockAt, WireLimits, WireLook, WireOpenModel,
    WireOpenModel_TO, WireOpened, WireReader, WireReader_TO, WireReport, WireStream, WireStream_TO,
};
pub use source::{SourceRef, WireSource, WireSource_TO};
pub use writer::{WireWriter, WireWriter_TO, WriterObject};
