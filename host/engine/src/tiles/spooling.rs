//! Fills the scratch file: payload that cannot be read the way a region needs it is written there first.

use super::job::{Job, Spooled};
use super::pipeline;
use super::sink::TileSink;
use super::tile::{Spot, Tiles};
use super::tile_sums::TileSums;
use crate::engine::Engine;
use crate::expression::Spools;
use crate::open::OpenedModel;
use apr_sdk::Result;

/// Writes the payload that is spooled, if there is any.
///
/// # Errors
/// Any error from reading and writing; Cancelled.
pub fn fill(
    engine: &Engine,
    spools: &Spools,
    source: &OpenedModel,
    sink: &dyn TileSink,
) -> Result<Option<Box<dyn TileSink>>> {
    if spools.len == 0 {
        return Ok(None);
    }
    let scratch = sink.scratch(spools.len)?;
    let bytes = scratch.read_back(0)?;
    let shown = scratch.show(0);
    // A spool may be computed from another: that one comes first, and is complete by then.
    for run in spools.all().chunk_by(|_, (next, _)| !next.is_spooled()) {
        let mut tiles = Tiles::of_threads(engine.crew.width());
        for (expression, offset) in run {
            let mut offset = *offset;
            for part in expression.clone().into_parts() {
                let spot = Spot { file: 0, segment: 0, offset, in_order: None };
                offset += tiles.push(part.source_tensor(), part, spot)?;
            }
        }
        tiles.seal();
        let job = Job {
            source,
            model: &source.model,
            tiles: &tiles,
            sink: scratch.as_ref(),
            sums: &TileSums::new(&tiles),
            commits: None,
            watch: None,
            losses: None,
            spool: Some(Spooled { bytes: bytes.as_ref(), shown: &shown }),
            allow_nonfinite: true,
        };
        pipeline::run(engine, job)?;
    }
    Ok(Some(scratch))
}
