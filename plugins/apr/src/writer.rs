//! The writer: tensors, metadata and index become the segments of one file, or of several with a manifest.

use crate::carry::{self, OwnText};
use crate::index::{self, Entry};
use crate::layout::{ALIGNMENT, Footer, HIDDEN, Header, VERSION, flags};
use crate::render::{Origin, Piece, Rendered};
use crate::shards::{self, Plan};
use crate::{FORMAT, dtypes::Numbers};
use apr_sdk::{
    Bytes, CheckedModel, Encoding, Error, ErrorKind, ForeignPolicy, LayoutRequest, LayoutSink, Model,
    PatchSink, Result, Sum, Written,
};

/// Writes APR2 files.
#[derive(Debug)]
pub struct Writer;

/// The structure of hole numbers: the kind in the upper bits, the file or input in the lower ones.
mod holes {
    pub const FOOTER: u32 = 1 << 28;
    pub const SHARD: u32 = 2 << 28;
    pub const INPUT: u32 = 3 << 28;
    pub const SORT: u32 = 0xf << 28;
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
        let plan = Plan::new(model, request)?;
        let mut sizes = Vec::with_capacity(plan.files.len());
        for (number, file) in (0..).zip(&plan.files) {
            sink.file(&file.name)?;
            let rendered = metadata(model, request, &plan, number, sink)?;
            sizes.push(lay_out(model, &file.tensors, &rendered, plan.manifest.is_some(), number, sink)?);
        }
        let Some(manifest) = &plan.manifest else { return Ok(()) };
        sink.file(manifest)?;
        sink.entry()?;
        for piece in shards::manifest(model, &plan, &sizes) {
            match piece {
                Piece::Text(text) => sink.inline(text.as_bytes())?,
                Piece::InputCrc(shard) => sink.hole(holes::SHARD | shard, Piece::CRC_LEN as u64)?,
            }
        }
        Ok(())
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        let of_sort = |sort| written.holes.iter().filter(move |hole| hole.id & holes::SORT == sort);
        let number = |id: u32| usize::try_from(id & !holes::SORT).unwrap_or(usize::MAX);
        for hole in of_sort(holes::INPUT) {
            // An input without payload may be missing from the list; the checksum of nothing is 0.
            let crc = written.inputs.get(number(hole.id)).and_then(|input| input.digests.get(Sum::CRC32_HEX));
            sink.fill(hole.id, crc.unwrap_or(b"00000000"))?;
        }
        for hole in of_sort(holes::FOOTER) {
            sink.fill_digest(hole.id, hole.file, 0, hole.offset, Sum::CRC32)?;
        }
        for hole in of_sort(holes::SHARD) {
            let footer = of_sort(holes::FOOTER).find(|footer| number(footer.id) == number(hole.id));
            let footer = footer.ok_or_else(|| Error::plugin("a shard was never written"))?;
            // The same as in its footer: including the footer, every shard of this length would have the same
            // checksum.
            sink.fill_digest(hole.id, footer.file, 0, footer.offset, Sum::CRC32_HEX)?;
        }
        Ok(())
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
    let origin = Origin { versions: &request.versions, inputs: &request.inputs, source: &request.source };
    let rendered = planned.render(first.then_some(origin), fetch)?;
    if rendered.pieces.iter().any(|piece| matches!(piece, Piece::InputCrc(_))) {
        sink.digest(Sum::CRC32_HEX)?;
    }
    Ok(rendered)
}

/// Pushes one file; returns its length.
fn lay_out(
    model: &Model,
    tensors: &[usize],
    metadata: &Rendered,
    sharded: bool,
    number: u32,
    sink: &mut dyn LayoutSink,
) -> Result<u64> {
    let mut data_len = 0;
    let mut entries = Vec::with_capacity(metadata.hidden.len() + tensors.len());
    let numbers = numbers(model, tensors)?;
    let byte = numbers.get("U8").unwrap_or_default();
    for (name, bytes) in &metadata.hidden {
        let offset = place(&mut data_len, bytes.len())?;
        entries.push(Entry::raw(name, byte, &[bytes.len()], offset, bytes.len()));
    }
    let mut flags = flags::ALIGNED_64 | if sharded { flags::SHARDED } else { 0 };
    for tensor in tensors.iter().map(|&n| &model.tensors[n]) {
        let size = tensor.payload_len()?;
        let offset = place(&mut data_len, size)?;
        let dtype =
            numbers.get(tensor.dtype.name()).ok_or_else(|| Error::plugin("a dtype without a number"))?;
        entries.push(Entry::raw(&tensor.name, dtype, &tensor.shape, offset, size));
        flags |= if tensor.dtype.is_block() { flags::QUANTIZED } else { 0 };
    }
    let index = index::to_bytes(&mut entries)?;
    let header = header(flags, metadata.len(), index.len() as u64)?;
    sink.inline(&header.to_bytes())?;
    for piece in &metadata.pieces {
        match piece {
            Piece::Text(text) => sink.inline(text.as_bytes())?,
            Piece::InputCrc(input) => sink.hole(holes::INPUT | input, Piece::CRC_LEN as u64)?,
        }
    }
    sink.inline(&index)?;
    sink.pad_to(ALIGNMENT)?;
    for (_, bytes) in &metadata.hidden {
        sink.pad_to(ALIGNMENT)?;
        sink.copy(bytes)?;
    }
    for &tensor in tensors {
        sink.payload(tensor as u64, ALIGNMENT, Encoding::Raw)?;
    }
    let end = u64::from(header.data_offset) + data_len;
    if sink.position().is_some_and(|position| position != end) {
        return Err(Error::plugin(format!("the layout of {FORMAT} does not add up to {end} bytes")));
    }
    let file_size = end.checked_add(Footer::LEN).ok_or_else(too_long)?;
    sink.hole(holes::FOOTER | number, Footer::CRC_LEN)?;
    sink.inline(&Footer::tail(file_size))?;
    Ok(file_size)
}

fn numbers(model: &Model, tensors: &[usize]) -> Result<Numbers> {
    let mut numbers = Numbers::default();
    for &tensor in tensors {
        numbers.add(model.tensors[tensor].dtype)?;
    }
    Ok(numbers)
}

/// Reserves `len` bytes in the data section, which has `data_len` bytes so far; returns their offset.
fn place(data_len: &mut u64, len: u64) -> Result<u64> {
    let offset = data_len.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_long)?;
    *data_len = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64).ok_or_else(too_long)?;
    Ok(offset)
}

fn header(flags: u32, metadata_len: u64, index_len: u64) -> Result<Header> {
    let index_offset = Header::LEN as u64 + metadata_len;
    let data_offset = (index_offset + index_len).next_multiple_of(ALIGNMENT);
    let narrow = |offset: u64| {
        u32::try_from(offset).map_err(|_| {
            Error::unsupported(format!(
                "metadata ({metadata_len} bytes) and index ({index_len} bytes) exceed 4 GiB, the limit of \
                 32-bit offsets"
            ))
        })
    };
    Ok(Header {
        version_major: VERSION.0,
        version_minor: VERSION.1,
        flags,
        metadata_offset: narrow(Header::LEN as u64)?,
        metadata_size: narrow(metadata_len)?,
        index_offset: narrow(index_offset)?,
        index_size: narrow(index_len)?,
        data_offset: narrow(data_offset)?,
    })
}

#[cold]
fn too_long() -> Error {
    Error::unsupported("the file would exceed 2^63 bytes")
}
