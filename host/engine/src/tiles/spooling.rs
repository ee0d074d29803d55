//! Fills the spool: payload that cannot be read the way an op wants it is first written to scratch.

use super::pipeline::{self, Job};
use super::sink::TileSink;
use super::tile::Tiles;
use super::tile_sums::TileSums;
use crate::engine::Engine;
use crate::expression::spool::Spool;
use crate::open::OpenedModel;
use apr_sdk::Result;

/// Writes the spool, if there is anything to spool.
///
/// # Errors
/// What reading and writing raise; Cancelled.
pub fn fill(
    engine: &Engine,
    spool: &Spool,
    source: &OpenedModel,
    sink: &dyn TileSink,
) -> Result<Option<Box<dyn TileSink>>> {
    if spool.is_empty() {
        return Ok(None);
    }
    let scratch = sink.scratch(spool.len)?;
    let mut tiles = Tiles::default();
    for (tensor, offset, portion) in spool.works(&source.model.tensors)? {
        tiles.push(Some(tensor), portion, 0, offset);
    }
    tiles.seal();
    let job = Job {
        source,
        model: &source.model,
        tiles: &tiles,
        sink: scratch.as_ref(),
        sums: &TileSums::new(&tiles),
        watch: None,
        losses: None,
        spool: None,
        allow_nonfinite: true,
    };
    pipeline::run(engine, job)?;
    Ok(Some(scratch))
}
