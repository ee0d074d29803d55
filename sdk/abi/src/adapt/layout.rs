//! The host's sinks for a writer (layouts and patches), and what was written.

use super::digest::{self, sum_from_wire, sum_to_wire};
use super::error::result;
use super::model_sink::{bytes_from_wire, bytes_to_wire};
use crate::guard::{guard, host_wire};
use crate::wire::{
    DigestNumber, EncodingNumber, FormNumber, LayoutSinkMut, PatchSinkMut, R, WireBytes, WireEncoding,
    WireLayoutSink, WireOwnedBytes, WireOwnedCodec, WirePartRequest, WirePatchSink, WireWritten,
    WireWrittenFile, WireWrittenHole, WireWrittenInput, WireWrittenTensor, pairs,
};
use abi_stable::std_types::{ROption, RSlice, RStr, RVec};
use apr_sdk::{
    Bytes, Codec, Encoding, Error, Extent, LayoutSink, PartRequest, PatchSink, Result, Sum, Written,
    WrittenFile, WrittenHole, WrittenInput, WrittenTensor,
};

/// Converts a compression method from the wire.
///
/// # Errors
/// Plugin for options that are not pairs of strings.
pub(crate) fn codec_from_wire(number: u32, options: &[u8]) -> Result<Codec> {
    Ok(Codec { number, options: pairs::to_options(options)? })
}

fn unknown<T>(what: &str, number: u32) -> Result<T> {
    Err(Error::plugin(format!("requests an unknown {what}, number {number}")))
}

/// Puts the host's layout sink on the wire.
pub struct ToWireLayoutSink<'a>(pub &'a mut dyn LayoutSink);

impl WireLayoutSink for ToWireLayoutSink<'_> {
    fn file(&mut self, name: RStr<'_>) -> R<()> {
        host_wire("laying out", || self.0.file(name.as_str()))
    }

    fn entry(&mut self) -> R<()> {
        host_wire("laying out", || self.0.entry())
    }

    fn inline(&mut self, bytes: RSlice<'_, u8>) -> R<()> {
        host_wire("laying out", || self.0.inline(bytes.as_slice()))
    }

    fn copy(&mut self, bytes: WireBytes<'_>) -> R<()> {
        host_wire("laying out", || self.0.copy(&bytes_from_wire(&bytes)))
    }

    fn payload(&mut self, tensor: u64, align: u64, encoding: WireEncoding<'_>) -> R<()> {
        host_wire("laying out", || {
            let encoding = match encoding.kind {
                EncodingNumber::RAW => Encoding::Raw,
                EncodingNumber::ENCODED => Encoding::Encoded {
                    codec: codec_from_wire(encoding.codec, &encoding.options)?,
                    block_size: encoding.block_size,
                    lengths: encoding.lengths != 0,
                },
                other => return unknown("an encoding", other.0),
            };
            self.0.payload(tensor, align, encoding)
        })
    }

    fn pad_to(&mut self, n: u64) -> R<()> {
        host_wire("laying out", || self.0.pad_to(n))
    }

    fn hole(&mut self, id: u32, len: u64) -> R<()> {
        host_wire("laying out", || self.0.hole(id, len))
    }

    fn part(&mut self, part: WirePartRequest<'_>) -> R<()> {
        host_wire("laying out", || {
            self.0.part(PartRequest {
                stem: part.stem.as_str(),
                format: part.format.as_str(),
                tensors: (part.all_tensors == 0).then_some(part.tensors.as_slice()),
                options: pairs::to_options(part.options.as_slice())?,
            })
        })
    }

    fn digest(&mut self, digest: DigestNumber, form: FormNumber) -> R<()> {
        host_wire("laying out", || self.0.digest(sum_from_wire(digest, form)?))
    }

    fn position(&self) -> ROption<u64> {
        guard(|| self.0.position()).unwrap_or(None).into()
    }

    fn fetch(&mut self, bytes: WireBytes<'_>) -> R<WireOwnedBytes> {
        host_wire("reading for the layout", || {
            let (held, extent) = match self.0.fetch(&bytes_from_wire(&bytes))? {
                Bytes::Inline(held) => (Some(held), Extent::default()),
                Bytes::Extent(extent) => (None, extent),
            };
            Ok(WireOwnedBytes {
                is_held: u32::from(held.is_some()),
                held: held.as_deref().unwrap_or_default().into(),
                offset: extent.offset,
                len: extent.len,
                file: extent.file,
                reserved: [0; 2],
            })
        })
    }

    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> R<ROption<RVec<u8>>> {
        host_wire("sampling a tensor", || Ok(self.0.sample(tensor, start, len)?.map(RVec::from).into()))
    }

    fn source_codec(&mut self, tensor: u64) -> R<ROption<WireOwnedCodec>> {
        host_wire("laying out", || {
            let codec = self.0.source_codec(tensor)?;
            let owned = codec.map(|Codec { number, options }| WireOwnedCodec {
                options: pairs::from_options(&options).into(),
                number,
                padding: 0,
                reserved: [0; 2],
            });
            Ok(owned.into())
        })
    }

    fn note(&mut self, note: RStr<'_>) {
        // A note that cannot be delivered is lost: there is no one to tell.
        let _ = guard(|| self.0.note(note.as_str()));
    }

    fn warn(&mut self, warning: RStr<'_>) {
        // As above.
        let _ = guard(|| self.0.warn(warning.as_str()));
    }
}

