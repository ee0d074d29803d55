//! The verbatim form: the file without its payloads, and their places. It can be walked like the file itself.
//!
//! ```text
//! u64 file length | u64 n_holes | n_holes × { u64 offset, u64 length } | u64 n_files | n_files × u64 length | bytes
//! ```
//! Holes are ordered by offset; files are those with tensor data, in the order in which tensors name them;
//! the bytes are everything outside the holes. Numbers are little-endian.

use crate::scan::Scan;
use crate::tensor::Range;
use apr_sdk::{Error, Extent, FileId, LogLevel, Result, Source};

/// A file without its payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    file_len: u64,
    holes: Vec<Range>,
    /// A 0, then how many bytes are kept before the end of each hole.
    kept: Vec<u64>,
    /// Lengths of the files that data lies in.
    pub files: Vec<u64>,
    bytes: Vec<u8>,
}

impl Skeleton {
    /// The skeleton of the file that `scan` reads. The holes must be in order, without overlap.
    ///
    /// # Errors
    /// LimitExceeded; any error from reading.
    pub fn read(scan: &mut Scan<'_>, holes: Vec<Range>, files: Vec<u64>) -> Result<Skeleton> {
        let file_len = scan.file_len();
        let mut bytes = Vec::new();
        let mut at = 0;
        for &(start, end) in holes.iter().chain(&[(file_len, file_len)]) {
            scan.append(at, start, &mut bytes)?;
            at = end;
        }
        Ok(Skeleton { file_len, kept: kept(&holes), holes, files, bytes })
    }

    /// Its bytes as the verbatim form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(self.bytes.len() + 16 * (self.holes.len() + 2) + 8 * self.files.len());
        let mut put = |n: u64| out.extend_from_slice(&n.to_le_bytes());
        put(self.file_len);
        put(self.holes.len() as u64);
        self.holes.iter().for_each(|&(start, end)| {
            put(start);
            put(end - start);
        });
        put(self.files.len() as u64);
        self.files.iter().for_each(|&len| put(len));
        out.extend_from_slice(&self.bytes);
        out
    }

    /// The skeleton that [`Skeleton::to_bytes`] wrote; `None` for any other bytes.
    pub fn from_bytes(all: &[u8]) -> Option<Skeleton> {
        let mut rest = all;
        let mut take = || {
            let (head, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_le_bytes(*head))
        };
        let file_len = take()?;
        let (mut holes, mut at, mut held) = (Vec::new(), 0u64, file_len);
        for _ in 0..take()? {
            let (start, len) = (take()?, take()?);
            let end = start.checked_add(len).filter(|&end| start >= at && end <= file_len)?;
            holes.push((start, end));
            held -= len;
            at = end;
        }
        let mut files = Vec::new();
        for _ in 0..take()? {
            files.push(take()?);
        }
        let fits = rest.len() as u64 == held;
        fits.then(|| Skeleton { file_len, kept: kept(&holes), holes, files, bytes: rest.to_vec() })
    }

    /// Copies from `offset`; zeros where a payload was.
    fn copy(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let wanted_end = offset + out.len() as u64;
        let first = self.holes.partition_point(|hole| hole.1 <= offset);
        let mut at = first.checked_sub(1).map_or(0, |before| self.holes[before].1);
        let mut held = self.kept[first];
        for &(start, end) in self.holes[first..].iter().chain(&[(self.file_len, self.file_len)]) {
            let (from, to) = (offset.max(at), wanted_end.min(start));
            if from < to {
                let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                let source =
                    self.bytes.get(index(held + from - at)..index(held + to - at)).unwrap_or_default();
                let target = index(from - offset);
                out[target..target + source.len()].copy_from_slice(source);
            }
            if start >= wanted_end {
                return;
            }
            held += start - at;
            at = end;
        }
    }
}

/// Bytes kept before the end of each hole, the first number for what comes before all.
fn kept(holes: &[Range]) -> Vec<u64> {
    let (mut all, mut at, mut held) = (vec![0], 0, 0);
    for &(start, end) in holes {
        held += start - at;
        at = end;
        all.push(held);
    }
    all
}

impl Source for Skeleton {
    fn name(&self, _file: FileId) -> String {
        "the graph".to_owned()
    }

    fn len(&self, _file: FileId) -> Result<u64> {
        Ok(self.file_len)
    }

    fn read_at(&self, _file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= self.file_len);
        end.ok_or_else(|| Error::malformed("unexpected end of the graph").at(offset))?;
        self.copy(offset, out);
        Ok(())
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        Err(Error::unsupported("a graph cannot be viewed, only read").at(extent.offset))
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        Err(Error::not_found(format!("file `{path}` does not exist")))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Limits, MemorySource};

    #[test]
    fn holes_read_as_zeros_and_everything_else_as_it_was() {
        let file: Vec<u8> = (1..=40).collect();
        let (source, limits) = (MemorySource::new("a", file.clone()), Limits::default());
        let mut scan = Scan::new(&source, 0, &limits).unwrap();
        let holes = vec![(0, 3), (10, 20), (20, 21), (38, 40)];
        let skeleton = Skeleton::read(&mut scan, holes.clone(), vec![7]).unwrap();
        let again = Skeleton::from_bytes(&skeleton.to_bytes()).unwrap();
        assert_eq!(again, skeleton);
        for start in 0..40 {
            for end in start..=40 {
                let mut out = vec![0xee; end - start];
                again.read_at(0, start as u64, &mut out).unwrap();
                let inside = |n: usize| holes.iter().any(|&(s, e)| (s..e).contains(&(n as u64)));
                let want: Vec<u8> = (start..end).map(|n| if inside(n) { 0 } else { file[n] }).collect();
                assert_eq!(out, want, "{start}..{end}");
            }
        }
        let bytes = skeleton.to_bytes();
        assert!((0..bytes.len()).all(|cut| Skeleton::from_bytes(&bytes[..cut]).is_none()));
    }
}
