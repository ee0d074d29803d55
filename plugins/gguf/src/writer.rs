//! The writer: the reader's walk in reverse. Little-endian version 3, with offsets that are exactly the
//! padded running sum.

use crate::layout::{HEADER_LEN, MAGIC, VERSION, align_up};
use crate::plan::{self, PlannedFile};
use crate::remainder::Remainder;
use crate::{Gguf, dtypes, types};
use apr_sdk::{
    Bytes, CheckedModel, DType, DTypeChoice, Encoding, Error, LayoutRequest, LayoutSink, Model, Result,
    Tensor, TensorFacts, Value, ValueType, Writer, escape,
};

impl Writer for Gguf {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        for file in plan::files(model, request, sink)? {
            write_file(model, &file, sink)?;
        }
        Ok(())
    }

    fn dtypes(&self, tensors: &[TensorFacts], wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        Ok(dtypes::choose(tensors, wanted))
    }
}

fn write_file(model: &Model, file: &PlannedFile, sink: &mut dyn LayoutSink) -> Result<()> {
    let alignment = file.alignment()?;
    let tensors = &model.tensors[file.tensors.clone()];
    note_unloadable(file, sink);
    sink.file(&file.name)?;
    let mut out = Out { sink, pending: Vec::new(), at: 0 };
    out.push(&MAGIC);
    out.push(&VERSION.to_le_bytes());
    out.push(&(tensors.len() as u64).to_le_bytes());
    out.push(&(file.keys.len() as u64).to_le_bytes());
    debug_assert_eq!(out.at, HEADER_LEN);
    for (key, value) in &file.keys {
        out.string(key);
        out.push(&value.kind.0.to_le_bytes());
        out.value(&value.bytes)?;
    }
    let data_len = write_infos(&mut out, tensors, alignment)?;
    let header_end = out.finish()?;
    let remainder = usable_remainder(file, tensors, alignment, header_end, data_len, sink)?;
    match remainder.as_ref().and_then(|remainder| remainder.padding.as_ref()) {
        Some(padding) => sink.inline(padding)?,
        None => sink.pad_to(alignment)?,
    }
    let between = remainder.as_ref().and_then(|remainder| remainder.between.as_deref());
    write_payloads(file, tensors, alignment, between.unwrap_or_default(), sink)?;
    match remainder.as_ref().and_then(|remainder| remainder.tail.as_ref()) {
        Some(tail) => sink.inline(tail),
        None => sink.pad_to(alignment),
    }
}

/// Writes the payloads, each after its part of the bytes `between` them; after zeros, when none are left.
fn write_payloads(
    file: &PlannedFile,
    tensors: &[Tensor],
    alignment: u64,
    mut between: &[u8],
    sink: &mut dyn LayoutSink,
) -> Result<()> {
    let mut gap = 0;
    for (number, tensor) in file.tensors.clone().zip(tensors) {
        let (now, later) = between.split_at(usize::try_from(gap).unwrap_or(0).min(between.len()));
        if !now.is_empty() {
            sink.inline(now)?;
        }
        between = later;
        // Behind an empty one there is none.
        gap = tensor.payload_len()?.wrapping_neg() & (alignment - 1);
        sink.payload(number as u64, alignment, Encoding::Raw)?;
    }
    Ok(())
}

/// The specification allows arrays of arrays, and files contain them; llama.cpp refuses the whole file.
fn note_unloadable(file: &PlannedFile, sink: &mut dyn LayoutSink) {
    let nested =
        |(_, value): &&(String, Value)| value.array_head().is_some_and(|(kind, _)| kind == ValueType::ARRAY);
    if let Some((key, _)) = file.keys.iter().find(nested) {
        let key = escape(key, 120);
        sink.note(&format!("metadata key `{key}` is an array of arrays, which llama.cpp does not load"));
    }
}

/// Writes the tensor records; returns where the last payload ends, relative to the data.
fn write_infos(out: &mut Out<'_>, tensors: &[Tensor], alignment: u64) -> Result<u64> {
    let (mut offset, mut end) = (0u64, 0);
    for tensor in tensors {
        let wrong = |message: String| Error::unsupported(message).tensor(&tensor.name);
        let id = types::id_of(tensor.dtype);
        let id = id.ok_or_else(|| wrong(format!("the format has no type {}", tensor.dtype)))?;
        out.string(&tensor.name);
        // At most four, by the manifest.
        out.push(&u32::try_from(tensor.shape.len()).unwrap_or(0).to_le_bytes());
        tensor.shape.iter().rev().for_each(|dim| out.push(&dim.to_le_bytes()));
        out.push(&id.to_le_bytes());
        out.push(&offset.to_le_bytes());
        let len = tensor.payload_len()?;
        let far = || wrong("its data would exceed 2^64 bytes".to_owned());
        end = offset.checked_add(len).ok_or_else(far)?;
        offset = align_up(end, alignment).ok_or_else(far)?;
    }
    Ok(end)
}

/// The source's own padding, if header and payloads have the same length as there.
fn usable_remainder(
    file: &PlannedFile,
    tensors: &[Tensor],
    alignment: u64,
    header_end: u64,
    data_len: u64,
    sink: &mut dyn LayoutSink,
) -> Result<Option<Remainder>> {
    let Some(verbatim) = &file.verbatim else { return Ok(None) };
    let held = sink.fetch(verbatim)?;
    let Some(remainder) = held.inline().and_then(Remainder::from_bytes) else { return Ok(None) };
    let start = align_up(header_end, alignment);
    let padded = match &remainder.padding {
        Some(padding) => header_end.checked_add(padding.len() as u64),
        None => start,
    };
    let fits = match tensors.last() {
        None => padded == Some(remainder.data_end) && padded <= start,
        // After an empty payload, there is no telling where the one before it ended.
        Some(last) => {
            last.payload_len()? > 0
                && padded == start
                && start.and_then(|start| start.checked_add(data_len)) == Some(remainder.data_end)
        }
    };
    Ok(Some(remainder).filter(|remainder| fits && remainder.header_end == header_end))
}

/// Joins short pieces, so that the sink gets few.
struct Out<'a> {
    sink: &'a mut dyn LayoutSink,
    pending: Vec<u8>,
    at: u64,
}

impl Out<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
    }

    fn string(&mut self, text: &str) {
        self.push(&(text.len() as u64).to_le_bytes());
        self.push(text.as_bytes());
    }

    /// Writes a value's bytes unchanged: the SDK's wire form is the file's.
    fn value(&mut self, bytes: &Bytes) -> Result<()> {
        if let Some(held) = bytes.inline() {
            self.push(held);
            return Ok(());
        }
        self.flush()?;
        self.at += bytes.len();
        self.sink.copy(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() { Ok(()) } else { self.sink.inline(&pending) }
    }

    /// Flushes pending bytes; returns the total.
    fn finish(mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.at)
    }
}
