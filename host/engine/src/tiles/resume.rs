//! Adopts the tiles of an earlier run whose records still hold.

use super::sink::{TileRecord, TileSink};
use super::tile::Tiles;
use super::tile_sums::TileSums;
use super::watch::Watch;
use crate::open::OpenedModel;
use crate::open::read_record::SeenRange;
use apr_sdk::Result;

/// Trusts records of an earlier run only if the bytes there still have the recorded checksums.
pub fn take_up(
    records: &[(u64, TileRecord)],
    tiles: &Tiles,
    watch: &Watch<'_>,
    sink: &dyn TileSink,
    sums: &TileSums,
) -> Result<()> {
    for (number, record) in records {
        let Some(number) = usize::try_from(*number).ok().filter(|&n| n < tiles.count) else { continue };
        // If it is recorded twice, it was checked already.
        if sums.get(number).is_some() {
            continue;
        }
        let tile = tiles.tile(number);
        let run = &tiles.runs[tile.run];
        // Runs that are committed in order are recorded by unit.
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

/// Records what an earlier run read for the tiles that are adopted from it.
pub fn taken_over(source: &OpenedModel, tiles: &Tiles, sums: &TileSums) {
    let Some(seen) = source.files.seen() else { return };
    for number in 0..tiles.count {
        let Some((_, crc32)) = sums.get(number) else { continue };
        let tile = tiles.tile(number);
        if let Some((place, offset, len)) = tiles.runs[tile.run].read_from(tile.at, tile.len) {
            seen.note(place, offset, SeenRange { len, crc32, is_payload: true });
        }
    }
}
