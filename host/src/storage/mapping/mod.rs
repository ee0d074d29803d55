//! Mapped memory: large pages for what is computed with, and files that are used where they lie. The only place
//! that maps anything.
//!
//! A file that another program cuts while it is mapped raises SIGBUS at the next access behind its end. The handler
//! (`plugins/crash.rs`) then has [`absorb`] put a page of zeros there and mark the mapping as cut, which its user
//! asks about before any result counts.

mod fault;

pub use fault::absorb;

use apr_sdk::{Error, ImageMemory, Result};
use fault::Watched;
#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Images begin at multiples of this.
pub const ALIGNMENT: u64 = 64;
/// The size of a huge page, which memory of at least this size asks for.
const HUGE: usize = 2 << 20;

/// Mapped memory, unmapped when dropped.
pub struct Mapping {
    /// A mapped file's watch over accesses behind its end. It ends before the range can be anyone else's.
    fault: Option<Watched>,
    map: MmapRaw,
    writable: bool,
}

impl Mapping {
    /// Memory of `len` bytes, at first zero, in huge pages where the system has them.
    ///
    /// # Errors
    /// Io if the system gives none.
    pub fn memory(len: u64) -> Result<Mapping> {
        let len = size(len)?;
        let map = MmapOptions::new().len(len).map_anon().map_err(|error| no_memory(len, &error))?;
        #[cfg(target_os = "linux")]
        if len >= HUGE {
            // A refusal leaves ordinary pages, which work as well.
            map.advise(Advice::HugePage).ok();
        }
        Ok(Mapping { fault: None, map: map.into(), writable: true })
    }

    /// The first `len` bytes of a file, to be read, or to be written through to it.
    ///
    /// # Errors
    /// Io if the file is shorter, or the system refuses.
    pub fn file(file: &File, len: u64, writable: bool) -> Result<Mapping> {
        let has = file.metadata().map_err(|error| Error::io(format!("its size is unknown: {error}")))?.len();
        if has < len {
            return Err(Error::io(format!("expected {len} bytes, found {has}")));
        }
        let mut options = MmapOptions::new();
        options.len(size(len)?);
        // The file may be changed by others; what is read then is wrong numbers, never wrong references: images hold no
        // addresses.
        let map = if writable { options.map_raw(file) } else { options.map_raw_read_only(file) };
        let map = map.map_err(|error| Error::io(format!("it cannot be mapped: {error}")))?;
        let fault = Watched::new(map.as_ptr() as usize, map.len())?;
        Ok(Mapping { fault: Some(fault), map, writable })
    }

    /// All of it, before it is divided.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is this mapping's, which lives as long as the borrow. Only regions write to it, and `regions`
        // takes the mapping by value.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    /// Divides the mapping into regions that may be used apart from each other.
    ///
    /// # Errors
    /// InvalidArgument if they overlap, are out of order or not aligned, or reach beyond the end.
    pub fn regions(self, ranges: &[Range<u64>]) -> Result<(Vec<Region>, Watch)> {
        let mapping = Arc::new(self);
        let mut regions = Vec::with_capacity(ranges.len());
        let mut end = 0;
        for range in ranges {
            if range.start < end || range.end < range.start || range.start % ALIGNMENT != 0 {
                return Err(Error::invalid_argument("regions of a mapping overlap or are misaligned"));
            }
            end = range.end;
            if end > mapping.map.len() as u64 {
                return Err(Error::invalid_argument("a region extends past the end of its mapping"));
            }
            let start = size_of(range.start)?;
            let len = size_of(range.end - range.start)?;
            regions.push(Region { mapping: Arc::clone(&mapping), start, len });
        }
        Ok((regions, Watch(mapping)))
    }

    /// Writes changed pages of a mapped file to the disk.
    ///
    /// # Errors
    /// Io if that fails.
    fn sync(&self) -> Result<()> {
        self.map.flush().map_err(|error| Error::io(format!("it cannot be written: {error}")))
    }

    /// Returns whether a part of the mapped file was missing when it was accessed.
    pub fn is_cut(&self) -> bool {
        self.fault.as_ref().is_some_and(Watched::is_cut)
    }
}

/// A part of a mapping, apart from all its other parts.
pub struct Region {
    mapping: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl ImageMemory for Region {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `regions` checked that the range lies in the mapping, which lives as long as `self.mapping`; only
        // this region refers to it, so nothing writes to it while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.mapping.map.as_ptr().add(self.start), self.len) }
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if !self.mapping.writable {
            return Err(Error::invalid_argument("an image kept in a file is read-only"));
        }
        // SAFETY: as in `bytes`; the region is borrowed mutably, and the mapping may be written.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.mapping.map.as_mut_ptr().add(self.start), self.len) })
    }
}

/// A view of a mapping that can be asked while its regions are in use.
#[derive(Clone)]
pub struct Watch(Arc<Mapping>);

impl Watch {
    /// Fails if a part of the mapped file was missing when it was accessed.
    ///
    /// # Errors
    /// Io.
    pub fn check(&self) -> Result<()> {
        if !self.0.is_cut() {
            return Ok(());
        }
        Err(Error::io("the file of prepared weights was truncated while in use")
            .hint("run the command again: the file will be created anew"))
    }

    /// Writes changed pages of a mapped file to the disk.
    ///
    /// # Errors
    /// Io if that fails.
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

fn size(len: u64) -> Result<usize> {
    size_of(len.max(1))
}

fn size_of(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("the mapping does not fit in the address space"))
}

fn no_memory(len: usize, error: &std::io::Error) -> Error {
    Error::io(format!("cannot allocate {len} bytes of memory: {error}"))
        .hint("close other programs, or use a smaller model or type")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::name_crashes;

    #[test]
    fn regions_are_apart_and_aligned() {
        let (mut regions, _) = Mapping::memory(5 << 20).unwrap().regions(&[0..100, 128..4 << 20]).unwrap();
        assert!(regions.iter().all(|region| region.bytes().iter().all(|byte| *byte == 0)));
        regions[0].bytes_mut().unwrap().fill(1);
        assert!(regions[1].bytes().iter().all(|byte| *byte == 0));
        assert_eq!(regions[1].bytes().as_ptr() as usize % 64, 0);
        for wrong in [[0..100, 64..200], [3..8, 64..65], [0..64, 64..6 << 20], [128..256, 0..64]] {
            assert!(Mapping::memory(5 << 20).unwrap().regions(&wrong).is_err());
        }
    }

    #[test]
    fn a_file_that_is_cut_while_mapped_is_an_error_not_a_crash() {
        name_crashes();
        let path = std::env::temp_dir().join(format!("apr-mapping-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.set_len(64 << 10).unwrap();
        assert!(Mapping::file(&file, 128 << 10, false).is_err());
        let (mut regions, watch) = Mapping::file(&file, 64 << 10, true)
            .unwrap()
            .regions(&[0..32 << 10, 32 << 10..64 << 10])
            .unwrap();
        regions[1].bytes_mut().unwrap().fill(7);
        watch.sync().unwrap();
        watch.check().unwrap();
        assert_eq!(regions[1].bytes()[100], 7);
        file.set_len(4096).unwrap();
        assert_eq!(regions[1].bytes()[100], 0);
        assert!(watch.check().unwrap_err().message().contains("truncated"));
        drop(regions);
        let again = Mapping::file(&file, 4096, false).unwrap();
        let (mut regions, watch) = again.regions(&[0..64, 64..4096]).unwrap();
        assert!(regions[0].bytes_mut().is_err());
        watch.check().unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
