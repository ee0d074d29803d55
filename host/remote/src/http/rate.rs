//! A limit on the rate of all transfers together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets bytes pass at a rate.
#[derive(Debug)]
pub struct Rate {
    bytes_per_second: u64,
    /// When the bytes so far are due.
    due: Mutex<Instant>,
}

impl Rate {
    /// A limit of so many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second: bytes_per_second.max(1), due: Mutex::new(Instant::now()) }
    }

    /// Waits until so many further bytes are due.
    pub fn pass(&self, bytes: usize) {
        let now = Instant::now();
        let wait = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
            let took = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            *due = (*due).max(now) + took;
            due.saturating_duration_since(now)
        };
        std::thread::sleep(wait);
    }
}
