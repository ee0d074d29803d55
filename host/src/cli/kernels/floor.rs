//! How fast memory can be read: what bounds the decoding of a single text.

use apr_engine::crew::Crew;
use apr_host::host::Host;
use apr_host::threads::Team;
use apr_sdk::{Error, Result, Workers};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read. 256 MiB: more than caches hold.
pub const BYTES: usize = 256 << 20;
/// Elements that are added up side by side.
const LANES: usize = 32;

/// A buffer that workers read.
pub struct Floor {
    words: Vec<u64>,
}

impl Floor {
    /// A buffer of [`BYTES`], each page of which is its own.
    ///
    /// # Errors
    /// Io if there is no memory for it.
    pub fn new() -> Result<Floor> {
        let count = BYTES / 8;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| Error::io("there is no memory to measure its speed"))?;
        words.resize(count, 0x0123_4567_89ab_cdef);
        Ok(Floor { words })
    }

    /// Reads all of it once with all workers, each an equal part, and says how long that took.
    ///
    /// # Errors
    /// Cancelled.
    pub fn pass(&self, workers: &dyn Workers) -> Result<Duration> {
        let part = self.words.len().div_ceil(workers.width().max(1)).next_multiple_of(LANES);
        let began = Instant::now();
        workers.run(&|worker, _| {
            if let Some(words) = self.words.chunks(part).nth(worker) {
                black_box(sum(words));
            }
            Ok(())
        })?;
        Ok(began.elapsed())
    }
}

/// The sum of all words: several at once, so that nothing but memory is waited for.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; LANES];
    let chunks = words.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(0u64, |all, word| all.wrapping_add(*word));
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(rest, |all, sum| all.wrapping_add(*sum))
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
