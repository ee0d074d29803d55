//! The model: what every reader yields, and, as a [`crate::CheckedModel`], what every writer is handed. Data,
//! and the rules it obeys.

use crate::{
    Bytes, DType, Endian, Error, Extent, Factored, FileId, Foreign, Options, PackedTensor, Quantizer, Result,
    Schemes, Sum, checked_payload_len,
};
use std::fmt;
use std::sync::Arc;

/// A model: an index of tensors plus everything else the files say. It holds no payload. Outside this crate,
/// only [`crate::ModelBuilder`] can build one: names are unique, shapes and payload lengths agree with
/// dtypes, nothing overflows. Later changes are the caller's responsibility: writers only accept a model that
/// has been checked again.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Model {
    /// The id of the format it was read from.
    pub format: String,
    /// The dialect of tensor names and keys, or `none`.
    pub dialect: String,
    /// The tensors, in the source's order.
    pub tensors: Vec<Tensor>,
    /// The architecture, if one is known.
    pub architecture: Option<Architecture>,
    /// The tokenizer as JSON (see [`crate::tokenizer`]), if the source has one that was understood.
    pub tokenizer: Option<Bytes>,
    /// Its makers' description of it, as the JSON object of [`crate::model_card`], for formats that can repeat it in
    /// their keys.
    pub model_card: Option<Bytes>,
    /// Companion files: README, licence, chat template, ...
    pub assets: Vec<Asset>,
    /// Metadata that only one format can express; at most one entry per format.
    pub foreign: Vec<Foreign>,
    /// Models inside this one, which the host opens and merges.
    pub parts: Vec<Part>,
    /// The name of the quantization recipe that produced the tensors, if the source gives one.
    pub recipe: Option<String>,
    /// The provenance record as JSON: where the payload came from. Formats that carry everything keep it.
    pub provenance: Option<Bytes>,
    /// The tensors that are the codes of weights, as the JSON of [`crate::Derived`], until they are replaced by these.
    pub derived: Option<Bytes>,
    /// The version of its file in words, if the format's writer writes a newer one: `apr upgrade` does.
    pub older: Option<String>,
    /// Checksums stored in its files, for `validate --checksum` and verify. Opening computes none of them.
    pub checksums: Vec<Checksum>,
    /// Notes on what the reader assumed or left out, for the summary.
    pub notes: Vec<String>,
}

/// A tensor's declaration: name, dtype, shape, and where its payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in the model; any UTF-8, control characters included.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Dimensions, outermost first (row-major); empty for a scalar.
    pub shape: Vec<u64>,
    /// The payload's place, and the way to read it.
    pub payload: Payload,
}

impl Tensor {
    /// The payload's length in bytes once decoded: row-major, little-endian.
    ///
    /// # Errors
    /// As [`checked_payload_len`]; cannot fail for a tensor of a [`Model`].
    pub fn payload_len(&self) -> Result<u64> {
        checked_payload_len(self.dtype, &self.shape)
    }

    /// The bytes that are stored for it: of a packed weight, those of all its parts.
    ///
    /// # Errors
    /// As [`Tensor::payload_len`].
    pub fn stored_len(&self) -> Result<u64> {
        let Payload::Packed(weight) = &self.payload else { return self.payload_len() };
        weight.parts.iter().try_fold(0u64, |sum, part| Ok(sum.saturating_add(part.payload_len()?)))
    }

    /// The method that its stored bytes are compressed with, if it lies in compressed blocks.
    pub fn codec(&self) -> Option<&Codec> {
        match &self.payload {
            Payload::Blocks { codec } => Some(codec),
            _ => None,
        }
    }

    /// Its packing, in words; `None` if it is not packed.
    pub fn packed_as(&self) -> Option<&str> {
        match &self.payload {
            Payload::Packed(weight) => Some(&weight.tensor.about),
            _ => None,
        }
    }
}

/// The place of a tensor's payload, and the way to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// Raw bytes in a file, with a [`View`] unless they are plain row-major little-endian.
    Extent {
        /// The extent of the bytes.
        extent: Extent,
        /// The gathering of the elements; `None` for a plain copy.
        view: Option<View>,
    },
    /// Compressed blocks, which the host lists with [`crate::OpenModel::blocks`] when it first reads the
    /// tensor.
    Blocks {
        /// The compression method and its options.
        codec: Codec,
    },
    /// A stream that can only be read in order, with [`crate::OpenModel::stream`].
    Sequential,
    /// Codes, scales and tables in other tensors, from which a scheme computes the values. Made by the host: a
    /// reader gives the tensors as they are stored.
    Packed(Arc<PackedWeight>),
}

/// A compression method, known to the host by number only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codec {
    /// The method's number in its format.
    pub number: u32,
    /// The method's parameters (a level, a dictionary's name), named by the format, and what listings show:
    /// [`Codec::METHOD`], [`Codec::STORED`].
    pub options: Options,
}

