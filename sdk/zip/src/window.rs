//! The view of the central directory that the `zip` crate needs: something that can read and seek.

use crate::end::End;
use apr_sdk::{Error, FileId, Limits, Source};
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes read at once.
const BUFFER: usize = 16 * 1024;

/// A file up to the end of its central directory, followed by end records made from what [`End::find`] found.
/// Left to itself, the crate would search for them, and read and allocate as much as a hostile file asks for.
pub(crate) struct Window<'a> {
    source: &'a dyn Source,
    file: FileId,
    limits: &'a Limits,
    directory_end: u64,
    tail: Vec<u8>,
    position: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    /// The error from the source: `io::Error` cannot carry it.
    pub(crate) failure: Option<Error>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(source: &'a dyn Source, file: FileId, end: &End, limits: &'a Limits) -> Window<'a> {
        Window {
            source,
            file,
            limits,
            directory_end: end.directory_end(),
            tail: end.records(),
            position: 0,
            buffer: Vec::new(),
            buffer_at: 0,
            failure: None,
        }
    }

    fn len(&self) -> u64 {
        self.directory_end.saturating_add(self.tail.len() as u64)
    }

    /// The bytes at the position: at least one, except at the end.
    fn ahead(&mut self) -> io::Result<&[u8]> {
        if self.position >= self.directory_end {
            let at = usize::try_from(self.position - self.directory_end).unwrap_or(usize::MAX);
            return Ok(self.tail.get(at..).unwrap_or_default());
        }
        let inside = self.position.checked_sub(self.buffer_at).filter(|&n| n < self.buffer.len() as u64);
        if let Some(at) = inside.and_then(|n| usize::try_from(n).ok()) {
            return Ok(&self.buffer[at..]);
        }
        let left = usize::try_from(self.directory_end - self.position).unwrap_or(usize::MAX);
        self.buffer.resize(left.min(BUFFER), 0);
        self.buffer_at = self.position;
        if let Err(error) = self.source.read_at(self.file, self.position, &mut self.buffer) {
            self.buffer.clear();
            self.failure = Some(error);
            return Err(io::ErrorKind::Other.into());
        }
        self.limits.budget.earn(self.buffer.len() as u64);
        Ok(&self.buffer)
    }
}

impl Read for Window<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let ahead = self.ahead()?;
        let n = ahead.len().min(out.len());
        out[..n].copy_from_slice(&ahead[..n]);
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for Window<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
