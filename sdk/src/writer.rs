//! The writing side of a format: a model becomes a layout. No I/O happens here.

use crate::{
    BlockAt, CheckedModel, Codec, DType, Error, LayoutSink, Options, PatchSink, Result, TensorFacts, Written,
};

/// Turns a model into files made of segments. One object serves all threads.
pub trait Writer: Send + Sync {
    /// Pushes the files' segments in order. The same model and request always give the same layout. The model is one that
    /// the manifest's line of this format carries: names are unique, sizes do not overflow.
    ///
    /// # Errors
    /// Unsupported for what the format cannot hold and the manifest's `carries` could not say; whatever the sink raised.
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()>;

    /// Fills the holes, once all payload is written.
    ///
    /// # Errors
    /// Whatever the sink raised.
    fn finish(&self, _written: &Written, _sink: &mut dyn PatchSink) -> Result<()> {
        Ok(())
    }

    /// The dtype the format would rather have for each tensor, asked only when names are translated from another
    /// dialect. `wanted` is the dtype the user asked for, if any.
    ///
    /// # Errors
    /// Unsupported or Malformed, for what the facts say and the format cannot have.
    fn dtypes(&self, tensors: &[TensorFacts], _wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        Ok(vec![DTypeChoice::Keep; tensors.len()])
    }

    /// The most bytes that [`Writer::encode`] can make of `raw_len` bytes.
    ///
    /// # Errors
    /// Unsupported unless the format encodes.
    fn encoded_bound(&self, _codec: &Codec, _raw_len: u64) -> Result<u64> {
        Err(Error::unsupported("this format has no encoded payload"))
    }

    /// Encodes one block of a payload that the layout declared as encoded; gives the length. Called from several threads.
    ///
    /// # Errors
    /// Unsupported unless the format encodes.
    fn encode(&self, _codec: &Codec, _at: BlockAt, _raw: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::unsupported("this format has no encoded payload"))
    }
}

/// What a writer wants of a tensor's dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DTypeChoice {
    /// The one it has.
    #[default]
    Keep,
    /// This one: the host converts, rounding to nearest even.
    Cast(DType),
    /// This one if it holds every value of the tensor exactly, else the one it has.
    NarrowIfExact(DType),
}

/// What becomes of foreign metadata (`--foreign`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ForeignPolicy {
    /// The target's default carrier.
    #[default]
    Default,
    /// As default, without the verbatim forms: everything must still be right.
    Typed,
    /// Also where the default is to leave it out.
    Keep,
    /// None.
    Drop,
}

/// What the host asks of [`Writer::layout`] besides the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LayoutRequest {
    /// The output's name without folder and extension (`model`); names of several files are built on it.
    pub stem: String,
    /// The output's file name for a single file (`model.gguf`).
    pub file_name: String,
    /// Whether the output is a folder: then the source's own part structure is used if the model still has it.
    pub folder: bool,
    /// The most payload bytes of one file (`--max-shard-size`).
    pub max_shard_size: Option<u64>,
    /// What becomes of foreign metadata.
    pub foreign: ForeignPolicy,
    /// The values of the options that the manifest declares for writing.
    pub options: Options,
    /// The size of each input file in bytes, for formats that record where a model came from.
    pub inputs: Vec<u64>,
    /// Names and versions of the program and of the plugins involved, for the same.
    pub versions: Vec<(String, String)>,
}

impl LayoutRequest {
    /// A request for one file.
    pub fn file(file_name: &str) -> LayoutRequest {
        let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
        LayoutRequest { stem: stem.to_owned(), file_name: file_name.to_owned(), ..LayoutRequest::default() }
    }

    /// A request for a folder, whose files are named after `stem`.
    pub fn folder(stem: &str) -> LayoutRequest {
        LayoutRequest { stem: stem.to_owned(), folder: true, ..LayoutRequest::default() }
    }
}
