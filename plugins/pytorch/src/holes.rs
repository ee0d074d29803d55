//! A sink whose holes have numbers of their own: each archive numbers its holes from the same number on, and several of
//! them in one layout must not meet.

use apr_sdk::{Bytes, Digest, Encoding, Error, LayoutSink, PartRequest, Result};
use apr_zip::FIRST_HOLE;

/// Passes everything on, with the numbers of holes moved.
pub struct Holes<'s> {
    sink: &'s mut dyn LayoutSink,
    first: u32,
    span: u32,
}

impl<'s> Holes<'s> {
    /// For file number `n` of `count`: an equal share of the numbers, in whole groups of eight.
    pub fn new(sink: &'s mut dyn LayoutSink, n: usize, count: usize) -> Holes<'s> {
        let share = |count: usize| FIRST_HOLE / u32::try_from(count.max(1)).unwrap_or(FIRST_HOLE);
        let span = share(count) / 8 * 8;
        Holes { sink, first: span.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX)), span }
    }
}

impl LayoutSink for Holes<'_> {
    fn file(&mut self, name: &str) -> Result<()> {
        self.sink.file(name)
    }

    fn entry(&mut self) -> Result<()> {
        self.sink.entry()
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.inline(bytes)
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.sink.copy(bytes)
    }

    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        self.sink.payload(tensor, align, encoding)
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        self.sink.pad_to(n)
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        let number = id.checked_sub(FIRST_HOLE).filter(|&number| number < self.span);
        let moved = number.and_then(|_| id.checked_add(self.first));
        let moved =
            moved.ok_or_else(|| Error::unsupported("more records than this many files can number"))?;
        self.sink.hole(moved, len)
    }

    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        self.sink.part(part)
    }

    fn digest(&mut self, digest: Digest) -> Result<()> {
        self.sink.digest(digest)
    }

    fn position(&self) -> Option<u64> {
        self.sink.position()
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        self.sink.fetch(bytes)
    }

    fn note(&mut self, note: &str) {
        self.sink.note(note);
    }
}
