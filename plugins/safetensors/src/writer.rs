//! Lays out a model as one file, or as shards and an index.

use crate::canonical;
use crate::carried::{self, Outgoing, Place};
use crate::header::{Entry, Header};
use crate::layout::{MAX_HEADER_LEN, METADATA, payload_len, rank_of};
use crate::shards::{Shard, Shards};
use apr_sdk::{
    Bytes, CheckedModel, Encoding, Error, ForeignPolicy, LayoutRequest, LayoutSink, Limits, Model, Result,
    Writer,
};
use std::collections::HashMap;

/// The writer for files, shards and indexes.
pub struct Safetensors;

impl Writer for Safetensors {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let verbatim = request.foreign != ForeignPolicy::Typed;
        let outgoing = Outgoing::new(model, request.foreign, sink)?;
        let shards = Shards::choose(model, request, sink)?;
        if let Some(index) = &shards.index {
            let kept = match index.record.and_then(|record| record.verbatim.as_ref()).filter(|_| verbatim) {
                Some(kept) => Some(sink.fetch(kept)?),
                None => None,
            };
            let kept = kept.as_ref().and_then(|bytes| std::str::from_utf8(bytes.inline()?).ok());
            let text = shards.index_text(model, index, &outgoing, kept)?;
            sink.file(&index.name)?;
            sink.entry()?;
            sink.inline(text.as_bytes())?;
        }
        for shard in &shards.files {
            let mut metadata = shard.metadata.entries();
            let place = if shards.index.is_none() { Place::File } else { Place::Shard };
            if let Some(text) = outgoing.text(place, shard.metadata.unspelled())? {
                carried::add(metadata.get_or_insert_default(), text);
            }
            let kept = shard.record.and_then(|record| record.verbatim.as_ref()).filter(|_| verbatim);
            write_file(model, shard, metadata.as_deref(), kept, sink)?;
        }
        Ok(())
    }
}

/// Lays out one file.
fn write_file(
    model: &Model,
    shard: &Shard<'_>,
    metadata: Option<&[(String, String)]>,
    kept: Option<&Bytes>,
    sink: &mut dyn LayoutSink,
) -> Result<()> {
    let mut planned = plan(model, &shard.tensors)?;
    let kept = match kept {
        Some(kept) => keep(&mut planned, metadata, kept, sink)?,
        None => None,
    };
    let text = match kept {
        Some(text) => text,
        None => regenerate(&mut planned, metadata)?,
    };
    if text.len() as u64 > MAX_HEADER_LEN {
        let message =
            format!("the header has {} bytes, more than the format's limit of {MAX_HEADER_LEN}", text.len());
        return Err(Error::unsupported(message).hint("use --max-shard-size, or --foreign drop"));
    }
    sink.file(&shard.name)?;
    sink.inline(&(text.len() as u64).to_le_bytes())?;
    sink.inline(&text)?;
    for tensor in planned {
        sink.payload(tensor.number as u64, 1, Encoding::Raw)?;
    }
    Ok(())
}

/// A tensor in the file that is being laid out.
struct Planned<'m> {
    number: usize,
    name: &'m str,
    rank: usize,
    shape: &'m [u64],
    len: u64,
}

fn plan<'m>(model: &'m Model, tensors: &[usize]) -> Result<Vec<Planned<'m>>> {
    let mut planned = Vec::with_capacity(tensors.len());
    for &number in tensors {
        let tensor = &model.tensors[number];
        if tensor.name == METADATA {
            let message = "the format reserves this name, so no tensor can have it";
            return Err(Error::unsupported(message).tensor(METADATA));
        }
        let rank = rank_of(tensor.dtype).ok_or_else(|| {
            Error::unsupported(format!("the format has no {}", tensor.dtype))
                .tensor(&tensor.name)
                .hint("use --dequantize f32, f16 or bf16")
        })?;
        let len = payload_len(tensor.dtype, &tensor.shape)
            .map_err(|e| Error::unsupported(e.message()).tensor(&tensor.name))?;
        planned.push(Planned { number, name: &tensor.name, rank, shape: &tensor.shape, len });
    }
    Ok(planned)
}

/// The verbatim header, with `planned` in its order, if it means exactly what is to be written.
fn keep(
    planned: &mut [Planned<'_>],
    metadata: Option<&[(String, String)]>,
    kept: &Bytes,
    sink: &mut dyn LayoutSink,
) -> Result<Option<Vec<u8>>> {
    let held = sink.fetch(kept)?;
    let text = held.inline().unwrap_or_default();
    let limits = Limits::default();
    limits.budget.earn(text.len() as u64);
    let Ok(header) = Header::parse(text.to_vec(), &limits) else { return Ok(None) };
    let by_offset = header.by_offset();
    let data_len = planned.iter().map(|tensor| tensor.len).fold(0, u64::saturating_add);
    let same_metadata = carried::last(header.metadata()) == carried::last(metadata);
    if header.len() != planned.len() || !same_metadata || header.check_tiling(&by_offset, data_len).is_err() {
        return Ok(None);
    }
    let places: HashMap<&str, usize> =
        by_offset.iter().enumerate().map(|(place, &n)| (header.entry(n).name, place)).collect();
    let place = |tensor: &Planned<'_>| {
        let place = *places.get(tensor.name)?;
        let entry = header.entry(by_offset[place]);
        ((entry.rank, entry.shape) == (tensor.rank, tensor.shape)).then_some(place)
    };
    if planned.iter().any(|tensor| place(tensor).is_none()) {
        return Ok(None);
    }
    planned.sort_by_cached_key(place);
    Ok(Some(text.to_vec()))
}

/// The header that the format's own library would write, with `planned` in its order.
fn regenerate(planned: &mut [Planned<'_>], metadata: Option<&[(String, String)]>) -> Result<Vec<u8>> {
    planned.sort_by(|a, b| canonical::order((a.rank, a.name), (b.rank, b.name)));
    let mut end = 0u64;
    let entries = planned.iter().map(|tensor| {
        let begin = end;
        end = begin.saturating_add(tensor.len);
        Entry { name: tensor.name, rank: tensor.rank, shape: tensor.shape, begin, end }
    });
    let mut text = Vec::new();
    canonical::write_header(&mut text, metadata, entries).map_err(|e| Error::io(e.to_string()))?;
    canonical::pad(&mut text);
    Ok(text)
}
