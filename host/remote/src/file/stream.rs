//! A remote file of which nothing is kept, as a [`Backing`]: looked into, and fetched ahead once its payload is expected.

use crate::cache::ContentDigest;
use crate::file::ahead::Ahead;
use crate::file::window::Look;
use apr_engine::place::{Backing, Version};
use apr_sdk::Result;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Bytes that are worth fetching ahead.
const WORTH: u64 = 8 << 20;

/// A remote file of which nothing is kept.
pub struct StreamedFile {
    look: Look,
    announced: Option<ContentDigest>,
    ahead: OnceLock<Ahead>,
    /// Held while fetching is begun.
    begins: Mutex<()>,
}

impl StreamedFile {
    /// A file, and the digest that it must have, if one is known.
    pub fn new(look: Look, announced: Option<ContentDigest>) -> StreamedFile {
        StreamedFile { look, announced, ahead: OnceLock::new(), begins: Mutex::default() }
    }
}

impl Backing for StreamedFile {
    fn len(&self) -> u64 {
        self.look.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.ahead.get() {
            Some(ahead) if !self.look.holds(offset, out.len()) => ahead.read_at(offset, out),
            _ => self.look.read_at(offset, out),
        }
    }

    fn version(&self) -> Option<Version> {
        self.look.version()
    }

    fn will_read(&self, ranges: &[Range<u64>]) -> Result<()> {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let is_worth_it = bytes >= WORTH || self.announced.is_some();
        let _turn = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        if is_worth_it && self.ahead.get().is_none() {
            let ahead = Ahead::new(self.look.object(), ranges, self.announced.clone())?;
            drop(self.ahead.set(ahead));
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.ahead.get().map_or(Ok(()), Ahead::settle)
    }
}
