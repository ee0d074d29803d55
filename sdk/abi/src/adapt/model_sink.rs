//! The host's sinks for a reader (models and blocks), and the small things that are pushed.

use super::digest::{sum_from_wire, sum_to_wire};
use super::error::result;
use super::layout::codec_from_wire;
use crate::guard::host_wire;
use crate::wire::{
    BlockSinkMut, ByteOrder, CodingNumber, DTypeNumber, DigestNumber, FactNumber, FormNumber, ModelSinkMut,
    PayloadNumber, R, WireBlockSink, WireBytes, WireExtent, WireModelSink, WirePart, WireTensor, pairs,
};
use abi_stable::std_types::{RSlice, RStr};
use apr_sdk::{
    BlockSink, Bytes, Checksum, Coding, DType, Endian, Error, Extent, Fact, ModelSink, PartDecl, Payload,
    Result, TensorDecl, Value, ValueType, View,
};

/// Converts bytes to the wire, borrowed.
pub(crate) fn bytes_to_wire(bytes: &Bytes) -> WireBytes<'_> {
    let (held, extent) = match bytes {
        Bytes::Inline(held) => (Some(&**held), Extent::default()),
        Bytes::Extent(extent) => (None, *extent),
    };
    WireBytes {
        held: held.unwrap_or_default().into(),
        offset: extent.offset,
        len: extent.len,
        file: extent.file,
        is_held: u32::from(held.is_some()),
        reserved: [0; 2],
    }
}

/// Converts bytes from the wire, copying those in memory.
pub(crate) fn bytes_from_wire(wire: &WireBytes<'_>) -> Bytes {
    match wire.is_held {
        0 => Bytes::Extent(Extent::new(wire.file, wire.offset, wire.len)),
        _ => Bytes::from(wire.held.as_slice()),
    }
}

/// The options of a payload's compression method, as pairs.
pub(crate) fn codec_options(payload: &Payload) -> Vec<u8> {
    match payload {
        Payload::Blocks { codec } => pairs::from_options(&codec.options),
        _ => Vec::new(),
    }
}

/// Converts a tensor to the wire, borrowed; `options` are the payload's [`codec_options`].
///
/// # Errors
/// Unsupported for a kind of payload that this version of the wire lacks.
pub(crate) fn tensor_to_wire<'a>(
    name: &'a str,
    dtype: DType,
    shape: &'a [u64],
    payload: &'a Payload,
    options: &'a [u8],
) -> Result<WireTensor<'a>> {
    let mut wire = WireTensor {
        name: name.into(),
        shape: shape.into(),
        strides: RSlice::EMPTY,
        options: options.into(),
        start: 0,
        offset: 0,
        len: 0,
        file: 0,
        dtype: DTypeNumber(dtype.0),
        payload: PayloadNumber::EXTENT,
        order: ByteOrder::PLAIN,
        codec: 0,
        padding: 0,
        detail: RSlice::EMPTY,
    };
    match payload {
        Payload::Extent { extent, view } => {
            (wire.file, wire.offset, wire.len) = (extent.file, extent.offset, extent.len);
            if let Some(view) = view {
                wire.strides = view.strides.as_slice().into();
                wire.start = view.start;
                wire.order = match view.endian {
                    Endian::Little => ByteOrder::LITTLE,
                    Endian::Big => ByteOrder::BIG,
                };
            }
        }
        Payload::Blocks { codec } => (wire.payload, wire.codec) = (PayloadNumber::BLOCKS, codec.number),
        // Where payload lies is no concern of a writer.
        Payload::Sequential | Payload::Packed(_) => wire.payload = PayloadNumber::SEQUENTIAL,
        _ => return Err(Error::unsupported("this kind of payload cannot be passed to a plugin").tensor(name)),
    }
    Ok(wire)
}

/// Converts a tensor from the wire.
///
/// # Errors
/// Plugin for an unknown payload kind or byte order, or options that are not pairs.
pub(crate) fn tensor_from_wire<'a>(wire: &WireTensor<'a>) -> Result<TensorDecl<'a>> {
    let name = wire.name.as_str();
    let payload = match wire.payload {
        PayloadNumber::EXTENT => {
            let endian = match wire.order {
                ByteOrder::PLAIN => None,
                ByteOrder::LITTLE => Some(Endian::Little),
                ByteOrder::BIG => Some(Endian::Big),
                _ => return Err(Error::plugin("returned a tensor with an unknown byte order").tensor(name)),
            };
            let view =
                endian.map(|endian| View { strides: wire.strides.to_vec(), start: wire.start, endian });
            Payload::Extent { extent: Extent::new(wire.file, wire.offset, wire.len), view }
        }
        PayloadNumber::BLOCKS => Payload::Blocks { codec: codec_from_wire(wire.codec, &wire.options)? },
        PayloadNumber::SEQUENTIAL => Payload::Sequential,
        _ => return Err(Error::plugin("returned a tensor with an unknown kind of payload").tensor(name)),
    };
    Ok(TensorDecl { name, dtype: DType(wire.dtype.0), shape: wire.shape.as_slice(), payload })
}

