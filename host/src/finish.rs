//! The end of a conversion: what the layout itself holds, the writer's patches, and verify.

use crate::changed::{ChangedTensor, changed};
use crate::checksum::Summer;
use crate::contract::Looked;
use crate::host::Host;
use crate::layout::{Layout, Patch, PatchCollector, Scope, Segment};
use crate::loss::Quantized;
use crate::prepare::Prepared;
use crate::request::ConvertOptions;
use crate::second_read::FirstRead;
use crate::sink::{StagedFile, Staging};
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use crate::verify::{VerifyMode, verify};
use crate::witness::Witness;
use apr_sdk::{Error, Result, Written, WrittenFile, WrittenHole, WrittenInput, WrittenTensor};
use std::collections::HashMap;

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
    pub looked: Looked,
    /// How far quantized tensors are from what they were.
    pub quantized: Option<Quantized>,
}

/// Everything but payload: inline segments, holes, verify.
///
/// # Errors
/// What the writer and verify raise; Io; also if an input changed meanwhile.
pub fn finish(
    host: &Host,
    options: &ConvertOptions,
    prepared: &mut Prepared<'_>,
    staging: &mut Staging,
    tiles: &Tiles,
    sums: &TileSums,
) -> Result<WrittenOutput> {
    let (stored, inputs) = compare_inputs(host, options, prepared, tiles, sums)?;
    // Nobody asks any more what was read. Verify opens a model as large, and there may be a million tensors.
    prepared.source.model.tensors = Vec::new();
    let Prepared { source, model, output, layout, .. } = &*prepared;
    let first_read = FirstRead { host, source, tiles, sums, spool: &prepared.workings.spool };
    let mut holes: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut lengths: Vec<u64> = layout.files.iter().map(|f| f.len).collect();
    let mut patches = Vec::new();
    for scope in &layout.scopes {
        let summer = Summer { layout, tiles, sums, outputs: &staging.files, holes: &holes };
        let written = describe_written(prepared, &summer, scope, &inputs)?;
        let mut collector = PatchCollector::new(layout, scope);
        match &scope.format {
            None => prepared.writer.finish(&written, &mut collector)?,
            Some(part) => host.registry.format(part)?.writer()?.finish(&written, &mut collector)?,
        }
        patches.extend(collector.finish()?);
    }
    for patch in patches {
        match patch {
            Patch::Fill { id, bytes } => {
                fill_hole(layout, staging, id, &bytes)?;
                holes.insert(id, bytes);
            }
            Patch::Append { file, bytes } => {
                staging.files[file].write_at(lengths[file], &bytes)?;
                lengths[file] += bytes.len() as u64;
            }
            Patch::Crc32 { id, file, start, end, sum } => {
                let summer = Summer { layout, tiles, sums, outputs: &staging.files, holes: &holes };
                let bytes = sum.of_crc32(summer.range(file, start, end)?)?;
                fill_hole(layout, staging, id, &bytes)?;
                holes.insert(id, bytes);
            }
        }
    }
    host.check_cancelled()?;
    let summer = Summer { layout, tiles, sums, outputs: &staging.files, holes: &holes };
    let verdict = verify(host, output.format, model, source, &summer, layout.entry, options.verify)?;
    first_read.refuse_changed()?;
    let changed = changed(model, tiles, sums);
    let looked = Looked::default();
    Ok(WrittenOutput {
        lengths,
        proved: verdict.proved.into_iter().chain(stored).collect(),
        dropped: verdict.dropped,
        changed,
        looked,
        quantized: None,
    })
}

/// Compares the inputs with the checksums that they store; gives what was proved, in words, and the CRC-32 of each one's
/// payload, if the writer wants that.
fn compare_inputs(
    host: &Host,
    options: &ConvertOptions,
    prepared: &Prepared<'_>,
    tiles: &Tiles,
    sums: &TileSums,
) -> Result<(Option<String>, Vec<u32>)> {
    let Prepared { source, layout, .. } = prepared;
    let witness = Witness::new(host, source, prepared.selected.as_deref());
    let first_read = FirstRead { host, source, tiles, sums, spool: &prepared.workings.spool };
    let stored = match options.verify {
        VerifyMode::Off => None,
        // What changed meanwhile need not have been damaged before.
        _ => witness.compare().or_else(|error| first_read.refuse_changed().and(Err(error)))?,
    };
    let inputs = if layout.digests.is_empty() { Vec::new() } else { witness.inputs(&prepared.inputs)? };
    Ok((stored, inputs))
}

/// The bytes that the layout itself has.
///
/// # Errors
/// Io.
pub fn write_inline(layout: &Layout, files: &[StagedFile], resuming: bool) -> Result<()> {
    for (file, staged) in layout.files.iter().zip(files) {
        for placed in &file.segments {
            match &placed.segment {
                Segment::Inline(bytes) => staged.write_at(placed.offset, bytes)?,
                // A fresh file is zeros already; what a stopped run left may not be.
                Segment::Zeros if resuming => write_zeros(staged, placed.offset, placed.len)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn write_zeros(staged: &StagedFile, offset: u64, len: u64) -> Result<()> {
    let zeros = [0; 4096];
    let mut at = 0;
    while at < len {
        let n = usize::try_from((len - at).min(4096)).unwrap_or(0);
        staged.write_at(offset + at, &zeros[..n])?;
        at += n as u64;
    }
    Ok(())
}

fn fill_hole(layout: &Layout, staging: &Staging, id: u32, bytes: &[u8]) -> Result<()> {
    let (file, offset, _) = layout.hole(id).ok_or_else(|| Error::plugin(format!("there is no hole {id}")))?;
    staging.files[file].write_at(offset, bytes)
}

/// What one writer's files became, in its own numbers.
fn describe_written(
    prepared: &Prepared<'_>,
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
    let n_tensors = places.as_ref().map_or(prepared.model.tensors.len(), HashMap::len);
    let inputs = inputs.iter().map(|&crc32| layout.digested(|| Some(crc32)));
    let mut written = Written {
        files: files.clone().map(|f| WrittenFile { name: f.name.clone(), len: f.len }).collect(),
        tensors: vec![WrittenTensor::default(); n_tensors],
        inputs: inputs.map(|made| made.map(|digests| WrittenInput { digests })).collect::<Result<_>>()?,
        ..Written::default()
    };
    let holes: HashMap<u32, u32> = scope.holes.iter().map(|(&id, &number)| (number, id)).collect();
    for (number, file) in (0u32..).zip(files) {
        for placed in &file.segments {
            let (offset, len) = (placed.offset, placed.len);
            match placed.segment {
                Segment::Payload { tensor } => {
                    let own = places.as_ref().map_or(Some(tensor), |places| places.get(&tensor).copied());
                    if let Some(slot) = own.and_then(|own| written.tensors.get_mut(own)) {
                        let digests = layout.digested(|| summer.tensor(tensor))?;
                        let (stored_len, raw_len, blocks) = (len, len, Vec::new());
                        *slot = WrittenTensor { file: number, offset, stored_len, raw_len, digests, blocks };
                    }
                }
                Segment::Hole { id } => {
                    let id = holes.get(&id).copied().unwrap_or(id);
                    written.holes.push(WrittenHole { id, file: number, offset, len });
                }
                _ => {}
            }
        }
    }
    Ok(written)
}
