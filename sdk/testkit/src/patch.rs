//! The patch sink in memory: holes are filled, checksums last.

use crate::write::breach;
use apr_sdk::{PatchSink, Result, Sum, Written, WrittenHole};
use std::ops::Range;

/// Fills the holes of rendered files.
pub(crate) struct Patches<'a> {
    holes: &'a [WrittenHole],
    filled: Vec<bool>,
    files: Vec<Vec<u8>>,
    sums: Vec<(usize, usize, Range<usize>, Sum)>,
}

impl<'a> Patches<'a> {
    pub(crate) fn new(written: &'a Written, files: Vec<Vec<u8>>) -> Patches<'a> {
        let holes = &written.holes;
        Patches { holes, filled: vec![false; holes.len()], files, sums: Vec::new() }
    }

    /// Computes the checksums, in the order they were asked for, and refuses a hole that nobody filled.
    pub(crate) fn finish(mut self) -> Result<Vec<Vec<u8>>> {
        for (hole, file, range, sum) in std::mem::take(&mut self.sums) {
            self.put(hole, &sum.of_crc32(crc32fast::hash(&self.files[file][range]))?)?;
        }
        match self.filled.iter().position(|filled| !filled) {
            Some(hole) => Err(breach(format!("hole {} was never filled", self.holes[hole].id))),
            None => Ok(self.files),
        }
    }

    /// The number in the layout of the hole `id`, which takes `len` bytes and is filled from now on.
    fn claim(&mut self, id: u32, len: u64) -> Result<usize> {
        let hole = self.holes.iter().position(|hole| hole.id == id);
        let hole = hole.ok_or_else(|| breach(format!("the layout has no hole {id}")))?;
        if self.holes[hole].len != len {
            return Err(breach(format!("{len} bytes for hole {id} of {} bytes", self.holes[hole].len)));
        }
        if std::mem::replace(&mut self.filled[hole], true) {
            return Err(breach(format!("hole {id} is filled twice")));
        }
        Ok(hole)
    }

    fn put(&mut self, hole: usize, bytes: &[u8]) -> Result<()> {
        let hole = &self.holes[hole];
        let inside = self.files.get_mut(hole.file as usize).zip(usize::try_from(hole.offset).ok());
        let inside = inside.and_then(|(file, start)| file.get_mut(start..)?.get_mut(..bytes.len()));
        inside
            .ok_or_else(|| breach(format!("hole {} extends past the end of its file", hole.id)))?
            .copy_from_slice(bytes);
        Ok(())
    }
}

impl PatchSink for Patches<'_> {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        let hole = self.claim(id, bytes.len() as u64)?;
        self.put(hole, bytes)
    }

    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()> {
        let number = file as usize;
        let len = self.files.get(number).ok_or_else(|| breach(format!("file {file} does not exist")))?.len();
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let range = range.filter(|&(start, end)| start <= end && end <= len);
        let (start, end) = range.ok_or_else(|| {
            breach(format!("a checksum of bytes {start} to {end} of file {file}, which has only {len}"))
        })?;
        let hole = self.claim(id, sum.of_crc32(0)?.len() as u64)?;
        self.sums.push((hole, number, start..end, sum));
        Ok(())
    }

    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()> {
        let there = self.files.get_mut(file as usize);
        there.ok_or_else(|| breach(format!("file {file} does not exist")))?.extend_from_slice(bytes);
        Ok(())
    }
}
