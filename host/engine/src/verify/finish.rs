//! The end of a conversion: stored checksums of the source, the writer's patches, and verify.

use crate::contract::ContractReport;
use crate::engine::Engine;
use crate::layout::LaidOut;
use crate::layout::{Layout, Patch, PatchCollector, Scope, Segment};
use crate::plan::request::ConvertOptions;
use crate::plan::request::VerifyMode;
use crate::tiles::losses::Quantized;
use crate::tiles::tile::Tiles;
use crate::tiles::tile_sums::TileSums;
use crate::tiles::{TileSink, WrittenPayload};
use crate::verify::changed::{self, ChangedTensor, changed, findings};
use crate::verify::input_checksums::Witness;
use crate::verify::output_checksums::Summer;
use crate::verify::second_read::FirstRead;
use crate::verify::verify;
use crate::wording::n_of;
use apr_sdk::{Error, Result, Written, WrittenFile, WrittenHole, WrittenInput, WrittenTensor};
use std::collections::HashMap;
use std::sync::Arc;

/// What came of it.
pub struct WrittenOutput {
    /// The files' lengths, in the layout's order.
    pub lengths: Vec<u64>,
    /// What verify proved.
    pub proved: Vec<String>,
    /// Metadata keys that the output does not have.
    pub dropped: Vec<String>,
    /// Tensors with values that could not be kept.
    pub changed: Vec<ChangedTensor>,
    /// What was found in the values on their way.
    pub looked: ContractReport,
    /// How far quantized tensors are from what they were.
    pub quantized: Option<Quantized>,
}

impl WrittenOutput {
    /// What the summary should say besides the plan's notes: values that could not be kept, keys that the output lacks.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = changed::notes(&self.changed);
        let unmeasured = self.quantized.as_ref().map_or(0, |quantized| quantized.unmeasured_tiles);
        if unmeasured > 0 {
            let tiles = n_of(unmeasured, "tile");
            notes.push(format!(
                "what quantization lost is of this run alone: {tiles} of earlier ones not measured"
            ));
        }
        if !self.dropped.is_empty() {
            notes.push(format!("metadata keys not in the output: {}", self.dropped.join(", ")));
        }
        notes
    }
}

/// What follows the payload: stored checksums of the source, holes, verify.
///
/// # Errors
/// Any error from the writer and verify; Io; also if an input changed meanwhile.
pub fn finish(
    engine: &Engine,
    options: &ConvertOptions,
    laid_out: &mut LaidOut<'_>,
    sink: &dyn TileSink,
    carried: WrittenPayload,
) -> Result<WrittenOutput> {
    let WrittenPayload { tiles, sums, committed, mut looked, quantized, lost } = carried;
    let (tiles, sums) = (&tiles, &sums);
    let (stored, inputs) = compare_inputs(engine, options, laid_out, tiles, sums)?;
    // Nobody asks any more what was read. Verify opens a model as large, and there may be a million tensors.
    if let Some(source) = Arc::get_mut(&mut laid_out.source) {
        source.model.tensors = Vec::new();
    }
    for (number, file) in committed.files.iter().enumerate() {
        if let Some(file) = file {
            laid_out.layout.settle(number, &file.places);
            sink.set_len(number, file.end())?;
        }
    }
    let LaidOut { source, model, output, layout, .. } = &*laid_out;
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
    let verdict = verify(engine, output.format, model, source, &summer, layout.entry, options.verify)?;
    first_read.refuse_changed()?;
    let changed = changed(model, tiles, sums);
    let passed = findings(&changed, (model, &laid_out.specs), &looked.findings, options.quality())?;
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
    })
}

/// Compares the inputs with the checksums that they store; gives what was proved, in words, and the CRC-32 of each one's
/// payload, if the writer wants that.
fn compare_inputs(
    engine: &Engine,
    options: &ConvertOptions,
    laid_out: &LaidOut<'_>,
    tiles: &Tiles,
    sums: &TileSums,
) -> Result<(Option<String>, Vec<u32>)> {
    let LaidOut { source, layout, .. } = laid_out;
    let witness = Witness::new(engine, source, laid_out.selected.as_deref());
    let first_read = FirstRead { engine, source, tiles, sums, spools: &laid_out.spools };
    let stored = match options.verify {
        VerifyMode::Off => None,
        // What changed meanwhile need not have been damaged before.
        _ => witness.compare().or_else(|error| first_read.refuse_changed().and(Err(error)))?,
    };
    let inputs = if layout.digests.is_empty() { Vec::new() } else { witness.inputs(&laid_out.inputs)? };
    Ok((stored, inputs))
}

fn fill_hole(layout: &Layout, sink: &dyn TileSink, id: u32, bytes: &[u8]) -> Result<()> {
    let (file, offset, _) = layout.hole(id).ok_or_else(|| Error::plugin(format!("there is no hole {id}")))?;
    sink.write_at(file, offset, bytes)
}

/// What one writer's files became, in its own numbers.
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
        inputs: inputs.map(|made| made.map(|digests| WrittenInput { digests })).collect::<Result<_>>()?,
        ..Written::default()
    };
    let holes: HashMap<u32, u32> = scope.holes.iter().map(|(&id, &number)| (number, id)).collect();
    for ((number, file), &in_layout) in (0u32..).zip(files).zip(&scope.files) {
        for (segment, placed) in file.segments.iter().enumerate() {
            let (offset, stored_len) = (placed.offset, placed.len);
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
