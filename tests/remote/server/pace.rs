//! How slow a server is: what each request waits for, and how many bytes a second there are.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The delays and rates of a server. The default has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// What passes between a connection and its first answer, once: the round trip of connecting.
    pub connecting: Duration,
    /// What passes between each request and its answer.
    pub answering: Duration,
    /// Bytes of bodies a second over each connection.
    pub per_connection: Option<u64>,
    /// Bytes of bodies a second over all connections.
    pub total: Option<u64>,
}

impl Pace {
    /// The same delay before each answer, and for connecting.
    pub fn round_trip(delay: Duration) -> Self {
        Self { connecting: delay, answering: delay, ..Self::default() }
    }
}

/// Says when bytes may go, so that on the whole they keep to a rate.
pub(super) struct Rate {
    per_second: u64,
    /// When everything that was let go so far has gone.
    free_at: Mutex<Instant>,
}

impl Rate {
    pub(super) fn new(per_second: u64) -> Self {
        Self { per_second: per_second.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// How much to write at a time, so that the rate is even: what a hundredth of a second has room for.
    pub(super) fn piece(&self) -> usize {
        usize::try_from(self.per_second / 100).unwrap_or(usize::MAX).max(1)
    }

    /// Books so many bytes, and says when they have gone.
    pub(super) fn book(&self, len: usize) -> Instant {
        let takes = Duration::from_secs_f64(len as f64 / self.per_second as f64);
        let mut free_at = self.free_at.lock().expect("nobody panics while it is held");
        // An idle time is not saved up.
        *free_at = (*free_at).max(Instant::now()) + takes;
        *free_at
    }
}
