//! A session whose weights may lie in a mapped file: what it computes counts only if the file was whole.

use crate::storage::mapping::Watch;
use apr_sdk::{Batch, Result, Session, StateCommand, StepSink, TimingSink, Workers};

/// A session that fails once a part of its weights was missing.
pub struct Watched {
    session: Box<dyn Session>,
    watch: Watch,
}

impl Watched {
    /// Watches over a session.
    pub fn new(session: Box<dyn Session>, watch: Watch) -> Watched {
        Watched { session, watch }
    }
}

impl Session for Watched {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        self.session.step(batch, workers, out)?;
        self.watch.check()
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        self.session.state(command)
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        self.session.read(value, out)
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        self.session.timings(sink)
    }
}