/// Presents the wire's layout sink to a plugin.
pub struct FromWireLayoutSink<'a, 'b>(pub &'b mut LayoutSinkMut<'a>);

impl LayoutSink for FromWireLayoutSink<'_, '_> {
    fn file(&mut self, name: &str) -> Result<()> {
        result(self.0.file(name.into()))
    }

    fn entry(&mut self) -> Result<()> {
        result(self.0.entry())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        result(self.0.inline(bytes.into()))
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        result(self.0.copy(bytes_to_wire(bytes)))
    }

    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        let mut options = Vec::new();
        let mut wire = WireEncoding {
            options: RSlice::EMPTY,
            block_size: 0,
            kind: EncodingNumber::RAW,
            codec: 0,
            lengths: 0,
            padding: 0,
            detail: RSlice::EMPTY,
        };
        match encoding {
            Encoding::Raw => {}
            Encoding::Encoded { codec, block_size, lengths } => {
                options = pairs::from_options(&codec.options);
                (wire.kind, wire.codec) = (EncodingNumber::ENCODED, codec.number);
                (wire.block_size, wire.lengths) = (block_size, u32::from(lengths));
            }
            _ => return Err(Error::unsupported("this encoding cannot be passed to the host")),
        }
        wire.options = options.as_slice().into();
        result(self.0.payload(tensor, align, wire))
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        result(self.0.pad_to(n))
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        result(self.0.hole(id, len))
    }

    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        let options = pairs::from_options(&part.options);
        result(self.0.part(WirePartRequest {
            stem: part.stem.into(),
            format: part.format.into(),
            tensors: part.tensors.unwrap_or_default().into(),
            options: options.as_slice().into(),
            all_tensors: u32::from(part.tensors.is_none()),
            padding: 0,
            reserved: [0; 2],
        }))
    }

    fn digest(&mut self, sum: Sum) -> Result<()> {
        let (digest, form) = sum_to_wire(sum)?;
        result(self.0.digest(digest, form))
    }

    fn position(&self) -> Option<u64> {
        self.0.position().into()
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        let fetched = result(self.0.fetch(bytes_to_wire(bytes)))?;
        Ok(match fetched.is_held {
            0 => Bytes::Extent(Extent::new(fetched.file, fetched.offset, fetched.len)),
            _ => Bytes::from(fetched.held.as_slice()),
        })
    }

    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let sampled = result(self.0.sample(tensor, start, len))?;
        Ok(sampled.into_option().map(RVec::into_vec))
    }

    fn source_codec(&mut self, tensor: u64) -> Result<Option<Codec>> {
        let codec = result(self.0.source_codec(tensor))?.into_option();
        codec.map(|codec| codec_from_wire(codec.number, codec.options.as_slice())).transpose()
    }

    fn note(&mut self, note: &str) {
        self.0.note(note.into());
    }

    fn warn(&mut self, warning: &str) {
        self.0.warn(warning.into());
    }
}

/// Puts the host's patch sink on the wire.
pub struct ToWirePatchSink<'a>(pub &'a mut dyn PatchSink);

