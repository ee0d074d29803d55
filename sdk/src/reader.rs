//! The reading side of a format: a header becomes an index.

use crate::{
    Bytes, Checksum, Codec, DType, Endian, Error, Extent, FileId, Limits, Look, Options, Payload, Report,
    Result, Score, Source, Value,
};

/// Turns a file's header into a model. One object serves all threads and every file of its format.
pub trait Reader: Send + Sync {
    /// How sure the format is that the file is its own. "Not mine" is a score, not an error.
    fn probe(&self, look: &Look<'_>) -> Score;

    /// Reads the header, and nothing of the payload.
    ///
    /// # Errors
    /// Malformed, Unsupported or LimitExceeded with file and offset; whatever the source raised.
    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>>;

    /// Makes the report `id`, which the manifest declares (`F.report.ID`). The file need not be one that opens.
    ///
    /// # Errors
    /// Unsupported for a report that the format does not have; whatever the source raised.
    fn report(&self, id: &str, _source: &dyn Source, _limits: &Limits, _options: &Options) -> Result<Report> {
        Err(Error::unsupported(format!("this format has no report `{}`", crate::escape(id, 80))))
    }
}

/// An opened model. The host keeps it until it is done and lends the source to each call.
pub trait OpenModel: Send + Sync {
    /// Pushes everything the header said. Called once.
    ///
    /// # Errors
    /// Whatever the sink raised; Malformed for what is found only now.
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()>;

    /// Lists the compressed blocks of tensor number `tensor` (in the order they were pushed).
    ///
    /// # Errors
    /// Unsupported unless the model has [`Payload::Blocks`].
    fn blocks(&self, _source: &dyn Source, _tensor: u64, _sink: &mut dyn BlockSink) -> Result<()> {
        Err(Error::unsupported("this format has no compressed blocks"))
    }

    /// Decodes one compressed block into `out`, which has exactly the block's raw length. Called from several threads.
    ///
    /// # Errors
    /// Malformed if the block does not decode to exactly that length.
    fn decode(&self, _codec: &Codec, _at: BlockAt, _stored: &[u8], _out: &mut [u8]) -> Result<()> {
        Err(Error::unsupported("this format has no compressed blocks"))
    }

    /// The model's tokenizer as the JSON of [`crate::tokenizer`], made only when it is asked for: the host needs it to write
    /// another format or to compare, not to open. A format that stores that JSON gives it as [`Fact::Tokenizer`] instead.
    /// `None` for a model without one.
    ///
    /// # Errors
    /// Unsupported, with a reason, for a tokenizer of a kind that the JSON cannot say; Malformed.
    fn tokenizer(&self, _source: &dyn Source) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// A fresh stream of tensor number `tensor`'s payload.
    ///
    /// # Errors
    /// Unsupported unless the model has [`Payload::Sequential`].
    fn stream(&self, _tensor: u64) -> Result<Box<dyn Stream>> {
        Err(Error::unsupported("this format has no sequential payload"))
    }

    /// The decoded bytes that checksum number `checksum` covers (in the order they were pushed), from the first to the last.
    /// The host compares: this stream does not.
    ///
    /// # Errors
    /// Unsupported unless the checksum is of decoded bytes.
    fn covered(&self, _checksum: u64) -> Result<Box<dyn Stream>> {
        Err(Error::unsupported("this format has no checksums of decoded bytes"))
    }
}

/// A payload that is read in order. Its state is its own; the source is lent to each call.
pub trait Stream: Send {
    /// Fills the beginning of `out`; gives how many bytes, 0 at the end.
    ///
    /// # Errors
    /// Malformed; whatever the source raised.
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize>;
}

/// Which compressed block is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAt {
    /// The tensor's number, in the order they were pushed.
    pub tensor: u64,
    /// The block's number in the tensor.
    pub block: u64,
}

/// Where the host collects a tensor's compressed blocks, in order.
pub trait BlockSink {
    /// One block: where it lies, and how many bytes it decodes to.
    ///
    /// # Errors
    /// Malformed if the raw lengths pass the tensor's payload length, or the extent its file.
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()>;
}

