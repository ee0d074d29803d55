//! The context of every operation: plugins, workers, paths, cancellation.

use crate::architecture::{Tables, draft_warning};
use crate::crew::{Alone, Crew};
use crate::place::Places;
use crate::progress::{Progress, Silent};
use crate::registry::Registry;
use apr_sdk::{Error, LogLevel, Result};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The context of an operation.
pub struct Engine {
    /// The available plugins.
    pub registry: Registry,
    /// Runs loops; results never depend on it.
    pub crew: Arc<dyn Crew>,
    /// Resolves the paths that the user gives.
    pub places: Arc<dyn Places>,
    /// Set when the user wants to stop.
    pub cancel: Arc<AtomicBool>,
    /// Receives progress and messages.
    pub progress: Arc<dyn Progress>,
    tables: OnceLock<Tables>,
    /// Warnings already given to the user.
    told: Mutex<BTreeSet<String>>,
}

impl Engine {
    /// An engine that runs loops on the calling thread and reports no progress.
    pub fn new(registry: Registry, places: Arc<dyn Places>) -> Engine {
        Engine {
            registry,
            crew: Arc::new(Alone),
            places,
            cancel: Arc::default(),
            progress: Arc::new(Silent),
            tables: OnceLock::new(),
            told: Mutex::default(),
        }
    }

    /// The available architecture tables, each parsed on first use.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| Tables::of(&self.registry))
    }

    /// Warns once that the table of an architecture, which is used, is still a draft.
    pub(crate) fn tell_of_draft(&self, id: &str) {
        let path = self.registry.table_provider(id).and_then(|plugin| plugin.path.as_deref());
        self.warn_once(&draft_warning(id, path));
    }

    /// Warns of something that makes the result doubtful, unless the user was told already.
    pub(crate) fn warn_once(&self, message: &str) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(message.to_owned()) {
            self.progress.warn(message);
        }
    }

    /// Reports the plugins' panics that no call could report: those in probes and drops.
    fn tell_faults(&self) {
        for fault in self.registry.faults() {
            self.progress.log(LogLevel::Warning, &fault.to_string());
        }
    }

    /// Returns whether the user wants to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Fails once the user wants to stop.
    ///
    /// # Errors
    /// Cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled("stopped")) } else { Ok(()) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.tell_faults();
    }
}
