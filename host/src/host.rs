//! The engine on this machine: plugins, threads, files.

use crate::storage::disk::Disk;
use crate::storage::open_file::allow_many_files;
use crate::storage::publish::steps::{Steps, Unwatched};
use crate::threads::Threads;
use apr_engine::Engine;
use apr_engine::registry::Registry;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The context of an operation on this machine: an [`Engine`], plus what storage needs.
pub struct Host {
    engine: Engine,
    /// The machine's threads, which form the engine's crew.
    threads: Threads,
    /// Jobs that write at least this many bytes keep a journal for `--resume` from the start.
    pub journal_bytes: u64,
    /// Interval at which finished tiles are recorded, and time that a smaller job runs before it starts a journal.
    pub journal_interval: Duration,
    /// Notified before publishing changes any name on disk.
    pub steps: Arc<dyn Steps>,
    /// The number of outputs being written: while there are any, the process must clean up before it ends.
    pub outputs: Arc<AtomicUsize>,
}

impl Host {
    /// A host with these plugins, all the machine's threads, and no progress reports.
    pub fn new(registry: Registry) -> Host {
        allow_many_files();
        let mut host = Host {
            engine: Engine::new(registry, Arc::new(Disk)),
            threads: Threads::new(1),
            journal_bytes: 256_000_000,
            journal_interval: Duration::from_secs(5),
            steps: Arc::new(Unwatched),
            outputs: Arc::default(),
        };
        host.set_threads(std::thread::available_parallelism().map_or(1, usize::from));
        host
    }

    /// Sets the number of threads that work on payload; results never depend on it.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = Threads::new(threads);
        self.engine.crew = Arc::new(self.threads);
    }

    /// The threads that loops run on.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}

impl Deref for Host {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}