impl Codec {
    /// The option with the method's name for people (`zstd`): listings show it.
    pub const METHOD: &str = "method";
    /// The option with the number of bytes that a tensor takes up in its file, in decimal digits: listings show it.
    pub const STORED: &str = "stored";

    /// The method's name for people, if it has one.
    pub fn method(&self) -> Option<&str> {
        self.options.get(Codec::METHOD)
    }

    /// The bytes that the tensor takes up in its file, if the reader says so.
    pub fn stored_len(&self) -> Option<u64> {
        self.options.get(Codec::STORED)?.parse().ok()
    }
}

impl From<u32> for Codec {
    /// A method without parameters.
    fn from(number: u32) -> Codec {
        Codec { number, options: Options::new() }
    }
}

/// The way the host gathers a tensor from an extent that is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Distance between neighbours along each dimension, in elements (blocks for block types), outermost
    /// first; empty for plain row-major order.
    pub strides: Vec<u64>,
    /// Distance of the first element from the start of the extent, in elements.
    pub start: u64,
    /// The byte order of multi-byte fields.
    pub endian: Endian,
}

/// An architecture and its configuration under canonical keys.
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
    /// Path relative to the model's folder, with `/`.
    pub name: String,
    /// Its contents.
    pub bytes: Bytes,
}

/// A checksum that a file stores for itself or for another file of the model. The reader only says where it
/// is; the host computes and compares it, so no format needs an extra pass over its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The bytes it covers, as stored in the file.
    pub covers: Extent,
    /// The stored value, in memory or in a file; [`Sum::width`] bytes long.
    pub stored: Bytes,
    /// The digest algorithm and how its value is written.
    pub sum: Sum,
    /// The bytes that are hashed: the stored or the decoded ones.
    pub coding: Coding,
}

/// The bytes that a checksum is computed from: the bytes it covers, or what they decode to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Coding {
    /// The bytes as stored.
    #[default]
    Raw,
    /// The decoded bytes, which the host requests with [`crate::OpenModel::covered`].
    Encoded,
    /// The decoded bytes, all of which the stream of tensor number `0` reads: at its end, the stream itself
    /// has compared the checksum and failed with `E004` on a mismatch.
    Streamed(u64),
}

impl Checksum {
    /// A checksum of bytes as stored.
    pub fn raw(covers: Extent, stored: Bytes, sum: Sum) -> Checksum {
        Checksum { covers, stored, sum, coding: Coding::Raw }
    }
}

/// A file, or a byte range of one, that is a model of its own inside a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file that holds it.
    pub file: FileId,
    /// Offset and length within the file; `None` for the whole file.
    pub range: Option<(u64, u64)>,
    /// The id of the format that reads it.
    pub format: String,
    /// Options for that format's reader.
    pub options: Options,
    /// The names of the tensors it must contain; `None` if the model does not say.
    pub expected: Option<Vec<String>>,
}

impl Model {
    /// The foreign metadata of `format`, if there is any.
    pub fn foreign_of(&self, format: &str) -> Option<&Foreign> {
        self.foreign.iter().find(|f| f.format == format)
    }

    /// The foreign metadata of `format`, created empty if missing.
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

    /// Every byte string of the model that a writer may have to place: values, verbatim forms, facts, assets.
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

    /// Every byte string, mutably: the host relocates a part's extents into the whole model.
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

/// A packed weight of an opened model: what a scheme says about it, the tensors it is stored in, and who knows the scheme.
/// Made by the host.
#[derive(Clone)]
pub struct PackedWeight {
    /// The scheme's description.
    pub tensor: PackedTensor,
    /// The parts as they are stored, in the scheme's order.
    pub parts: Vec<Tensor>,
    /// Blocks that hold it but for a factor.
    pub factored: Option<Factored>,
    /// True if its activations must not be narrowed to the weight's own type.
    pub wide_activations: bool,
    /// The quantizer that knows the scheme.
    pub by: Arc<dyn Quantizer>,
}

impl PackedWeight {
    /// The bytes that are stored for so many rows, on average.
    pub fn stored_len(&self, rows: u64) -> u64 {
        let parts = self.parts.iter().filter_map(|part| part.payload_len().ok());
        let all = parts.fold(0u64, u64::saturating_add);
        (all / self.tensor.rows.rows.max(1)).saturating_mul(rows)
    }

    /// The schemes of the quantizer that knows this one.
    ///
    /// # Errors
    /// Plugin if it knows none.
    pub fn schemes(&self) -> Result<&dyn Schemes> {
        self.by.schemes().ok_or_else(|| Error::plugin("no longer supports the packing scheme of this weight"))
    }
}

impl PartialEq for PackedWeight {
    fn eq(&self, other: &PackedWeight) -> bool {
        (&self.tensor, &self.parts) == (&other.tensor, &other.parts)
    }
}

impl Eq for PackedWeight {}

impl fmt::Debug for PackedWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedWeight")
            .field("tensor", &self.tensor)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}