/// A tensor as a reader pushes it.
#[derive(Clone, Debug)]
pub struct TensorDecl<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions, outermost first.
    pub shape: &'a [u64],
    /// Where its payload is.
    pub payload: Payload,
}

impl<'a> TensorDecl<'a> {
    /// A tensor whose payload is a plain extent.
    pub fn plain(name: &'a str, dtype: DType, shape: &'a [u64], extent: Extent) -> TensorDecl<'a> {
        TensorDecl { name, dtype, shape, payload: Payload::Extent { extent, view: None } }
    }

    /// A tensor whose payload is an extent in the given byte order.
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

/// A part as a reader pushes it.
#[derive(Clone, Debug)]
pub struct PartDecl<'a> {
    /// The file, as [`Source::sibling`] gave it.
    pub file: FileId,
    /// Offset and length in it, or `None` for the whole file.
    pub range: Option<(u64, u64)>,
    /// The id of the format that reads it.
    pub format: &'a str,
    /// Options for that format's reader; the host adds [`Options::PART`] if it is the model's own format. A part of
    /// another format is a model of its own, which may have parts.
    pub options: Options,
}

/// One thing a model says of itself beyond tensors, foreign metadata and assets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fact<'a> {
    /// The naming world of tensors and keys.
    Dialect(&'a str),
    /// The architecture's id and its canonical configuration as JSON.
    Architecture(&'a str, Bytes),
    /// The tokenizer, as JSON.
    Tokenizer(Bytes),
    /// What its makers say of it, as the JSON object of [`crate::model_card`].
    ModelCard(Bytes),
    /// The quantization recipe's name.
    Recipe(&'a str),
    /// The provenance record, as JSON.
    Provenance(Bytes),
    /// A checksum that is stored somewhere in the model's files. Any number of them.
    Checksum(Checksum),
    /// What was assumed or left out, for the summary.
    Note(&'a str),
}

/// Where a reader pushes what it found. The host owns the memory and applies the limits at each push, so a reader
/// stops at the first error.
pub trait ModelSink {
    /// A tensor. Its number is how many were pushed before it.
    ///
    /// # Errors
    /// Malformed for a second tensor of the name, a payload that disagrees with dtype and shape, or an extent outside
    /// its file; LimitExceeded.
    fn tensor(&mut self, tensor: TensorDecl<'_>) -> Result<()>;

    /// Begins the record of one of the source's files; `name` is empty for a model of one file. The following
    /// [`ModelSink::foreign`] and [`ModelSink::verbatim`] belong to it.
    ///
    /// # Errors
    /// LimitExceeded.
    fn foreign_file(&mut self, format: &str, name: &str, n_tensors: u64) -> Result<()>;

    /// A typed key of the file record that was begun last.
    ///
    /// # Errors
    /// Malformed for a second value of the key or a value whose bytes are not its type; LimitExceeded.
    fn foreign(&mut self, key: &str, value: Value) -> Result<()>;

    /// The verbatim form of the file record that was begun last.
    ///
    /// # Errors
    /// LimitExceeded.
    fn verbatim(&mut self, bytes: Bytes) -> Result<()>;

    /// A companion file.
    ///
    /// # Errors
    /// Malformed for a second asset of the name, or a name that leaves the model's folder; LimitExceeded.
    fn asset(&mut self, name: &str, bytes: Bytes) -> Result<()>;

    /// A model inside this one. Its number is how many were pushed before it.
    ///
    /// # Errors
    /// LimitExceeded.
    fn part(&mut self, part: PartDecl<'_>) -> Result<()>;

    /// Says that tensor `name` must be in part number `part`. Once one name is mapped, every tensor of every part must be.
    ///
    /// # Errors
    /// Malformed for an unknown part or a name mapped before.
    fn mapped(&mut self, part: u32, name: &str) -> Result<()>;

    /// Something else the model says of itself.
    ///
    /// # Errors
    /// LimitExceeded.
    fn fact(&mut self, fact: Fact<'_>) -> Result<()>;
}
