//! The checksums of an output's tiles, once they are written.

use super::sink::TileRecord;
use super::tile::Tiles;
use crate::values::cast::Changes;
use crc32fast::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// For every tile, the CRC-32 of its bytes when they were computed, and of the source's bytes.
pub struct TileSums(Vec<TileSum>);

struct TileSum {
    /// The source's checksum in the upper half, the output's in the lower.
    sums: AtomicU64,
    /// Bytes of the tile that are still missing.
    missing: AtomicU32,
    /// The counts of [`Changes`] that a cast made to its values.
    changes: [AtomicU32; 4],
}

impl TileSums {
    /// No tile is finished yet.
    pub fn new(tiles: &Tiles) -> TileSums {
        let lens = (0..tiles.count).map(|tile| u32::try_from(tiles.tile(tile).len).unwrap_or(u32::MAX));
        TileSums(lens.map(|missing| TileSum::new(AtomicU32::new(missing))).collect())
    }

    /// Records a finished tile: the CRC-32 of its bytes and of the source's, and the changes from a cast.
    pub fn set(&self, tile: usize, [out, source]: [u32; 2], changes: Changes) {
        self.0[tile].sums.store(pack(out, source), Ordering::Relaxed);
        let known = self.0[tile].changes.iter().zip(small(changes));
        known.for_each(|(known, now)| known.store(now, Ordering::Relaxed));
        self.0[tile].missing.store(0, Ordering::Release);
    }

    /// Records bytes of a tile that is computed in pieces, in any order, each byte once, along with the
    /// number of bytes of the tile after them; and the same for the source's bytes where they differ. Does
    /// nothing for a finished tile. Returns whether these were the last missing bytes.
    pub fn add(
        &self,
        tile: usize,
        out: (&[u8], u64),
        source: Option<(&[u8], u64)>,
        changes: Changes,
    ) -> bool {
        let TileSum { sums, missing, changes: known } = &self.0[tile];
        if missing.load(Ordering::Acquire) == 0 {
            return false;
        }
        // The checksum of the whole is the exclusive or of the pieces' checksums, each shifted past the bytes
        // after it.
        let sum = moved(out.0, out.1);
        let source = source.map_or(sum, |(bytes, behind)| moved(bytes, behind));
        sums.fetch_xor(pack(sum, source), Ordering::Relaxed);
        for (known, now) in known.iter().zip(small(changes)).filter(|(_, now)| *now > 0) {
            known.fetch_add(now, Ordering::Relaxed);
        }
        let len = u32::try_from(out.0.len()).unwrap_or(0);
        missing.fetch_sub(len, Ordering::AcqRel) == len
    }

    /// The changes that a cast made to a finished tile's values.
    pub fn changes(&self, tile: usize) -> Changes {
        let [rounded, overflowed, nonfinite, not_undone] =
            [0, 1, 2, 3].map(|n| u64::from(self.0[tile].changes[n].load(Ordering::Relaxed)));
        Changes { rounded, overflowed, nonfinite, not_undone }
    }

    /// The CRC-32 of the written bytes and of the source's, if the tile is finished.
    pub fn get(&self, tile: usize) -> Option<(u32, u32)> {
        let TileSum { sums, missing, .. } = &self.0[tile];
        let packed = (missing.load(Ordering::Acquire) == 0).then(|| sums.load(Ordering::Relaxed))?;
        let [a, b, c, d, e, f, g, h] = packed.to_le_bytes();
        Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
    }
}

impl TileSums {
    /// The record of a finished tile for a later run: the CRC-32 of the written bytes and of the source's,
    /// and how many values a cast rounded, made infinite, found infinite or NaN, and could not undo; each a
    /// little-endian u32.
    pub fn record(&self, tile: usize) -> Option<TileRecord> {
        let (out, source) = self.get(tile)?;
        let [a, b, c, d] = small(self.changes(tile));
        Some([out, source, a, b, c, d].iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Restores the record from an earlier run if `crc32`, of the bytes present, matches it; returns whether
    /// it does.
    pub fn take_up(&self, tile: usize, record: &[u8], crc32: u32) -> bool {
        let (words, []) = record.as_chunks::<4>() else { return false };
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let [out, source, a, b, c, d] = words[..] else { return false };
        let [rounded, overflowed, nonfinite, not_undone] = [a, b, c, d].map(u64::from);
        let changes = Changes { rounded, overflowed, nonfinite, not_undone };
        if out == crc32 {
            self.set(tile, [out, source], changes);
        }
        out == crc32
    }
}

impl TileSum {
    fn new(missing: AtomicU32) -> TileSum {
        TileSum { sums: AtomicU64::new(0), missing, changes: Default::default() }
    }
}

/// The counts as u32: a tile has fewer than 2^32 values.
fn small(changes: Changes) -> [u32; 4] {
    let Changes { rounded, overflowed, nonfinite, not_undone } = changes;
    [rounded, overflowed, nonfinite, not_undone].map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

fn moved(bytes: &[u8], behind: u64) -> u32 {
    let mut moved = Hasher::new_with_initial(crc32fast::hash(bytes));
    moved.combine(&Hasher::new_with_initial_len(0, behind));
    moved.finalize()
}

fn pack(out: u32, source: u32) -> u64 {
    u64::from(source) << 32 | u64::from(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]

    use super::*;

    #[test]
    fn pieces_in_any_order_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7 % 256) as u8).collect();
        let sums = TileSums(vec![TileSum::new(AtomicU32::new(1000))]);
        for (from, to) in [(500, 501), (0, 300), (501, 1000), (300, 500)] {
            assert_eq!(sums.get(0), None);
            sums.add(
                0,
                (&bytes[from..to], (1000 - to) as u64),
                None,
                Changes { rounded: 1, ..Changes::default() },
            );
        }
        let whole = crc32fast::hash(&bytes);
        assert_eq!(sums.get(0), Some((whole, whole)));
        sums.add(0, (&bytes[..300], 700), None, Changes { rounded: 1, ..Changes::default() });
        assert_eq!(sums.get(0), Some((whole, whole)));
        assert_eq!(sums.changes(0), Changes { rounded: 4, ..Changes::default() });
    }
}
