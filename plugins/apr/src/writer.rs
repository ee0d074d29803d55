//! The writer: tensors, metadata and index become the segments of one file, or of several with a manifest.

use crate::carry::{self, OwnText};
use crate::compression::{self, Choice, Encoder, Method};
use crate::file_layout::FileLayout;
use crate::holes;
use crate::layout::HIDDEN;
use crate::render::{Origin, Piece, Rendered};
use crate::shards::{self, ManifestPiece, Plan};
use apr_sdk::{
    BlockAt, Bytes, CheckedModel, Codec, Error, ErrorKind, ForeignPolicy, LayoutRequest, LayoutSink, Model,
    PatchSink, Result, Sum, Written,
};

/// Writes APR2 files.
#[derive(Default)]
pub struct Writer {
    encoder: Encoder,
}

impl apr_sdk::Writer for Writer {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        if let Some(tensor) = model.tensors.iter().find(|tensor| tensor.name.starts_with(HIDDEN)) {
            return Err(Error::unsupported(format!(
                "names that start with `{HIDDEN}` are reserved by the format"
            ))
            .tensor(&tensor.name)
            .hint("rename the tensor"));
        }
        let methods = self.methods(model, request, sink)?;
        let plan = Plan::new(model, request)?;
        let mut sizes = Vec::with_capacity(plan.files.len());
        for (number, file) in (0..).zip(&plan.files) {
            sink.file(&file.name)?;
            let rendered = metadata(model, request, &plan, number, sink)?;
            let is_shard = plan.manifest.is_some();
            let layout = FileLayout { model, tensors: &file.tensors, methods: &methods, is_shard, number };
            sizes.push(layout.push(&rendered, sink)?);
        }
        let Some(manifest) = &plan.manifest else { return Ok(()) };
        sink.file(manifest)?;
        sink.entry()?;
        for piece in shards::manifest(model, &plan, &sizes) {
            match piece {
                ManifestPiece::Text(text) => sink.inline(text.as_bytes())?,
                ManifestPiece::Crc(shard) => {
                    sink.hole(holes::SHARD_CRC | shard, ManifestPiece::CRC_LEN as u64)?
                }
                ManifestPiece::Size(shard) => {
                    sink.hole(holes::SHARD_SIZE | shard, ManifestPiece::SIZE_LEN as u64)?;
                }
            }
        }
        Ok(())
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        holes::fill(written, sink)
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        Ok(compression::block::bound(Method::from_codec(codec)?, raw_len))
    }

    fn encode(&self, codec: &Codec, _at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        self.encoder.encode(Method::from_codec(codec)?, raw, out)
    }
}

impl Writer {
    /// The compression of each tensor.
    fn methods(
        &self,
        model: &Model,
        request: &LayoutRequest,
        sink: &mut dyn LayoutSink,
    ) -> Result<Vec<Option<Method>>> {
        let mut methods = vec![None; model.tensors.len()];
        let choice = Choice::new(&request.options)?;
        for ((number, tensor), method) in (0..).zip(&model.tensors).zip(&mut methods) {
            let chosen = choice.method(&self.encoder, number, tensor.dtype, tensor.payload_len()?, sink);
            *method = chosen.map_err(|e| e.tensor(&tensor.name))?;
        }
        Ok(methods)
    }
}

/// The metadata section of file number `number`: the source's own text if it still applies, otherwise a new
/// one.
fn metadata(
    model: &Model,
    request: &LayoutRequest,
    plan: &Plan<'_>,
    number: u32,
    sink: &mut dyn LayoutSink,
) -> Result<Rendered> {
    let file = &plan.files[number as usize];
    let first = number == 0;
    let mut own = Vec::new();
    for record in file.records.iter().filter(|_| request.foreign != ForeignPolicy::Drop) {
        match OwnText::read(record, &mut |bytes| sink.fetch(bytes)) {
            Ok(text) => own.extend(text),
            Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                sink.note("the source's metadata is too long to keep: keys of other programs were left out");
            }
            Err(error) => return Err(error),
        }
    }
    let planned = carry::metadata(model, &file.tensors, first, &own, request.foreign)?;
    let fetch = &mut |bytes: &Bytes| sink.fetch(bytes);
    if let ([_], [own], true) =
        (file.records.as_slice(), own.as_slice(), request.foreign != ForeignPolicy::Typed)
        && let Some(rendered) = own.fits(&planned, fetch)?
    {
        return Ok(rendered);
    }
    let origin = Origin {
        versions: &request.versions,
        inputs: &request.inputs,
        source: &request.source,
        more: &request.record,
    };
    let rendered = planned.render(first.then_some(origin), fetch)?;
    if rendered.pieces.iter().any(|piece| matches!(piece, Piece::InputCrc(_))) {
        sink.digest(Sum::CRC32_HEX)?;
    }
    Ok(rendered)
}
