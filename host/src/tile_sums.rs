//! What is known of the tiles of an output: their checksums, once they are written.

use crate::tile::Tiles;
use crc32fast::Hasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is known of every tile: the CRC-32 of its bytes when they left their op, and of the source's bytes.
pub struct TileSums(Vec<TileSum>);

struct TileSum {
    /// The source's checksum above the output's.
    sums: AtomicU64,
    /// How many bytes of the tile are still missing.
    missing: AtomicU32,
}

impl TileSums {
    /// Nothing known of any tile.
    pub fn new(tiles: &Tiles) -> TileSums {
        let missing = |tile| AtomicU32::new(u32::try_from(tiles.tile(tile).len).unwrap_or(u32::MAX));
        let tile = |tile| TileSum { sums: AtomicU64::new(0), missing: missing(tile) };
        TileSums((0..tiles.count).map(tile).collect())
    }

    /// Notes a finished tile.
    pub fn set(&self, tile: usize, out: u32, source: u32) {
        self.0[tile].sums.store(pack(out, source), Ordering::Relaxed);
        self.0[tile].missing.store(0, Ordering::Release);
    }

    /// Notes bytes of a tile that is made piece by piece, in any order, each byte once; `behind` is how many bytes of the
    /// tile follow them. What a finished tile is told again changes nothing.
    pub fn add(&self, tile: usize, bytes: &[u8], behind: u64) {
        let TileSum { sums, missing } = &self.0[tile];
        if missing.load(Ordering::Acquire) == 0 {
            return;
        }
        // The checksum of a whole is the exclusive or of its pieces' checksums, each moved past the bytes behind it.
        let mut moved = Hasher::new_with_initial(crc32fast::hash(bytes));
        moved.combine(&Hasher::new_with_initial_len(0, behind));
        let sum = moved.finalize();
        sums.fetch_xor(pack(sum, sum), Ordering::Relaxed);
        missing.fetch_sub(u32::try_from(bytes.len()).unwrap_or(0), Ordering::AcqRel);
    }

    /// CRC-32 of the written bytes and of the source's bytes, if the tile is finished.
    pub fn get(&self, tile: usize) -> Option<(u32, u32)> {
        let TileSum { sums, missing } = &self.0[tile];
        let packed = (missing.load(Ordering::Acquire) == 0).then(|| sums.load(Ordering::Relaxed))?;
        let [a, b, c, d, e, f, g, h] = packed.to_le_bytes();
        Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
    }
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
        let sums = TileSums(vec![TileSum { sums: AtomicU64::new(0), missing: AtomicU32::new(1000) }]);
        for (from, to) in [(500, 501), (0, 300), (501, 1000), (300, 500)] {
            assert_eq!(sums.get(0), None);
            sums.add(0, &bytes[from..to], (1000 - to) as u64);
        }
        let whole = crc32fast::hash(&bytes);
        assert_eq!(sums.get(0), Some((whole, whole)));
        sums.add(0, &bytes[..300], 700);
        assert_eq!(sums.get(0), Some((whole, whole)));
    }
}
