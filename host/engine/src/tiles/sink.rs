//! Destination of tiles: storage behind a trait. What a file is, when its bytes are durable, what is kept of
//! an interrupted job and how output is published is up to storage; the engine hands over bytes and opaque
//! records.

use crate::place::{Backing, Version};
use apr_sdk::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// The data that a resumed run needs about a finished tile, or a finished unit of encoded payload; opaque to storage.
pub type TileRecord = Box<[u8]>;

/// The files of an output that is being written, by index. From the start, they have the greatest length they
/// can have. Several threads write at the same time, never to the same bytes.
pub trait TileSink: Sync {
    /// Writes all of `bytes` at `offset` of a file, which grows if necessary.
    ///
    /// # Errors
    /// Io, with the file's final name.
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Truncates a file to its length: encoded payload took less than its upper bound.
    ///
    /// # Errors
    /// As [`TileSink::write_at`].
    fn set_len(&self, file: usize, len: u64) -> Result<()>;

    /// Opens a file to read what was written.
    ///
    /// # Errors
    /// Io.
    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>>;

    /// The file's name for messages.
    fn show(&self, file: usize) -> String;

    /// Creates a temporary file of `len` bytes for this job, as a sink with one file. It is deleted with the
    /// sink.
    ///
    /// # Errors
    /// Io, also if there is no space for it.
    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>>;

    /// Called once everything known before the payload is written: from now on, headers can be opened.
    ///
    /// # Errors
    /// Any reason for storage to refuse the output before hours of work.
    fn laid_out(&self) -> Result<()> {
        Ok(())
    }

    /// Called when tile or unit `tile` is complete; a resumed run gets `record` back.
    fn finished(&self, _tile: usize, record: TileRecord) {
        drop(record);
    }
}

/// Files in memory, written once and read back when complete.
#[derive(Clone, Default)]
pub struct Memory {
    files: Vec<Arc<MemoryFile>>,
}

/// One file.
struct MemoryFile {
    name: String,
    bytes: Mutex<Vec<u8>>,
}

impl Memory {
    /// Files with these names and lengths.
    ///
    /// # Errors
    /// LimitExceeded if they exceed the memory.
    pub fn new<'n>(files: impl IntoIterator<Item = (&'n str, u64)>) -> Result<Memory> {
        let mut memory = Vec::new();
        for (name, len) in files {
            let len = usize::try_from(len).map_err(|_| Error::limit("the output does not fit in memory"))?;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|_| Error::limit("the output does not fit in memory"))?;
            bytes.resize(len, 0);
            memory.push(Arc::new(MemoryFile { name: name.to_owned(), bytes: Mutex::new(bytes) }));
        }
        Ok(Memory { files: memory })
    }

    /// Names and bytes of the files, in order.
    pub fn into_files(self) -> Vec<(String, Vec<u8>)> {
        let taken = self.files.iter().map(|file| {
            let mut bytes = file.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            (file.name.clone(), std::mem::take(&mut *bytes))
        });
        taken.collect()
    }

    fn file(&self, file: usize) -> Result<&Arc<MemoryFile>> {
        self.files.get(file).ok_or_else(|| Error::io(format!("file {file} does not exist")))
    }
}

impl TileSink for Memory {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(file)?;
        let begin = usize::try_from(offset).ok();
        let range = begin.and_then(|begin| Some(begin..begin.checked_add(bytes.len())?));
        let Some(range) = range else {
            return Err(Error::limit("the output does not fit in memory").in_file(file.name.clone()));
        };
        let mut held = file.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() < range.end {
            held.resize(range.end, 0);
        }
        held[range].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, file: usize, len: u64) -> Result<()> {
        let file = self.file(file)?;
        let len = usize::try_from(len).map_err(|_| Error::limit("the output does not fit in memory"))?;
        file.bytes.lock().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        Ok(Arc::clone(self.file(file)?) as Arc<dyn Backing>)
    }

    fn show(&self, file: usize) -> String {
        self.file(file).map(|file| file.name.clone()).unwrap_or_default()
    }

    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        Ok(Box::new(Memory::new([("spool", len)])?))
    }
}

impl Backing for MemoryFile {
    fn len(&self) -> u64 {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = held.get(begin..begin.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| Error::io("unexpected end of file"))?);
        Ok(())
    }

    fn version(&self) -> Option<Version> {
        None
    }
}
