//! The author's side of `apr`: everything a plugin needs, in plain Rust.
//!
//! A format plugin is a pure function over bytes. Its [`Reader`] turns a header into an index (tensor names,
//! dtypes, shapes and where the payload is); its [`Writer`] turns a [`CheckedModel`] into a layout (which
//! bytes go where). The host does all I/O, threading, memory management, verification and reporting. Nothing
//! here names a format, an architecture or a device, and no type of the binary interface is visible.
//!
//! Start with the template that `apr plugins new NAME` writes; then read [`export_plugin!`], [`Reader`],
//! [`Writer`].

#![forbid(unsafe_code)]

mod block_type;
mod bytes;
pub mod carried_metadata;
mod checked_model;
mod cursor;
mod derived_weights;
mod digest;
mod dtype;
mod dtype_table;
mod error;
mod file_name;
mod foreign;
pub mod half;
mod importance_sums;
pub mod json;
mod kernel;
mod layout;
mod limits;
pub mod manifest;
mod manifest_format;
mod memory;
mod model;
mod model_builder;
pub mod model_card;
mod name_mapper;
mod name_set;
mod options;
mod packed_weights;
mod plugin;
mod probe;
mod quantizer;
mod reader;
mod report;
mod run_time_dtypes;
mod scales;
mod shape;
pub mod shards;
mod source;
pub mod strict_json;
mod text;
pub mod tokenizer;
mod value;
mod writer;

pub use block_type::BlockType;
pub use bytes::{Bytes, Extent, FileId};
pub use checked_model::{CheckedModel, Obstacle, Refusal};
pub use cursor::{Cursor, Endian};
pub use derived_weights::{
    DERIVED, Derived, DerivedNumbers, DerivedPacking, DerivedStated, DerivedUnknown, DerivedWeight,
};
pub use digest::{Digest, DigestForm, Digests, Sum};
pub use dtype::{DType, DTypeInfo, DTypeKind, Packing, SwapField};
pub use error::{Error, ErrorKind, Result};
pub use file_name::check_file_name;
pub use foreign::{Foreign, ForeignFile};
pub use importance_sums::{ImportanceSums, TensorSums};
pub use kernel::{
    Activate, Activation, Append, Attention, Barrier, Batch, Binary, BinaryKind, CheckedProgram, Columns,
    Combine, Device, DeviceInfo, DeviceSink, Embed, ExpertLinear, ExpertScore, FixedState, HeadLinear,
    ImageMemory, ImageSink, ImageSpec, KERNEL_NUMBERS, Kernel, Linear, MEASURE_FIGURES, Mask, MatrixSpec,
    Measure, Memory, Norm, NormKind, OpCode, OpSpec, Operation, PagedState, Pool, Pooling, Program, Rope,
    RopeStyle, Route, RowIndex, Rows, RowsOf, RowsSink, Sample, Sampler, SamplerCode, Session, SessionLimits,
    Slice, State, StateCode, StateCommand, StateVerb, StepSink, Support, TimingSink, Unary, UnaryKind,
    ValueSpec, Weight, WeightPart, WeightShape, Workers,
};
pub use layout::{
    Encoding, LayoutSink, PartRequest, PatchSink, Written, WrittenFile, WrittenHole, WrittenInput,
    WrittenTensor,
};
pub use limits::{Budget, Limits};
pub use manifest::{Carries, FormatManifest, Manifest};
pub use memory::MemorySource;
pub use model::{
    Architecture, Asset, Checksum, Codec, Coding, Model, PackedWeight, Part, Payload, Tensor, View,
};
pub use model_builder::ModelBuilder;
pub use name_mapper::NameMapper;
pub use options::{OptionKind, OptionSpec, Options};
pub use packed_weights::{
    Announced, ExactType, Factored, FactoredType, HeldRows, MOST_CONTENTS, MOST_WHOLE, PackedRows,
    PackedTensor, PartBox, PartRange, RECIPE, Schemes, StoredModel, StoredTensor, Understood,
};
pub use plugin::PluginDecl;
pub use probe::{Look, Score};
pub use quantizer::{Assignment, ImportanceSink, ModelFacts, Quantizer, RecipeDecl, Record, TensorFacts};
pub use reader::{BlockAt, BlockSink, Fact, ModelSink, OpenModel, PartDecl, Reader, Stream, TensorDecl};
pub use report::Report;
pub use run_time_dtypes::{OwnTypes, ProgramTypes, connect as connect_types};
pub use scales::{ScaleField, ScaleKind};
pub use shape::{checked_blocks, checked_elements, checked_payload_len};
pub use source::{LogLevel, Source};
pub use text::{escape, escape_json, escape_lines, has_controls, is_printable};
pub use value::{Value, ValueType};
pub use writer::{DTypeChoice, ForeignPolicy, LayoutRequest, Writer};

#[doc(hidden)]
#[cfg(not(target_family = "wasm"))]
pub use inventory as __inventory;
