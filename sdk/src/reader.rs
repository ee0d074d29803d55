//! The reading side of a format: turns a header into an index.

use crate::{
    Bytes, Checksum, Codec, DType, Endian, Error, Extent, FileId, Limits, Look, Options, Payload, Report,
    Result, Score, Source, Value,
};

/// Turns a file's header into a model. One object serves all threads and all files of its format.
pub trait Reader: Send + Sync {
    /// The format's confidence that the file is its own. "Not mine" is a score, not an error.
    fn probe(&self, look: &Look<'_>) -> Score;

    /// Reads the header, and none of the payload.
    ///
    /// # Errors
    /// Malformed, Unsupported or LimitExceeded with file and offset; any error from the source.
    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>>;

    /// Makes the report `id`, declared in the manifest as `F.report.ID`. The file need not be one that opens.
    ///
    /// # Errors
    /// Unsupported for an unknown report; any error from the source.
    fn report(&self, id: &str, _source: &dyn Source, _limits: &Limits, _options: &Options) -> Result<Report> {
        Err(Error::unsupported(format!("this format has no report `{}`", crate::escape(id, 80))))
    }
}

/// An opened model. The host keeps it as long as needed and lends it the source for each call.
pub trait OpenModel: Send + Sync {
    /// Pushes everything the header said. Called once.
    ///
    /// # Errors
    /// Any error from the sink; Malformed for problems found only now.
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()>;

    /// Lists the compressed blocks of tensor number `tensor`, in the order they were pushed.
    ///
    /// # Errors
    /// Unsupported unless the tensor has [`Payload::Blocks`].
    fn blocks(&self, _source: &dyn Source, _tensor: u64, _sink: &mut dyn BlockSink) -> Result<()> {
        Err(Error::unsupported("this format has no compressed blocks"))
    }

    /// Decodes one compressed block into `out`, which is exactly as long as the block's raw data. Called from
    /// several threads.
    ///
    /// # Errors
    /// Malformed if the block does not decode to exactly that length.
    fn decode(&self, _codec: &Codec, _at: BlockAt, _stored: &[u8], _out: &mut [u8]) -> Result<()> {
        Err(Error::unsupported("this format has no compressed blocks"))
    }

    /// The model's tokenizer as the JSON of [`crate::tokenizer`], or `None` if it has none. Built on demand:
    /// the host needs it to write another format or to compare, not to open. A format that stores that very
    /// JSON pushes it as [`Fact::Tokenizer`] instead.
    ///
    /// # Errors
    /// Unsupported, with a reason, for a kind of tokenizer the JSON cannot express; Malformed.
    fn tokenizer(&self, _source: &dyn Source) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// A new stream over the payload of tensor number `tensor`.
    ///
    /// # Errors
    /// Unsupported unless the tensor has [`Payload::Sequential`].
    fn stream(&self, _tensor: u64) -> Result<Box<dyn Stream>> {
        Err(Error::unsupported("this format has no sequential payload"))
    }

    /// A stream over the decoded bytes that checksum number `checksum` (in the order they were pushed)
    /// covers. The host does the comparing, not this stream.
    ///
    /// # Errors
    /// Unsupported unless the checksum is over decoded bytes.
    fn covered(&self, _checksum: u64) -> Result<Box<dyn Stream>> {
        Err(Error::unsupported("this format has no checksums of decoded bytes"))
    }
}

/// A payload that is read in order. It keeps its own state and is lent the source for each call.
pub trait Stream: Send {
    /// Fills the start of `out`; returns how many bytes, 0 at the end.
    ///
    /// # Errors
    /// Malformed; any error from the source.
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize>;
}

/// Identifies a compressed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAt {
    /// The tensor's number, in push order.
    pub tensor: u64,
    /// The block's index within the tensor, from 0.
    pub block: u64,
}

/// Receives a tensor's compressed blocks, in order.
pub trait BlockSink {
    /// Adds a block: where it is stored, and how many bytes it decodes to.
    ///
    /// # Errors
    /// Malformed if the raw lengths exceed the tensor's payload, or the extent exceeds its file.
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()>;
}

/// A tensor, as a reader pushes it.
#[derive(Clone, Debug)]
pub struct TensorDecl<'a> {
    /// Unique in the model.
    pub name: &'a str,
    /// Its element type.
    pub dtype: DType,
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: &'a [u64],
    /// The payload's place, and the way to read it.
    pub payload: Payload,
}