impl WirePatchSink for ToWirePatchSink<'_> {
    fn fill(&mut self, id: u32, bytes: RSlice<'_, u8>) -> R<()> {
        host_wire("patching", || self.0.fill(id, bytes.as_slice()))
    }

    fn fill_digest(
        &mut self,
        id: u32,
        file: u32,
        start: u64,
        end: u64,
        digest: DigestNumber,
        form: FormNumber,
    ) -> R<()> {
        host_wire("patching", || self.0.fill_digest(id, file, start, end, sum_from_wire(digest, form)?))
    }

    fn append(&mut self, file: u32, bytes: RSlice<'_, u8>) -> R<()> {
        host_wire("patching", || self.0.append(file, bytes.as_slice()))
    }
}

/// Presents the wire's patch sink to a plugin.
pub struct FromWirePatchSink<'a, 'b>(pub &'b mut PatchSinkMut<'a>);

impl PatchSink for FromWirePatchSink<'_, '_> {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        result(self.0.fill(id, bytes.into()))
    }

    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()> {
        let (digest, form) = sum_to_wire(sum)?;
        result(self.0.fill_digest(id, file, start, end, digest, form))
    }

    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()> {
        result(self.0.append(file, bytes.into()))
    }
}

/// Calls `use_it` with `written` converted to the wire, borrowed.
///
/// # Errors
/// Any error from `use_it`; Unsupported for a digest that this version of the wire lacks.
pub(crate) fn with_written<T>(
    written: &Written,
    use_it: impl FnOnce(&WireWritten<'_>) -> Result<T>,
) -> Result<T> {
    let reserved = [0; 2];
    let files = written.files.iter();
    let files: Vec<_> = files
        .map(|file| WireWrittenFile { name: file.name.as_str().into(), len: file.len, reserved })
        .collect();
    let digests = written.tensors.iter().map(|tensor| digest::to_wire(&tensor.digests));
    let digests = digests.collect::<Result<Vec<_>>>()?;
    let of_inputs = written.inputs.iter().map(|input| digest::to_wire(&input.digests));
    let of_inputs = of_inputs.collect::<Result<Vec<_>>>()?;
    let inputs = of_inputs.iter();
    let inputs: Vec<_> = inputs
        .map(|digests| WireWrittenInput { digests: digests.as_slice().into(), detail: RSlice::EMPTY })
        .collect();
    let tensors: Vec<_> = written
        .tensors
        .iter()
        .zip(&digests)
        .map(|(tensor, digests)| WireWrittenTensor {
            digests: digests.as_slice().into(),
            blocks: tensor.blocks.as_slice().into(),
            offset: tensor.offset,
            stored_len: tensor.stored_len,
            raw_len: tensor.raw_len,
            file: tensor.file,
            padding: 0,
            detail: RSlice::EMPTY,
        })
        .collect();
    let holes: Vec<_> = written
        .holes
        .iter()
        .map(|hole| WireWrittenHole {
            offset: hole.offset,
            len: hole.len,
            id: hole.id,
            file: hole.file,
            reserved,
        })
        .collect();
    use_it(&WireWritten {
        files: files.as_slice().into(),
        tensors: tensors.as_slice().into(),
        inputs: inputs.as_slice().into(),
        holes: holes.as_slice().into(),
        detail: RSlice::EMPTY,
    })
}

/// Converts what was written from the wire.
pub(crate) fn written_from_wire(wire: &WireWritten<'_>) -> Written {
    let files = wire.files.iter().map(|file| WrittenFile { name: file.name.into(), len: file.len });
    let tensors = wire.tensors.iter().map(|tensor| WrittenTensor {
        file: tensor.file,
        offset: tensor.offset,
        stored_len: tensor.stored_len,
        raw_len: tensor.raw_len,
        digests: digest::from_wire(tensor.digests),
        blocks: tensor.blocks.to_vec(),
    });
    let inputs = wire.inputs.iter().map(|input| WrittenInput { digests: digest::from_wire(input.digests) });
    let holes = wire.holes.iter();
    let holes =
        holes.map(|hole| WrittenHole { id: hole.id, file: hole.file, offset: hole.offset, len: hole.len });
    Written {
        files: files.collect(),
        tensors: tensors.collect(),
        inputs: inputs.collect(),
        holes: holes.collect(),
    }
}
