//! The writing side of a format: turns a model into a layout. It does no I/O.

use crate::{
    BlockAt, CheckedModel, Codec, DType, Error, LayoutSink, Options, PatchSink, Result, TensorFacts, Written,
};

/// Turns a model into files made of segments. One object serves all threads.
pub trait Writer: Send + Sync {
    /// Pushes the files' segments in order. Equal models and requests must give equal layouts. The host has
    /// checked the model against the format's manifest: names are unique, sizes do not overflow.
    ///
    /// # Errors
    /// Unsupported for limits that the manifest cannot express; any error from the sink.
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()>;

    /// Fills the holes once all payload is written.
    ///
    /// # Errors
    /// Any error from the sink.
    fn finish(&self, _written: &Written, _sink: &mut dyn PatchSink) -> Result<()> {
        Ok(())
    }

    /// The dtype the format prefers for each tensor. Asked only when names are translated from another
    /// dialect. `wanted` is the dtype the user asked for, if any.
    ///
    /// # Errors
    /// Unsupported or Malformed if the format cannot hold a tensor with these facts.
    fn dtypes(&self, tensors: &[TensorFacts], _wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        Ok(vec![DTypeChoice::Keep; tensors.len()])
    }

    /// The most bytes [`Writer::encode`] can produce from `raw_len` bytes.
    ///
    /// # Errors
    /// Unsupported if the format does not encode payloads.
    fn encoded_bound(&self, _codec: &Codec, _raw_len: u64) -> Result<u64> {
        Err(Error::unsupported("this format has no encoded payload"))
    }

    /// Encodes one block of a payload whose layout is [`Encoding::Encoded`](crate::Encoding); returns its
    /// length. Called from several threads.
    ///
    /// # Errors
    /// Unsupported if the format does not encode payloads.
    fn encode(&self, _codec: &Codec, _at: BlockAt, _raw: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::unsupported("this format has no encoded payload"))
    }
}

/// A writer's preference for a tensor's dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DTypeChoice {
    /// Keep the dtype the tensor has.
    #[default]
    Keep,
    /// Convert to this dtype, rounding to nearest even.
    Cast(DType),
    /// Convert to this dtype if it holds every value exactly; otherwise keep the current one.
    NarrowIfExact(DType),
}

/// The treatment of foreign metadata (`--foreign`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForeignPolicy {
    /// Use the target's default carrier.
    #[default]
    Default,
    /// As `Default`, but without the verbatim forms, so the typed forms alone must be right.
    Typed,
    /// Keep it even where the default is to leave it out.
    Keep,
    /// Leave it all out.
    Drop,
}

/// The host's request to [`Writer::layout`], besides the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LayoutRequest {
    /// The output's name without folder and extension (`model`), the base for the names of several files.
    pub stem: String,
    /// The file name of a single-file output (`model.gguf`).
    pub file_name: String,
    /// True if the output is a folder. If so, the model's original split into files is kept if it still applies.
    pub folder: bool,
    /// The most payload bytes per file (`--max-shard-size`).
    pub max_shard_size: Option<u64>,
    /// The most tensors per file (`--max-shard-tensors`); only set together with `max_shard_size`. The host refuses the
    /// layout of a writer that does not keep to it.
    pub max_shard_tensors: Option<u64>,
    /// The treatment of foreign metadata.
    pub foreign: ForeignPolicy,
    /// Values of the write options that the manifest declares.
    pub options: Options,
    /// The size of each input file in bytes, for formats that record where a model came from.
    pub inputs: Vec<u64>,
    /// Names and versions of the program and of the plugins involved, for the same purpose.
    pub versions: Vec<(String, String)>,
    /// What whoever gave the model says of it, likewise: `commit`, `licence`, `gated`, `verified`. Empty for a model that was
    /// on this machine.
    pub source: Vec<(String, String)>,
    /// More for the same purpose: a JSON object, whose entries such a format adds to its record as they are: how the user
    /// asked for the conversion, and the record that the source had before it. Empty if there is no more.
    pub record: String,
}

impl LayoutRequest {
    /// A request for the single file `file_name`.
    pub fn file(file_name: &str) -> LayoutRequest {
        let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
        LayoutRequest { stem: stem.to_owned(), file_name: file_name.to_owned(), ..LayoutRequest::default() }
    }

    /// A request for a folder whose files are named after `stem`.
    pub fn folder(stem: &str) -> LayoutRequest {
        LayoutRequest { stem: stem.to_owned(), folder: true, ..LayoutRequest::default() }
    }
}
