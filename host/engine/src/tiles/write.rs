//! The payload of a conversion, and what its layout itself holds, into a sink.

use super::commit::Commits;
use super::commit::committed::Committed;
use super::losses::{Losses, Quantized};
use super::pipeline::{self, Job, Spooled};
use super::sink::{TileRecord, TileSink};
use super::spooling;
use super::tile::Tiles;
use super::tile_sums::TileSums;
use super::watch::Watch;
use crate::contract::{ContractReport, Finding, Quality};
use crate::engine::Engine;
use crate::expression::Expression;
use crate::layout::LaidOut;
use crate::layout::{Layout, Segment};
use crate::open::seen::SeenRange;
use crate::open::{Backing, OpenedModel};
use apr_sdk::{Error, Result};
use std::sync::Arc;

/// What was carried into a sink, and what was seen of it.
pub struct WrittenPayload {
    /// The tiles.
    pub tiles: Tiles,
    /// Their checksums.
    pub sums: TileSums,
    /// What got its place as it was written.
    pub committed: Committed,
    /// What was found in the values on their way.
    pub looked: ContractReport,
    /// How far quantized tensors are from what they were.
    pub quantized: Option<Quantized>,
    /// What quantization lost, where that is a finding.
    pub lost: Vec<Finding>,
}

/// One output that is to be written.
pub struct OutputWork<'w, 'e> {
    /// What it is.
    pub laid_out: &'w LaidOut<'e>,
    /// What its tensors are made of, one for each.
    pub expressions: Vec<Expression>,
    /// What is done with findings.
    pub quality: Quality,
    /// Where it goes.
    pub sink: &'w dyn TileSink,
    /// The records of an earlier run whose files these are: tiles are believed if their bytes still have the recorded
    /// checksum.
    pub earlier: Option<&'w [(u64, TileRecord)]>,
}

/// Writes what the layout itself holds, then the payload that `expressions` make.
///
/// # Errors
/// What reading, quantizers and the sink raise; Failed for a finding that stops the work; Cancelled.
pub fn write(engine: &Engine, work: OutputWork<'_, '_>) -> Result<WrittenPayload> {
    let missing = || Err(Error::plugin("an output has no end"));
    write_all(engine, vec![work]).pop().unwrap_or_else(missing)
}

/// The same of several outputs that are made of one source, which is read once. How each of them ended: one that fails
/// leaves the others alone.
pub fn write_all(engine: &Engine, works: Vec<OutputWork<'_, '_>>) -> Vec<Result<WrittenPayload>> {
    let begun: Vec<_> = works.into_iter().map(|work| Begun::new(engine, work)).collect();
    let jobs: Vec<_> = begun.iter().flatten().map(Begun::job).collect();
    let mut ran = pipeline::run_all(engine, &jobs).into_iter();
    drop(jobs);
    let ended = |begun: Result<Begun<'_, '_>>| {
        let begun = begun?;
        ran.next().unwrap_or(Ok(()))?;
        begun.end()
    };
    begun.into_iter().map(ended).collect()
}

/// An output whose header is written.
struct Begun<'w, 'e> {
    laid_out: &'w LaidOut<'e>,
    quality: Quality,
    sink: &'w dyn TileSink,
    tiles: Tiles,
    sums: TileSums,
    watch: Watch<'w>,
    losses: Losses,
    commits: Commits<'w>,
    /// The scratch file, to read from, and its name; it goes when this is dropped.
    spool: Option<(Arc<dyn Backing>, String)>,
    _scratch: Option<Box<dyn TileSink>>,
    /// Tiles of quantized tensors that an earlier run wrote.
    unmeasured: usize,
}

impl<'w, 'e> Begun<'w, 'e> {
    /// Writes what is known before the payload, and what is spooled for it.
    fn new(engine: &Engine, work: OutputWork<'w, 'e>) -> Result<Begun<'w, 'e>> {
        let OutputWork { laid_out, expressions, quality, sink, earlier } = work;
        let LaidOut { source, model, layout, spools, specs, .. } = laid_out;
        let tiles = Tiles::new(layout, model, expressions)?;
        let sums = TileSums::new(&tiles);
        let watch = Watch::new(model, specs, quality);
        let mut unmeasured = 0;
        if let Some(records) = earlier {
            take_up(records, (&tiles, &watch), sink, &sums)?;
            taken_over(source, &tiles, &sums);
            let quantized = tiles.runs.iter().filter(|run| run.expression.is_quantized());
            let numbers = quantized.flat_map(|run| run.first..run.first + run.n_tiles());
            unmeasured = numbers.filter(|&number| sums.get(number).is_some()).count();
        }
        write_inline(layout, sink, earlier.is_some())?;
        let commits = Commits::new(engine, laid_out, tiles.count)?;
        commits.begin(sink, earlier)?;
        sink.laid_out()?;
        let scratch = spooling::fill(engine, spools, source, sink)?;
        let spool =
            scratch.as_ref().map(|scratch| Ok((scratch.read_back(0)?, scratch.show(0)))).transpose()?;
        let losses = Losses::new(model);
        Ok(Begun {
            laid_out,
            quality,
            sink,
            tiles,
            sums,
            watch,
            losses,
            commits,
            spool,
            _scratch: scratch,
            unmeasured,
        })
    }