/// Pushes a checksum through the wire.
///
/// # Errors
/// Any error from the sink; Unsupported for a form or coding that this version of the wire lacks.
pub(crate) fn push_checksum(sink: &mut ModelSinkMut<'_>, checksum: &Checksum) -> Result<()> {
    let Extent { file, offset, len } = checksum.covers;
    let covers = WireExtent { offset, len, file, padding: 0 };
    let (coding, tensor) = match checksum.coding {
        Coding::Raw => (CodingNumber::RAW, 0),
        Coding::Encoded => (CodingNumber::ENCODED, 0),
        Coding::Streamed(tensor) => (CodingNumber::STREAMED, tensor),
        _ => {
            return Err(Error::unsupported(
                "this kind of checksum cannot be passed through the plugin interface",
            ));
        }
    };
    let stored = bytes_to_wire(&checksum.stored);
    let (digest, form) = sum_to_wire(checksum.sum)?;
    result(sink.checksum(covers, stored, digest, form, coding, tensor))
}

/// Converts a checksum from the wire.
///
/// # Errors
/// Plugin for an unknown form or coding.
pub(crate) fn checksum_from_wire(
    covers: &WireExtent,
    stored: &WireBytes<'_>,
    digest: DigestNumber,
    form: FormNumber,
    coding: CodingNumber,
    tensor: u64,
) -> Result<Checksum> {
    let coding = match coding {
        CodingNumber::RAW => Coding::Raw,
        CodingNumber::ENCODED => Coding::Encoded,
        CodingNumber::STREAMED => Coding::Streamed(tensor),
        other => return Err(Error::plugin(format!("returned a checksum of unknown kind {}", other.0))),
    };
    let covers = Extent::new(covers.file, covers.offset, covers.len);
    Ok(Checksum { covers, stored: bytes_from_wire(stored), sum: sum_from_wire(digest, form)?, coding })
}

/// Puts the host's model sink on the wire.
pub struct ToWireModelSink<'a>(pub &'a mut dyn ModelSink);

impl WireModelSink for ToWireModelSink<'_> {
    fn tensor(&mut self, tensor: WireTensor<'_>) -> R<()> {
        host_wire("taking a tensor", || self.0.tensor(tensor_from_wire(&tensor)?))
    }

    fn foreign_file(&mut self, format: RStr<'_>, name: RStr<'_>, n_tensors: u64) -> R<()> {
        host_wire("taking metadata", || self.0.foreign_file(format.as_str(), name.as_str(), n_tensors))
    }

    fn foreign(&mut self, key: RStr<'_>, kind: u32, bytes: WireBytes<'_>) -> R<()> {
        host_wire("taking metadata", || {
            self.0.foreign(key.as_str(), Value { kind: ValueType(kind), bytes: bytes_from_wire(&bytes) })
        })
    }

    fn verbatim(&mut self, bytes: WireBytes<'_>) -> R<()> {
        host_wire("taking metadata", || self.0.verbatim(bytes_from_wire(&bytes)))
    }

    fn asset(&mut self, name: RStr<'_>, bytes: WireBytes<'_>) -> R<()> {
        host_wire("taking an asset", || self.0.asset(name.as_str(), bytes_from_wire(&bytes)))
    }

    fn part(&mut self, part: WirePart<'_>) -> R<()> {
        host_wire("taking a part", || {
            self.0.part(PartDecl {
                file: part.file,
                range: (part.has_range != 0).then_some((part.offset, part.len)),
                format: part.format.as_str(),
                options: pairs::to_options(part.options.as_slice())?,
            })
        })
    }

    fn mapped(&mut self, part: u32, name: RStr<'_>) -> R<()> {
        host_wire("taking a part", || self.0.mapped(part, name.as_str()))
    }

    fn checksum(
        &mut self,
        covers: WireExtent,
        stored: WireBytes<'_>,
        digest: DigestNumber,
        form: FormNumber,
        coding: CodingNumber,
        tensor: u64,
    ) -> R<()> {
        host_wire("taking a checksum", || {
            let checksum = checksum_from_wire(&covers, &stored, digest, form, coding, tensor)?;
            self.0.fact(Fact::Checksum(checksum))
        })
    }

    fn fact(&mut self, fact: FactNumber, text: RStr<'_>, bytes: WireBytes<'_>) -> R<()> {
        host_wire("taking a fact", || {
            let text = text.as_str();
            let bytes = bytes_from_wire(&bytes);
            self.0.fact(match fact {
                FactNumber::DIALECT => Fact::Dialect(text),
                FactNumber::ARCHITECTURE => Fact::Architecture(text, bytes),
                FactNumber::TOKENIZER => Fact::Tokenizer(bytes),
                FactNumber::MODEL_CARD => Fact::ModelCard(bytes),
                FactNumber::RECIPE => Fact::Recipe(text),
                FactNumber::PROVENANCE => Fact::Provenance(bytes),
                FactNumber::DERIVED => Fact::Derived(bytes),
                FactNumber::NOTE => Fact::Note(text),
                FactNumber::OLDER => Fact::Older(text),
                other => return Err(Error::plugin(format!("stated an unknown fact, number {}", other.0))),
            })
        })
    }
}

