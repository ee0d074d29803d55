//! Sources around a source: one that counts what is read, one that fails when told to.

use apr_sdk::{Error, Extent, FileId, LogLevel, Result, Source};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what a reader reads.
pub struct MeteringSource<'a> {
    inner: &'a dyn Source,
    calls: AtomicU64,
    bytes: AtomicU64,
    positioned: AtomicU64,
    highest: AtomicU64,
    /// Start to end of what was read, by file; merged when asked.
    ranges: Mutex<Vec<(FileId, u64, u64)>>,
}

impl<'a> MeteringSource<'a> {
    /// Counts what is read from `inner`.
    pub fn new(inner: &'a dyn Source) -> MeteringSource<'a> {
        MeteringSource {
            inner,
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            positioned: AtomicU64::new(0),
            highest: AtomicU64::new(0),
            ranges: Mutex::default(),
        }
    }

    /// Calls of [`Source::read_at`] and [`Source::view`].
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Bytes read, each time they were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Of those, the bytes that [`Source::read_at`] gave: a reader accounts for them, the host for views.
    pub fn bytes_positioned(&self) -> u64 {
        self.positioned.load(Ordering::Relaxed)
    }

    /// Different bytes read, however often.
    pub fn distinct_bytes(&self) -> u64 {
        let mut ranges = self.ranges.lock().map(|ranges| ranges.clone()).unwrap_or_default();
        ranges.sort_unstable();
        let mut reached = BTreeMap::new();
        let mut distinct = 0;
        for (file, start, end) in ranges {
            let reached = reached.entry(file).or_insert(0);
            distinct += end.saturating_sub(start.max(*reached));
            *reached = end.max(*reached);
        }
        distinct
    }

    /// One past the last byte that was read of any file.
    pub fn highest_offset(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }

    fn count(&self, extent: Extent) {
        let end = extent.offset.saturating_add(extent.len);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(extent.len, Ordering::Relaxed);
        self.highest.fetch_max(end, Ordering::Relaxed);
        if let Ok(mut ranges) = self.ranges.lock() {
            ranges.push((extent.file, extent.offset, end));
        }
    }
}

impl Source for MeteringSource<'_> {
    fn name(&self, file: FileId) -> String {
        self.inner.name(file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        self.inner.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(file, offset, out)?;
        self.positioned.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.count(Extent::new(file, offset, out.len() as u64));
        Ok(())
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        let bytes = self.inner.view(extent)?;
        self.count(extent);
        Ok(bytes)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        self.inner.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.inner.entries()
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.entries_of(folder)
    }

    fn is_folder(&self) -> bool {
        self.inner.is_folder()
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled()
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.inner.log(level, message);
    }
}

/// The way a [`FailingSource`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One call fails as the machine would, the following ones succeed: a reader that swallows an error is seen.
    Once,
    /// From that call on the machine fails.
    Always,
    /// From that call on the files are cut to half their length, though [`Source::len`] gave the whole before.
    Short,
}

/// Fails at a chosen call.
pub struct FailingSource<'a> {
    inner: &'a dyn Source,
    calls: AtomicU64,
    at: u64,
    fault: Fault,
}

impl<'a> FailingSource<'a> {
    /// Works for `at` calls that can fail, then shows `fault`.
    pub fn new(inner: &'a dyn Source, at: u64, fault: Fault) -> FailingSource<'a> {
        FailingSource { inner, calls: AtomicU64::new(0), at, fault }
    }

    /// Number of calls made that can fail.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns whether the fault was shown.
    pub fn failed(&self) -> bool {
        self.calls() > self.at
    }

    /// Counts a call; gives whether files are cut now.
    fn call(&self) -> Result<bool> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = match self.fault {
            Fault::Once => call == self.at,
            Fault::Always => call >= self.at,
            Fault::Short => return Ok(call >= self.at),
        };
        if fails {
            Err(Error::io(format!("the machine failed at call {call}, as it was told to")))
        } else {
            Ok(false)
        }
    }

    fn reach(&self, extent: Extent) -> Result<()> {
        if !self.call()? {
            return Ok(());
        }
        let len = self.inner.len(extent.file)? / 2;
        match extent.end() {
            Some(end) if end <= len => Ok(()),
            _ => Err(Error::malformed(format!("the file was cut to {len} bytes")).at(extent.offset)),
        }
    }
}

impl Source for FailingSource<'_> {
    fn name(&self, file: FileId) -> String {
        self.inner.name(file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        let cut = self.call()?;
        let len = self.inner.len(file)?;
        Ok(if cut { len / 2 } else { len })
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.reach(Extent::new(file, offset, out.len() as u64))?;
        self.inner.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.reach(extent)?;
        self.inner.view(extent)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        self.call()?;
        self.inner.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.call()?;
        self.inner.entries()
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        self.call()?;
        self.inner.entries_of(folder)
    }

    fn is_folder(&self) -> bool {
        self.inner.is_folder()
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.inner.log(level, message);
    }
}
