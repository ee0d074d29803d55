//! What every operation works with: the plugins, the threads, and the way to stop.

use crate::architecture::Tables;
use crate::progress::{Progress, Silent};
use crate::publish::steps::{Steps, Unwatched};
use crate::registry::Registry;
use crate::threads::Threads;
use apr_sdk::{Error, LogLevel, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The context of an operation.
pub struct Host {
    /// The plugins that are present.
    pub registry: Registry,
    /// How many threads payload may use; results never depend on it.
    pub threads: usize,
    /// Set when the user wants the work to stop.
    pub cancel: Arc<AtomicBool>,
    /// Where progress goes.
    pub progress: Arc<dyn Progress>,
    /// Jobs that write at least so many bytes keep a journal for `--resume` from the start.
    pub journal_bytes: u64,
    /// How often finished tiles are recorded in it, and how long a smaller job lasts before it begins one.
    pub journal_interval: Duration,
    /// Hears of every change that publishing makes to names on disk, before it is made.
    pub steps: Arc<dyn Steps>,
    /// How many outputs are being written: while there is one, the process must not end without cleaning up.
    pub outputs: Arc<AtomicUsize>,
    tables: OnceLock<Tables>,
}

impl Host {
    /// A host with these plugins, all the machine's threads, and no progress.
    pub fn new(registry: Registry) -> Host {
        crate::files::allow_many_files();
        Host {
            registry,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cancel: Arc::default(),
            progress: Arc::new(Silent),
            journal_bytes: 256_000_000,
            journal_interval: Duration::from_secs(5),
            steps: Arc::new(Unwatched),
            outputs: Arc::default(),
            tables: OnceLock::new(),
        }
    }

    /// The tables of architectures that are present: each is parsed once, when it is first asked for.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| Tables::of(&self.registry))
    }

    /// The threads that loops run on.
    pub fn crew(&self) -> Threads {
        Threads::new(self.threads)
    }

    /// Tells of panics of plugins that no call could report: those in probes and drops.
    fn tell_faults(&self) {
        for fault in self.registry.faults() {
            self.progress.log(LogLevel::Warning, &fault.to_string());
        }
    }

    /// Whether the user wants the work to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Fails once the user wants the work to stop.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled("stopped")) } else { Ok(()) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tell_faults();
    }
}