/// Presents the wire's model sink to a plugin.
pub struct FromWireModelSink<'a, 'b>(pub &'b mut ModelSinkMut<'a>);

impl ModelSink for FromWireModelSink<'_, '_> {
    fn tensor(&mut self, tensor: TensorDecl<'_>) -> Result<()> {
        let TensorDecl { name, dtype, shape, payload } = &tensor;
        let options = codec_options(payload);
        result(self.0.tensor(tensor_to_wire(name, *dtype, shape, payload, &options)?))
    }

    fn foreign_file(&mut self, format: &str, name: &str, n_tensors: u64) -> Result<()> {
        result(self.0.foreign_file(format.into(), name.into(), n_tensors))
    }

    fn foreign(&mut self, key: &str, value: Value) -> Result<()> {
        result(self.0.foreign(key.into(), value.kind.0, bytes_to_wire(&value.bytes)))
    }

    fn verbatim(&mut self, bytes: Bytes) -> Result<()> {
        result(self.0.verbatim(bytes_to_wire(&bytes)))
    }

    fn asset(&mut self, name: &str, bytes: Bytes) -> Result<()> {
        result(self.0.asset(name.into(), bytes_to_wire(&bytes)))
    }

    fn part(&mut self, part: PartDecl<'_>) -> Result<()> {
        let options = pairs::from_options(&part.options);
        let (offset, len) = part.range.unwrap_or_default();
        result(self.0.part(WirePart {
            format: part.format.into(),
            options: options.as_slice().into(),
            offset,
            len,
            file: part.file,
            has_range: u32::from(part.range.is_some()),
            detail: RSlice::EMPTY,
        }))
    }

    fn mapped(&mut self, part: u32, name: &str) -> Result<()> {
        result(self.0.mapped(part, name.into()))
    }

    fn fact(&mut self, fact: Fact<'_>) -> Result<()> {
        let none = Bytes::default();
        let (number, text, bytes) = match &fact {
            Fact::Dialect(text) => (FactNumber::DIALECT, *text, &none),
            Fact::Architecture(id, config) => (FactNumber::ARCHITECTURE, *id, config),
            Fact::Tokenizer(json) => (FactNumber::TOKENIZER, "", json),
            Fact::ModelCard(json) => (FactNumber::MODEL_CARD, "", json),
            Fact::Recipe(name) => (FactNumber::RECIPE, *name, &none),
            Fact::Provenance(json) => (FactNumber::PROVENANCE, "", json),
            Fact::Derived(json) => (FactNumber::DERIVED, "", json),
            Fact::Note(note) => (FactNumber::NOTE, *note, &none),
            Fact::Older(version) => (FactNumber::OLDER, *version, &none),
            Fact::Checksum(checksum) => return push_checksum(self.0, checksum),
            _ => return Err(Error::unsupported("this fact cannot be passed to the host")),
        };
        result(self.0.fact(number, text.into(), bytes_to_wire(bytes)))
    }
}

/// Puts the host's block sink on the wire.
pub struct ToWireBlockSink<'a>(pub &'a mut dyn BlockSink);

impl WireBlockSink for ToWireBlockSink<'_> {
    fn block(&mut self, file: u32, offset: u64, len: u64, raw_len: u64) -> R<()> {
        host_wire("taking a block", || self.0.block(Extent::new(file, offset, len), raw_len))
    }
}

/// Presents the wire's block sink to a plugin.
pub struct FromWireBlockSink<'a, 'b>(pub &'b mut BlockSinkMut<'a>);

impl BlockSink for FromWireBlockSink<'_, '_> {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        result(self.0.block(stored.file, stored.offset, stored.len, raw_len))
    }
}
