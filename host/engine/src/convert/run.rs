//! Writes a conversion's payload, and what its layout itself holds, to a sink.

use super::lay_out::LaidOut;
use crate::contract::{ContractReport, Finding, Quality};
use crate::engine::Engine;
use crate::place::Backing;
use crate::tiles::commit::Commits;
use crate::tiles::commit::commit_places::Committed;
use crate::tiles::inline::write_inline;
use crate::tiles::job::{Job, Spooled};
use crate::tiles::losses::{Losses, Quantized};
use crate::tiles::pipeline;
use crate::tiles::resume::{take_up, taken_over};
use crate::tiles::tile_sums::TileSums;
use crate::tiles::{TileRecord, TileSink, Watch, spooling};
use apr_sdk::{Error, Result};
use std::sync::Arc;

/// The result of writing to a sink.
pub struct WrittenPayload {
    /// The checksums of the tiles.
    pub sums: TileSums,
    /// The places that were settled during writing.
    pub committed: Committed,
    /// The findings about the values that were written.
    pub looked: ContractReport,
    /// The losses of quantized tensors.
    pub quantized: Option<Quantized>,
    /// Findings about excessive losses.
    pub lost: Vec<Finding>,
}

/// One output to write.
pub struct OutputWork<'w, 'e> {
    /// The complete plan.
    pub laid_out: &'w LaidOut<'e>,
    /// The policy for findings.
    pub quality: Quality,
    /// Destination of the output.
    pub sink: &'w dyn TileSink,
    /// The records of an earlier run that wrote these files: a tile is trusted if its bytes still have the
    /// recorded checksum.
    pub earlier: Option<&'w [(u64, TileRecord)]>,
}

/// Writes what the layout itself holds, then the payload.
///
/// # Errors
/// Any error from reading, quantizers and the sink; Failed for a finding that is an error; Cancelled.
pub fn write(engine: &Engine, work: OutputWork<'_, '_>) -> Result<WrittenPayload> {
    let written = write_all(engine, vec![work]).pop();
    written.unwrap_or_else(|| Err(Error::plugin("an output was not finished")))
}

/// Like [`write()`], for several outputs of one source, which is read once. Returns the result of each; one
/// that fails does not affect the others.
pub fn write_all(engine: &Engine, works: Vec<OutputWork<'_, '_>>) -> Vec<Result<WrittenPayload>> {
    let begun: Vec<_> = works.into_iter().map(|work| Begun::new(engine, work)).collect();
    let jobs: Vec<_> = begun.iter().flatten().map(Begun::job).collect();
    let mut ran = pipeline::run_all(engine, &jobs).into_iter();
    drop(jobs);
    let ended = begun.into_iter().map(|begun| {
        let begun = begun?;
        ran.next().unwrap_or(Ok(()))?;
        begun.end()
    });
    ended.collect()
}

/// An output whose header is written.
struct Begun<'w, 'e> {
    laid_out: &'w LaidOut<'e>,
    quality: Quality,
    sink: &'w dyn TileSink,
    sums: TileSums,
    watch: Watch<'w>,
    losses: Losses,
    commits: Commits<'w>,
    /// The scratch file, for reading, and its name; deleted when this is dropped.
    spool: Option<(Arc<dyn Backing>, String)>,
    _scratch: Option<Box<dyn TileSink>>,
    /// The number of tiles of quantized tensors that an earlier run wrote.
    unmeasured: usize,
}

impl<'w, 'e> Begun<'w, 'e> {
    /// Writes what is known before the payload, and what is spooled for it.
    fn new(engine: &Engine, work: OutputWork<'w, 'e>) -> Result<Begun<'w, 'e>> {
        let OutputWork { laid_out, quality, sink, earlier } = work;
        let LaidOut { source, model, writer, layout, tiles, spools, specs, .. } = laid_out;
        let sums = TileSums::new(tiles);
        let watch = Watch::new(model, specs, quality);
        let mut unmeasured = 0;
        if let Some(records) = earlier {
            take_up(records, tiles, &watch, sink, &sums)?;
            taken_over(source, tiles, &sums);
            let quantized = tiles.runs.iter().filter(|run| run.expression.is_quantized());
            let numbers = quantized.flat_map(|run| run.first..run.first + run.n_tiles());
            unmeasured = numbers.filter(|&number| sums.get(number).is_some()).count();
        }
        write_inline(layout, sink, earlier.is_some())?;
        let commits = Commits::new(engine, layout, writer, model, tiles.count)?;
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
            tiles: &self.laid_out.tiles,
            sink: self.sink,
            sums: &self.sums,
            commits: Some(&self.commits),
            watch: Some(&self.watch),
            losses: Some(&self.losses),
            spool: self.spool.as_ref().map(|(bytes, shown)| Spooled { bytes: bytes.as_ref(), shown }),
            allow_nonfinite: self.quality.passes_nonfinite(),
        }
    }

    /// The result, once all tiles are written.
    fn end(self) -> Result<WrittenPayload> {
        let LaidOut { model, tiles, specs, .. } = self.laid_out;
        let lost = self.losses.judge(model, specs, self.quality)?;
        let looked = self.watch.finish();
        let mut quantized = self.losses.finish(model, tiles)?;
        if self.unmeasured > 0 {
            quantized.get_or_insert_default().unmeasured_tiles = self.unmeasured;
        }
        let committed = self.commits.finish()?;
        Ok(WrittenPayload { sums: self.sums, committed, looked, quantized, lost })
    }
}
