//! The engine on this machine: its plugins, its threads, its files.

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

/// The context of an operation on this machine. It is an [`Engine`], with what storage needs besides.
pub struct Host {
    engine: Engine,
    /// The machine's threads; the engine's crew is made of them.
    threads: Threads,
    /// Jobs that write at least so many bytes keep a journal for `--resume` from the start.
    pub journal_bytes: u64,
    /// How often finished tiles are recorded in it, and how long a smaller job lasts before it begins one.
    pub journal_interval: Duration,
    /// Hears of every change that publishing makes to names on disk, before it is made.
    pub steps: Arc<dyn Steps>,
    /// How many outputs are being written: while there is one, the process must not end without cleaning up.
    pub outputs: Arc<AtomicUsize>,
}

impl Host {
    /// A host with these plugins, all the machine's threads, and no progress.
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

    /// Lets so many threads work on payload; results never depend on it.
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
