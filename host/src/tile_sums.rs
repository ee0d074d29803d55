//! What is known of the tiles of an output: their checksums, once they are written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of every tile: the CRC-32 of its bytes when they left their op, and of the source's bytes.
pub struct TileSums(Vec<AtomicU64>, Vec<AtomicBool>);

impl TileSums {
    /// Nothing known of `count` tiles.
    pub fn new(count: usize) -> TileSums {
        TileSums(
            (0..count).map(|_| AtomicU64::new(0)).collect(),
            (0..count).map(|_| AtomicBool::new(false)).collect(),
        )
    }

    /// Notes a finished tile.
    pub fn set(&self, tile: usize, out: u32, source: u32) {
        self.0[tile].store(u64::from(source) << 32 | u64::from(out), Ordering::Relaxed);
        self.1[tile].store(true, Ordering::Release);
    }

    /// CRC-32 of the written bytes and of the source's bytes, if the tile is finished.
    pub fn get(&self, tile: usize) -> Option<(u32, u32)> {
        let packed = self.1[tile].load(Ordering::Acquire).then(|| self.0[tile].load(Ordering::Relaxed))?;
        let [a, b, c, d, e, f, g, h] = packed.to_le_bytes();
        Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
    }
}
