//! The end of a conversion: the source's stored checksums, the writer's patches, and verify.

use super::lay_out::LaidOut;
use super::run::WrittenPayload;
use crate::contract::ContractReport;
use crate::engine::Engine;
use crate::layout::{Layout, Patch, PatchCollector, Scope, Segment};
use crate::planned::request::Request;
use crate::planned::request::VerifyMode;
use crate::tiles::TileSink;
use crate::tiles::losses::Quantized;
use crate::tiles::tile_sums::TileSums;
use crate::verify::input_checksums::Witness;
use crate::verify::output_checksums::Summer;
use crate::verify::unchanged_inputs::FirstRead;
use crate::verify::value_changes::{self, ChangedTensor, changed, findings};
use crate::verify::verify;
use crate::wording::n_of;
use apr_sdk::{Error, Result, Written, WrittenFile, WrittenHole, WrittenInput, WrittenTensor};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// The result of a conversion.
#[derive(Default)]
pub struct WrittenOutput {
    /// The length of each file, in layout order.
    pub lengths: Vec<u64>,
    /// The facts that verify has proved.
    pub proved: Vec<String>,
    /// Metadata keys that are missing from the output.
    pub dropped: Vec<String>,
    /// Tensors with values that could not be kept.
    pub changed: Vec<ChangedTensor>,
    /// The findings about the values that were written.
    pub looked: ContractReport,
    /// The losses of quantized tensors.
    pub quantized: Option<Quantized>,
    /// The tensors that were encoded.
    pub encoded: Option<EncodedPayload>,
}

/// The tensors that a format encoded, which compression is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncodedPayload {
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes that they take up in the output.
    pub bytes: u64,
    /// Bytes once decoded.
    pub raw_bytes: u64,
}

impl EncodedPayload {
    /// The encoded payload of a layout that is settled; `None` if there is none.
    fn of(layout: &Layout) -> Option<EncodedPayload> {
        let mut all = EncodedPayload::default();
        for placed in layout.files.iter().flat_map(|file| &file.segments) {
            if let Segment::Payload { encoded: Some(encoded), .. } = &placed.segment {
                all.tensors += 1;
                all.bytes += placed.len;
                all.raw_bytes += encoded.raw_len;
            }
        }
        Some(all).filter(|all| all.tensors > 0)
    }
}

impl WrittenOutput {
    /// Notes for the summary beyond the plan's: values that could not be kept, missing keys.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = value_changes::notes(&self.changed);
        let unmeasured = self.quantized.as_ref().map_or(0, |quantized| quantized.unmeasured_tiles);
        if unmeasured > 0 {
            let tiles = n_of(unmeasured, "tile");
            notes.push(format!(
                "quantization errors cover only this run: {tiles} of earlier runs were not measured"
            ));
        }
        if !self.dropped.is_empty() {
            notes.push(format!("metadata keys not in the output: {}", self.dropped.join(", ")));
        }
        notes
    }
}

/// Everything after the payload: the source's stored checksums, holes, verify.
///
/// # Errors
/// Any error from the writer and verify; Io; also if an input has changed.
pub fn finish(
    engine: &Engine,
    request: &Request,
    laid_out: &mut LaidOut<'_>,
    sink: &dyn TileSink,
    carried: WrittenPayload,
) -> Result<WrittenOutput> {
    let WrittenPayload { sums, committed, mut looked, quantized, lost } = carried;
    let sums = &sums;
    let (stored, inputs) = compare_inputs(engine, request, laid_out, sums)?;
    // The record of reads is no longer needed. Verify opens a model of the same size, and there may be a
    // million tensors.
    if let Some(source) = Arc::get_mut(&mut laid_out.source) {
        source.model.tensors = Vec::new();
    }
    for (number, file) in committed.files.iter().enumerate() {
        if let Some(file) = file {
            laid_out.layout.settle(number, &file.places);
            sink.set_len(number, file.end())?;
        }
    }
    let LaidOut { source, model, output, layout, tiles, .. } = &*laid_out;
    let first_read = FirstRead { engine, source, tiles, sums, spools: &laid_out.spools };
    let mut holes: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut lengths: Vec<u64> = layout.files.iter().map(|f| f.len).collect();
    let mut patches = Vec::new();
    for scope in &layout.scopes {
        let summer = Summer { layout, tiles, sums, committed: &committed, sink, holes: &holes };
        let written = describe_written(laid_out, &summer, scope, &inputs)?;
        let mut collector = PatchCollector::new(layout, scope);
        match &scope.format {
            None => laid_out.writer.finish(&written, &mut collector)?,
            Some(part) => engine.registry.format(part)?.writer()?.finish(&written, &mut collector)?,
        }
        patches.extend(collector.finish()?);
    }
    for patch in patches {
        match patch {
            Patch::Fill { id, bytes } => {
                fill_hole(layout, sink, id, &bytes)?;
                holes.insert(id, bytes);
            }
            Patch::Append { file, bytes } => {
                sink.write_at(file, lengths[file], &bytes)?;
                lengths[file] += bytes.len() as u64;
            }
            Patch::Crc32 { id, file, start, end, sum } => {
                let summer = Summer { layout, tiles, sums, committed: &committed, sink, holes: &holes };
                let bytes = sum.of_crc32(summer.range(file, start, end)?)?;
                fill_hole(layout, sink, id, &bytes)?;
                holes.insert(id, bytes);
            }
        }
    }
    engine.check_cancelled()?;
    let summer = Summer { layout, tiles, sums, committed: &committed, sink, holes: &holes };
    let verdict = verify(engine, output.format, model, source, &summer, layout.entry, request.verify)?;
    first_read.refuse_changed()?;
    let changed = changed(model, tiles, sums);
    let passed = findings(&changed, model, &laid_out.specs, &looked.findings, request.quality)?;
    looked.findings.extend(passed);
    looked.findings.extend(lost);
    looked.account(model, &|number| !tiles.of_tensor(number).is_empty());
    Ok(WrittenOutput {
        lengths,
        proved: verdict.proved.into_iter().chain(stored).collect(),
        dropped: verdict.dropped,
        changed,
        looked,
        quantized,
        encoded: EncodedPayload::of(layout),
    })
}

