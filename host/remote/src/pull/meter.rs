//! Progress of downloads.

use crate::file::transfer::Transfer;
use apr_engine::progress::Progress;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Shows how far all downloads together are.
pub struct Meter<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    /// A meter for so many bytes.
    pub fn new(progress: &'a dyn Progress, total: u64) -> Meter<'a> {
        Meter { progress, done: AtomicU64::new(0), total }
    }

    /// Shows so many bytes more than are done.
    pub fn show(&self, more: u64, name: &str) {
        self.progress.bytes((self.done.load(Ordering::Relaxed) + more).min(self.total), self.total, name);
    }

    /// Counts bytes as done.
    pub fn add(&self, bytes: u64, name: &str) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.show(0, name);
    }

    /// Waits for a transfer while showing it.
    pub fn follow(&self, transfer: &Transfer, name: &str) {
        while let Some(done) = transfer.done() {
            self.show(done, name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
