//! Speed at which memory can be read: what bounds the decoding of a single text.

use apr_engine::crew::Crew;
use apr_host::host::Host;
use apr_host::storage::mapping::Mapping;
use apr_host::threads::Team;
use apr_sdk::{Error, ImageMemory, ImageSink, Result, Workers};
use bytemuck::cast_slice;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read. 256 MiB: more than caches hold.
pub const BYTES: usize = 256 << 20;
/// Elements that are added up side by side.
const LANES: usize = 32;

/// Memory as weights are kept in: of large pages where the system has them.
pub struct Pages;

impl ImageSink for Pages {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let (regions, _) = Mapping::memory(bytes)?.regions(std::slice::from_ref(&(0..bytes)))?;
        let region = regions.into_iter().next();
        Ok(Box::new(region.ok_or_else(|| Error::io("not enough memory to measure its bandwidth"))?))
    }
}

/// A buffer that workers read.
pub struct Floor {
    memory: Box<dyn ImageMemory>,
}

impl Floor {
    /// A buffer of [`BYTES`], each page of which is its own.
    ///
    /// # Errors
    /// Io if there is no memory for it.
    pub fn new() -> Result<Floor> {
        let mut memory = Pages.memory(BYTES as u64)?;
        memory.bytes_mut()?.fill(0x5a);
        Ok(Floor { memory })
    }

    /// Reads all of it once with all workers, each an equal part, and says how long that took.
    ///
    /// # Errors
    /// Cancelled.
    pub fn pass(&self, workers: &dyn Workers) -> Result<Duration> {
        let words: &[u64] = cast_slice(self.memory.bytes());
        let part = words.len().div_ceil(workers.width().max(1)).next_multiple_of(LANES);
        let began = Instant::now();
        workers.run(&|worker, _| {
            if let Some(words) = words.chunks(part).nth(worker) {
                black_box(sum(words));
            }
            Ok(())
        })?;
        Ok(began.elapsed())
    }
}

/// The sum of all words: several at once, so that nothing but memory is waited for. Arrays of a fixed length make one
/// loop of it however little the compiler optimizes.
fn sum(words: &[u64]) -> u64 {
    let (chunks, rest) = words.as_chunks::<LANES>();
    let mut sums = [0u64; LANES];
    for chunk in chunks {
        let mut lane = 0;
        while lane < LANES {
            sums[lane] = sums[lane].wrapping_add(chunk[lane]);
            lane += 1;
        }
    }
    sums.iter().chain(rest).fold(0u64, |all, word| all.wrapping_add(*word))
}

/// Bytes per second that the host's threads read together: the best of five passes.
///
/// # Errors
/// As [`Floor::new`] and [`Floor::pass`].
pub fn read_floor(host: &Host) -> Result<f64> {
    let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
    let floor = Floor::new()?;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        best = best.min(floor.pass(&team)?);
    }
    Ok(rate(BYTES, best))
}

/// Bytes per second.
pub fn rate(bytes: usize, time: Duration) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let bytes = bytes as f64;
    bytes / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        let words: Vec<u64> = (0..1000).collect();
        assert_eq!(sum(&words), 999 * 500);
        assert_eq!(sum(&words[..33]), 32 * 33 / 2);
    }
}
