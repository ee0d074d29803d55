//! The model that every reader yields, and of which every writer is handed a [`crate::CheckedModel`]: data and the rules
//! about it.

use crate::{Bytes, DType, Endian, Extent, FileId, Foreign, Options, Result, Sum, checked_payload_len};

/// A model: an index of tensors, and everything else a file says. It holds no payload. Outside this crate it can only
/// be built by [`crate::ModelBuilder`]: names are unique, shapes and payload lengths agree with dtypes, nothing overflows.
/// Who changes one afterwards answers for it: a writer takes none that was not checked again.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Model {
    /// The id of the format it was read from.
    pub format: String,
    /// The naming world of tensors and keys (design section 6), or `none`.
    pub dialect: String,
    /// The tensors, in the source's order.
    pub tensors: Vec<Tensor>,
    /// The architecture, if one is known.
    pub architecture: Option<Architecture>,
    /// The tokenizer, as the JSON of the tokenizer model, if the source has one that was understood.
    pub tokenizer: Option<Bytes>,
    /// What its makers say of it, as the JSON object of [`crate::model_card`]; for formats that can repeat it in their keys.
    pub model_card: Option<Bytes>,
    /// Companion files: README, licence, chat template, ...
    pub assets: Vec<Asset>,
    /// What only some format can say; at most one entry a format.
    pub foreign: Vec<Foreign>,
    /// Models inside this one, which the host opens and merges.
    pub parts: Vec<Part>,
    /// The quantization recipe that made the tensors, if one was named.
    pub recipe: Option<String>,
    /// Where the payload came from, as the JSON of design section 7's `provenance`; a carrier of everything keeps it.
    pub provenance: Option<Bytes>,
    /// Checksums that its files hold, for `validate --checksum` and verify; opening computes none of them.
    pub checksums: Vec<Checksum>,
    /// What the reader assumed or left out, for the summary.
    pub notes: Vec<String>,
}

/// One tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, unique in the model; any UTF-8, control characters included.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions, outermost first, row-major; empty for a scalar.
    pub shape: Vec<u64>,
    /// Where its payload is.
    pub payload: Payload,
}

impl Tensor {
    /// Bytes of the payload as it is stored in the model: decoded, row-major, little-endian.
    ///
    /// # Errors
    /// As [`checked_payload_len`]; cannot fail for a tensor of a [`Model`].
    pub fn payload_len(&self) -> Result<u64> {
        checked_payload_len(self.dtype, &self.shape)
    }
}

/// Where a tensor's payload is and what must be done to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// Raw bytes in a file; with a [`View`] if they are not plain row-major little-endian.
    Extent {
        /// The bytes.
        extent: Extent,
        /// How they are to be gathered, or `None` for a plain copy.
        view: Option<View>,
    },
    /// Compressed blocks, which the host asks for with [`crate::OpenModel::blocks`] when the tensor is first read.
    Blocks {
        /// The compression method, and what it is told.
        codec: Codec,
    },
    /// A stream that can only be read in order, by [`crate::OpenModel::stream`].
    Sequential,
}

/// A way to compress, which the host knows by nothing but its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codec {
    /// The format's own number of the method.
    pub number: u32,
    /// What the method is told beyond its number (a level, a dictionary's name), in the format's own words.
    pub options: Options,
}

impl From<u32> for Codec {
    /// A method that needs to be told nothing.
    fn from(number: u32) -> Codec {
        Codec { number, options: Options::new() }
    }
}

/// How the host gathers a tensor from an extent that is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Distance between neighbours along each dimension, in elements (blocks for block types), outermost first;
    /// empty for plain row-major order.
    pub strides: Vec<u64>,
    /// The first element's distance from the extent's start, in elements.
    pub start: u64,
    /// The byte order of multi-byte fields.
    pub endian: Endian,
}

/// An architecture and its configuration, under canonical keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Architecture {
    /// The architecture's id (`llama`, `whisper`, ...).
    pub id: String,
    /// The canonical configuration as a JSON object.
    pub config: Bytes,
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(Vec::new())
    }
}

/// A companion file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its path relative to the model's folder, with `/`.
    pub name: String,
    /// Its contents.
    pub bytes: Bytes,
}

/// A CRC-32 (IEEE) that a file holds of itself or of another file of the model. A reader only says where it is: the
/// host computes and compares, so a format's checksum is never an extra pass over its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The bytes it covers, as they lie in the file.
    pub covers: Extent,
    /// The stored value: held, or where it lies; as long as [`Sum::width`] says.
    pub stored: Bytes,
    /// Which digest it is, and how it is written.
    pub sum: Sum,
    /// Of which bytes it is.
    pub coding: Coding,
}

/// Of which bytes a checksum is: of those it covers, or of what they decode to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Coding {
    /// Of the bytes as they lie.
    #[default]
    Raw,
    /// Of what they decode to, which the host asks for with [`crate::OpenModel::covered`].
    Encoded,
    /// The same, and the stream of the tensor of this number reads all of them: at its end it has compared them itself, and
    /// failed with `E004` if they are others.
    Streamed(u64),
}

impl Checksum {
    /// The digest of bytes as they lie.
    pub fn raw(covers: Extent, stored: Bytes, sum: Sum) -> Checksum {
        Checksum { covers, stored, sum, coding: Coding::Raw }
    }
}

/// A file, or a range of one, that is a model of its own inside a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file.
    pub file: FileId,
    /// The range in it, or `None` for the whole file.
    pub range: Option<(u64, u64)>,
    /// The format's id.
    pub format: String,
    /// Options for that format's reader.
    pub options: Options,
    /// The tensors that must be in it; `None` if the model does not say.
    pub expected: Option<Vec<String>>,
}

impl Model {
    /// The foreign metadata of `format`.
    pub fn foreign_of(&self, format: &str) -> Option<&Foreign> {
        self.foreign.iter().find(|f| f.format == format)
    }

    /// The foreign metadata of `format`, made if it is not there.
    pub fn foreign_mut(&mut self, format: &str) -> &mut Foreign {
        let at = match self.foreign.iter().position(|f| f.format == format) {
            Some(at) => at,
            None => {
                self.foreign.push(Foreign::new(format));
                self.foreign.len() - 1
            }
        };
        &mut self.foreign[at]
    }

    /// Every byte string of the model that a writer may have to place: values, verbatim forms, assets.
    pub fn byte_strings(&self) -> impl Iterator<Item = &Bytes> {
        let files = self.foreign.iter().flat_map(|f| &f.files);
        let foreign = files.flat_map(|f| f.typed.iter().map(|(_, v)| &v.bytes).chain(&f.verbatim));
        let facts = self
            .tokenizer
            .iter()
            .chain(&self.model_card)
            .chain(&self.provenance)
            .chain(self.architecture.iter().map(|a| &a.config));
        foreign.chain(self.assets.iter().map(|a| &a.bytes)).chain(facts)
    }

    /// The same, to be changed: the host moves a part's extents to their place in the whole.
    pub fn byte_strings_mut(&mut self) -> impl Iterator<Item = &mut Bytes> {
        let files = self.foreign.iter_mut().flat_map(|f| &mut f.files);
        let foreign =
            files.flat_map(|f| f.typed.iter_mut().map(|(_, v)| &mut v.bytes).chain(&mut f.verbatim));
        let config = self.architecture.iter_mut().map(|a| &mut a.config);
        let facts =
            self.tokenizer.iter_mut().chain(&mut self.model_card).chain(&mut self.provenance).chain(config);
        foreign.chain(self.assets.iter_mut().map(|a| &mut a.bytes)).chain(facts)
    }
}