impl<'a> TensorDecl<'a> {
    /// A tensor whose payload is a plain extent.
    pub fn plain(name: &'a str, dtype: DType, shape: &'a [u64], extent: Extent) -> TensorDecl<'a> {
        TensorDecl { name, dtype, shape, payload: Payload::Extent { extent, view: None } }
    }

    /// A tensor whose payload is an extent in byte order `endian`.
    pub fn ordered(
        name: &'a str,
        dtype: DType,
        shape: &'a [u64],
        extent: Extent,
        endian: Endian,
    ) -> TensorDecl<'a> {
        let view = match endian {
            Endian::Little => None,
            Endian::Big => Some(crate::View { strides: Vec::new(), start: 0, endian }),
        };
        TensorDecl { name, dtype, shape, payload: Payload::Extent { extent, view } }
    }
}

/// A part, as a reader pushes it.
#[derive(Clone, Debug)]
pub struct PartDecl<'a> {
    /// The file, as returned by [`Source::sibling`].
    pub file: FileId,
    /// Offset and length in the file; `None` for the whole file.
    pub range: Option<(u64, u64)>,
    /// The id of the format that reads it.
    pub format: &'a str,
    /// Options for that format's reader. The host adds [`Options::PART`] if it is the model's own format; a
    /// part of another format is a model of its own, which may have parts.
    pub options: Options,
}

/// A fact about the model, beyond tensors, foreign metadata and assets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fact<'a> {
    /// The dialect of tensor names and keys.
    Dialect(&'a str),
    /// The architecture's id and its canonical configuration as JSON.
    Architecture(&'a str, Bytes),
    /// The tokenizer, as the JSON of [`crate::tokenizer`].
    Tokenizer(Bytes),
    /// The makers' description of the model, as the JSON object of [`crate::model_card`].
    ModelCard(Bytes),
    /// The name of the quantization recipe that produced the tensors.
    Recipe(&'a str),
    /// The provenance record, as JSON.
    Provenance(Bytes),
    /// The tensors that are the codes of weights, as [`crate::Derived::to_json`] writes them.
    Derived(Bytes),
    /// A checksum stored in the model's files; may be pushed any number of times.
    Checksum(Checksum),
    /// The version of the file in words (`version 2`), if it is older than the one that the format's writer writes.
    Older(&'a str),
    /// An assumption or omission, for the summary.
    Note(&'a str),
}

/// Receives what a reader found. The host owns the memory and applies the limits on every push, so a reader
/// stops at the first error.
pub trait ModelSink {
    /// Adds a tensor. Tensors are numbered from 0 in push order.
    ///
    /// # Errors
    /// Malformed for a duplicate name, a payload that disagrees with dtype and shape, or an extent outside
    /// its file; LimitExceeded.
    fn tensor(&mut self, tensor: TensorDecl<'_>) -> Result<()>;

    /// Begins the record of one source file; `name` is empty for a single-file model. Subsequent calls of
    /// [`ModelSink::foreign`] and [`ModelSink::verbatim`] belong to it.
    ///
    /// # Errors
    /// LimitExceeded.
    fn foreign_file(&mut self, format: &str, name: &str, n_tensors: u64) -> Result<()>;

    /// Adds a typed key to the file record begun last.
    ///
    /// # Errors
    /// Malformed for a duplicate key or a value whose bytes do not match its type; LimitExceeded.
    fn foreign(&mut self, key: &str, value: Value) -> Result<()>;

    /// Sets the verbatim form of the file record begun last.
    ///
    /// # Errors
    /// LimitExceeded.
    fn verbatim(&mut self, bytes: Bytes) -> Result<()>;

    /// Adds a companion file.
    ///
    /// # Errors
    /// Malformed for a duplicate name, or one that leaves the model's folder; LimitExceeded.
    fn asset(&mut self, name: &str, bytes: Bytes) -> Result<()>;

    /// Adds a model inside this one. Parts are numbered from 0 in push order.
    ///
    /// # Errors
    /// LimitExceeded.
    fn part(&mut self, part: PartDecl<'_>) -> Result<()>;

    /// Declares that tensor `name` must be in part number `part`. Once one name is mapped, every tensor of
    /// every part must be.
    ///
    /// # Errors
    /// Malformed for an unknown part or a name that is already mapped.
    fn mapped(&mut self, part: u32, name: &str) -> Result<()>;

    /// Adds another fact about the model.
    ///
    /// # Errors
    /// LimitExceeded.
    fn fact(&mut self, fact: Fact<'_>) -> Result<()>;
}