/// Compares the inputs with their stored checksums; returns what was proved, in words, and the CRC-32 of each
/// input's payload, if the writer wants it.
fn compare_inputs(
    engine: &Engine,
    request: &Request,
    laid_out: &LaidOut<'_>,
    sums: &TileSums,
) -> Result<(Option<String>, Vec<u32>)> {
    let LaidOut { source, layout, tiles, .. } = laid_out;
    let witness = Witness::new(engine, source, laid_out.selected.as_deref());
    let first_read = FirstRead { engine, source, tiles, sums, spools: &laid_out.spools };
    let stored = match request.verify {
        VerifyMode::Off => None,
        // A mismatch in an input that changed meanwhile does not mean that it was damaged.
        _ => witness.compare().or_else(|error| first_read.refuse_changed().and(Err(error)))?,
    };
    let inputs = if layout.digests.is_empty() { Vec::new() } else { witness.inputs(&laid_out.inputs)? };
    Ok((stored, inputs))
}

fn fill_hole(layout: &Layout, sink: &dyn TileSink, id: u32, bytes: &[u8]) -> Result<()> {
    let (file, offset, _) =
        layout.hole(id).ok_or_else(|| Error::plugin(format!("hole {id} does not exist")))?;
    sink.write_at(file, offset, bytes)
}

/// Describes one writer's files to it, in its own numbering.
fn describe_written(
    laid_out: &LaidOut<'_>,
    summer: &Summer<'_>,
    scope: &Scope,
    inputs: &[u32],
) -> Result<Written> {
    let layout = summer.layout;
    let files = scope.files.iter().map(|&number| &layout.files[number]);
    let places: Option<HashMap<usize, usize>> = scope
        .tensors
        .as_ref()
        .map(|all| all.iter().enumerate().map(|(own, &number)| (number, own)).collect());
    let n_tensors = places.as_ref().map_or(laid_out.model.tensors.len(), HashMap::len);
    let inputs = inputs.iter().map(|&crc32| layout.digested(|| Some(crc32)));
    let mut written = Written {
        files: files.clone().map(|f| WrittenFile { name: f.name.clone(), len: f.len }).collect(),
        tensors: vec![WrittenTensor::default(); n_tensors],
        inputs: inputs
            .map(|digests| digests.map(|digests| WrittenInput { digests }))
            .collect::<Result<_>>()?,
        ..Written::default()
    };
    let holes: HashMap<u32, u32> = scope.holes.iter().map(|(&id, &number)| (number, id)).collect();
    for ((number, file), &in_layout) in (0u32..).zip(files).zip(&scope.files) {
        for (segment, placed) in file.segments.iter().enumerate() {
            let offset = placed.offset;
            let stored_len = placed.len;
            match &placed.segment {
                Segment::Payload { tensor, encoded } => {
                    let own = places.as_ref().map_or(Some(*tensor), |places| places.get(tensor).copied());
                    if let Some(slot) = own.and_then(|own| written.tensors.get_mut(own)) {
                        let digests = layout.digested(|| summer.tensor(*tensor))?;
                        let raw_len = encoded.as_ref().map_or(stored_len, |encoded| encoded.raw_len);
                        let is_told = encoded.as_ref().is_some_and(|encoded| encoded.lengths);
                        let blocks = if is_told { summer.blocks(in_layout, segment) } else { Vec::new() };
                        *slot = WrittenTensor { file: number, offset, stored_len, raw_len, digests, blocks };
                    }
                }
                Segment::Hole { id } => {
                    let id = holes.get(id).copied().unwrap_or(*id);
                    written.holes.push(WrittenHole { id, file: number, offset, len: stored_len });
                }
                _ => {}
            }
        }
    }
    Ok(written)
}
