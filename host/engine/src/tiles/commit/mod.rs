//! Payload whose place is known only after everything before it is written: encoded payload, and whatever
//! follows it in its file. Its raw bytes arrive in tiles, from any thread, and are collected into *units* of
//! whole blocks, at least 1 MiB. The thread that delivers the last byte of a unit encodes it, and a thread
//! with a finished unit commits every unit whose turn has come.
//!
//! Threads start tiles in ascending order, and only wait for units before their own. The first unfinished one
//! never waits, so there is always one at work. A thread that is far ahead waits, which bounds memory.

mod coder;
pub mod commit_places;
mod committer;
#[cfg(test)]
mod tests;

use super::sink::{TileRecord, TileSink};
use crate::engine::Engine;
use crate::layout::Layout;
use apr_sdk::{Error, Model, Result, Writer};
use commit_places::Committed;
use committer::Committer;
use std::collections::HashMap;
use std::sync::Arc;

/// All files whose payload is committed in order.
pub struct Commits<'a>(Vec<Option<Committer<'a>>>);

impl<'a> Commits<'a> {
    /// The files of a layout of `model`, whose own files are `writer`'s; units are numbered from `base`.
    ///
    /// # Errors
    /// Unsupported for a format without a writer.
    pub fn new(
        engine: &Engine,
        layout: &'a Layout,
        writer: &Arc<dyn Writer>,
        model: &'a Model,
        mut base: usize,
    ) -> Result<Commits<'a>> {
        let mut files = Vec::with_capacity(layout.files.len());
        for (number, file) in layout.files.iter().enumerate() {
            let Some(first) = file.floats_from else {
                files.push(None);
                continue;
            };
            let writer = writer_of(engine, layout, writer, number)?;
            let window = 2 * engine.crew.width();
            let mut committer = Committer::new(number, file, first, &writer, window, base);
            committer.name(model);
            base += committer.n_units;
            files.push(Some(committer));
        }
        Ok(Commits(files))
    }

    /// Writes what comes before the first units, and keeps what an earlier run committed, as far as it is
    /// intact.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn begin(&self, sink: &dyn TileSink, earlier: Option<&[(u64, TileRecord)]>) -> Result<()> {
        if self.0.iter().all(Option::is_none) {
            return Ok(());
        }
        // If a unit is recorded twice, the later record describes what is there.
        let records: HashMap<u64, &TileRecord> =
            earlier.into_iter().flatten().map(|(number, record)| (*number, record)).collect();
        self.0.iter().flatten().try_for_each(|committer| committer.begin(sink, &records))
    }

    fn committer(&self, file: usize) -> Result<&Committer<'a>> {
        let committer = self.0.get(file).and_then(Option::as_ref);
        committer.ok_or_else(|| Error::plugin(format!("file {file} was committed out of order")))
    }

    /// Accepts raw bytes that begin `at` bytes into a segment, each byte once; returns whether to continue.
    ///
    /// # Errors
    /// Any error from encoding and the sink.
    pub fn put(
        &self,
        file: usize,
        segment: usize,
        at: u64,
        bytes: &[u8],
        sink: &dyn TileSink,
        stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.committer(file)?.put(segment, at, bytes, sink, stopped)
    }

    /// Waits until everything before the unit at offset `at` of a segment is committed; returns whether to
    /// continue.
    pub fn await_turn(&self, file: usize, segment: usize, at: u64, stopped: &dyn Fn() -> bool) -> bool {
        self.committer(file).map_or(true, |committer| committer.await_turn(segment, at, stopped))
    }

    /// Wakes all waiting threads, because nothing more will come.
    pub fn wake(&self) {
        for committer in self.0.iter().flatten() {
            committer.wake();
        }
    }

    /// The places that everything was written to.
    ///
    /// # Errors
    /// Plugin if something was never computed.
    pub fn finish(self) -> Result<Committed> {
        let files = self.0.into_iter().map(|committer| committer.map(Committer::finish).transpose());
        Ok(Committed { files: files.collect::<Result<_>>()? })
    }
}

/// The writer for a file.
fn writer_of(
    engine: &Engine,
    layout: &Layout,
    own: &Arc<dyn Writer>,
    file: usize,
) -> Result<Arc<dyn Writer>> {
    let scope = layout.scopes.iter().find(|scope| scope.files.contains(&file));
    match scope.and_then(|scope| scope.format.as_ref()) {
        None => Ok(Arc::clone(own)),
        Some(format) => engine.registry.format(format)?.writer(),
    }
}
