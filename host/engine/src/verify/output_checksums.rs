//! CRC-32 of any range of an output, combined from those of its segments instead of reading it again.

use crate::layout::{Layout, Segment};
use crate::tiles::TileSink;
use crate::tiles::commit::commit_places::{Committed, CommittedFile};
use crate::tiles::tile::Tiles;
use crate::tiles::tile_sums::TileSums;
use apr_sdk::{Error, Result};
use crc32fast::Hasher;
use std::collections::HashMap;
use std::ops::Range;

/// Everything needed to compute checksums of an output.
pub struct Summer<'a> {
    /// The files and segments.
    pub layout: &'a Layout,
    /// The payload, cut into tiles.
    pub tiles: &'a Tiles,
    /// The checksums of the tiles.
    pub sums: &'a TileSums,
    /// The places that were settled during writing.
    pub committed: &'a Committed,
    /// The written files, for ranges that cut a tile.
    pub sink: &'a dyn TileSink,
    /// The holes filled so far, by id.
    pub holes: &'a HashMap<u32, Vec<u8>>,
}

impl Summer<'_> {
    /// CRC-32 of `start..end` of a file.
    ///
    /// # Errors
    /// Plugin if a hole in the range is still open; Io.
    pub fn range(&self, file: usize, start: u64, end: u64) -> Result<u32> {
        let mut all = Hasher::new();
        let segments = &self.layout.files[file].segments;
        // An archive asks for a range per entry, and may have a million.
        let first = segments.partition_point(|placed| placed.offset + placed.len <= start);
        for (number, placed) in segments.iter().enumerate().skip(first) {
            if placed.offset >= end {
                break;
            }
            let from = placed.offset.max(start);
            let to = (placed.offset + placed.len).min(end);
            if from >= to {
                continue;
            }
            let whole = from == placed.offset && to == placed.offset + placed.len;
            let [begin, end] = [from, to].map(|n| usize::try_from(n - placed.offset).unwrap_or(usize::MAX));
            let sum = match &placed.segment {
                Segment::Inline(bytes) => bytes.get(begin..end).map(crc32fast::hash),
                Segment::Pad { .. } => Some(of_zeros(to - from)),
                Segment::Hole { id } => match self.holes.get(id) {
                    Some(bytes) => bytes.get(begin..end).map(crc32fast::hash),
                    None => {
                        return Err(Error::plugin(format!(
                            "a checksum covers hole {id}, which is not filled yet"
                        )));
                    }
                },
                Segment::Payload { encoded: Some(_), .. } if whole => self.stored(file, number),
                Segment::Payload { .. } | Segment::Copy(_) if whole => self.runs(file, number, placed.len),
                _ => Some(self.sum_back(file, from, to)?),
            };
            let sum = sum.ok_or_else(|| Error::plugin("a segment is shorter than its place"))?;
            all.combine(&Hasher::new_with_initial_len(sum, to - from));
        }
        Ok(all.finalize())
    }

    /// CRC-32 of a tensor's payload before encoding.
    pub fn tensor(&self, tensor: usize) -> Option<u32> {
        self.combined(self.tiles.of_tensor(tensor))
    }

    /// The units that were committed in order to a file, if any.
    pub fn committed(&self, file: usize) -> Option<&CommittedFile> {
        self.committed.files.get(file).and_then(Option::as_ref)
    }

    /// The length of each block of an encoded segment.
    pub fn blocks(&self, file: usize, segment: usize) -> Vec<u64> {
        let units = self.committed(file).and_then(|file| file.of_segment(segment));
        let units = units.map(|(units, _)| units).unwrap_or_default();
        units.iter().flat_map(|unit| unit.blocks.iter().map(|len| u64::from(*len))).collect()
    }

    /// CRC-32 of an encoded segment, as stored.
    fn stored(&self, file: usize, segment: usize) -> Option<u32> {
        let (units, _) = self.committed(file)?.of_segment(segment)?;
        let mut all = Hasher::new();
        units.iter().for_each(|unit| all.combine(&Hasher::new_with_initial_len(unit.stored, unit.len)));
        Some(all.finalize())
    }

    /// CRC-32 of the runs that fill the `len` bytes of a segment.
    fn runs(&self, file: usize, segment: usize, len: u64) -> Option<u32> {
        let filled = self.tiles.of_segment(file, segment);
        let there: u64 = self.tiles.runs[filled.clone()].iter().map(|s| s.len).sum();
        if there == len { self.combined(filled) } else { None }
    }

    fn combined(&self, runs: Range<usize>) -> Option<u32> {
        let mut all = Hasher::new();
        for run in runs.map(|n| &self.tiles.runs[n]) {
            for number in run.first..run.first + run.n_tiles() {
                let (sum, _) = self.sums.get(number)?;
                all.combine(&Hasher::new_with_initial_len(sum, self.tiles.tile(number).len));
            }
        }
        Some(all.finalize())
    }

    fn sum_back(&self, file: usize, start: u64, end: u64) -> Result<u32> {
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut at = start;
        while at < end {
            let n = usize::try_from((end - at).min(buffer.len() as u64)).unwrap_or(0);
            self.read_back(file, at, &mut buffer[..n])?;
            hasher.update(&buffer[..n]);
            at += n as u64;
        }
        Ok(hasher.finalize())
    }

    /// Fills `out` with what was written at `offset` of a file.
    ///
    /// # Errors
    /// Io, with the file's final name.
    pub fn read_back(&self, file: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let read = self.sink.read_back(file).and_then(|backing| backing.read_at(offset, out));
        read.map_err(|e| e.at(offset).in_file(self.sink.show(file)))
    }
}

fn of_zeros(len: u64) -> u32 {
    let zeros = [0; 4096];
    let mut hasher = Hasher::new();
    let mut left = len;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        hasher.update(&zeros[..usize::try_from(n).unwrap_or(0)]);
        left -= n;
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_have_the_checksum_of_zeros() {
        assert_eq!(of_zeros(10_000), crc32fast::hash(&[0; 10_000]));
        assert_eq!(of_zeros(0), 0);
    }
}