    fn job(&self) -> Job<'_> {
        Job {
            source: &self.laid_out.source,
            model: &self.laid_out.model,
            tiles: &self.tiles,
            sink: self.sink,
            sums: &self.sums,
            commits: Some(&self.commits),
            watch: Some(&self.watch),
            losses: Some(&self.losses),
            spool: self.spool.as_ref().map(|(bytes, shown)| Spooled { bytes: bytes.as_ref(), shown }),
            allow_nonfinite: self.quality.passes_nonfinite(),
        }
    }

    /// What is known of it once all tiles are there.
    fn end(self) -> Result<WrittenPayload> {
        let LaidOut { model, specs, .. } = self.laid_out;
        let lost = self.losses.judge(model, specs, self.quality)?;
        let looked = self.watch.finish();
        let mut quantized = self.losses.finish(model, &self.tiles)?;
        if self.unmeasured > 0 {
            quantized.get_or_insert_default().unmeasured_tiles = self.unmeasured;
        }
        let committed = self.commits.finish()?;
        Ok(WrittenPayload { tiles: self.tiles, sums: self.sums, committed, looked, quantized, lost })
    }
}

/// Believes records of an earlier run only if the bytes there still have their checksums.
fn take_up(
    records: &[(u64, TileRecord)],
    (tiles, watch): (&Tiles, &Watch<'_>),
    sink: &dyn TileSink,
    sums: &TileSums,
) -> Result<()> {
    for (number, record) in records {
        let Some(number) = usize::try_from(*number).ok().filter(|&n| n < tiles.count) else { continue };
        // One that is recorded twice was looked at already.
        if sums.get(number).is_some() {
            continue;
        }
        let tile = tiles.tile(number);
        let run = &tiles.runs[tile.run];
        // What is committed in order is recorded by its units.
        if run.in_order.is_some() {
            continue;
        }
        let mut bytes = vec![0; usize::try_from(tile.len).unwrap_or(0)];
        let there = sink.read_back(run.file)?.read_at(run.offset + tile.at, &mut bytes);
        if there.is_ok() && sums.take_up(number, record, crc32fast::hash(&bytes)) {
            watch.see(tiles, tile.run, tile.at, &bytes)?;
        }
    }
    Ok(())
}

/// Notes what an earlier run read for the tiles that were taken over from it.
fn taken_over(source: &OpenedModel, tiles: &Tiles, sums: &TileSums) {
    let Some(seen) = source.files.seen() else { return };
    for number in 0..tiles.count {
        let (Some((_, crc32)), tile) = (sums.get(number), tiles.tile(number)) else { continue };
        if let Some((place, offset, len)) = tiles.runs[tile.run].read_from(tile.at, tile.len) {
            seen.note(place, offset, SeenRange { len, crc32 });
        }
    }
}

/// The bytes that the layout itself has.
///
/// # Errors
/// Io.
pub fn write_inline(layout: &Layout, sink: &dyn TileSink, resuming: bool) -> Result<()> {
    for (number, file) in layout.files.iter().enumerate() {
        // What follows an encoded payload is written when its place is known.
        let known = file.floats_from.unwrap_or(file.segments.len());
        for placed in &file.segments[..known] {
            match &placed.segment {
                Segment::Inline(bytes) => sink.write_at(number, placed.offset, bytes)?,
                // A fresh file is zeros already; what a stopped run left may not be.
                Segment::Pad { .. } if resuming => write_zeros(sink, number, placed.offset, placed.len)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Writes zeros.
///
/// # Errors
/// Any error from the sink.
pub fn write_zeros(sink: &dyn TileSink, file: usize, offset: u64, len: u64) -> Result<()> {
    let zeros = [0; 4096];
    let mut at = 0;
    while at < len {
        let n = usize::try_from((len - at).min(4096)).unwrap_or(0);
        sink.write_at(file, offset + at, &zeros[..n])?;
        at += n as u64;
    }
    Ok(())
}
