//! Units that were committed in order, and their places in the files.

use crate::tiles::sink::TileRecord;

/// A committed unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Offset in the file.
    pub offset: u64,
    /// Length in the file, in bytes.
    pub len: u64,
    /// CRC-32 of the bytes in the file.
    pub stored: u32,
    /// CRC-32 of the raw bytes.
    pub raw: u32,
    /// The length of each encoded block; empty for raw payload.
    pub blocks: Box<[u32]>,
}

/// Units that were committed in order, by file.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// `None` for a file whose offsets were known in advance.
    pub files: Vec<Option<CommittedFile>>,
}

/// Units that were committed in order to one file.
#[derive(Clone, Debug)]
pub struct CommittedFile {
    /// Index of the first segment committed this way.
    pub first: usize,
    /// Offset and length of each segment from there on.
    pub places: Vec<(u64, u64)>,
    /// The committed units, in file order.
    pub units: Vec<Unit>,
    /// For each segment, the raw bytes per unit, and the index of its first unit.
    pub cuts: Vec<(u64, usize)>,
}

impl CommittedFile {
    /// The units of segment `segment` of the file, and the raw length of all but the last.
    pub fn of_segment(&self, segment: usize) -> Option<(&[Unit], u64)> {
        let at = segment.checked_sub(self.first)?;
        let (len, begin) = *self.cuts.get(at)?;
        let end = self.cuts.get(at + 1).map_or(self.units.len(), |(_, next)| *next);
        Some((self.units.get(begin..end)?, len))
    }

    /// Offset in the file at which the last segment ends.
    pub fn end(&self) -> u64 {
        self.places.last().map_or(0, |(offset, len)| offset + len)
    }
}

impl Unit {
    /// The record for a later run: offset (u64), CRC-32 of the stored and of the raw bytes, and the length of
    /// each block (u32); little-endian.
    pub fn record(&self) -> TileRecord {
        let words = [self.stored, self.raw];
        let words = words.iter().chain(&self.blocks).flat_map(|word| word.to_le_bytes());
        self.offset.to_le_bytes().into_iter().chain(words).collect()
    }

    /// Decodes a record; the unit's length is left at 0.
    pub fn of_record(record: &[u8]) -> Option<Unit> {
        let (offset, rest) = record.split_first_chunk()?;
        let (words, []) = rest.as_chunks::<4>() else { return None };
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let stored = words.next()?;
        let raw = words.next()?;
        Some(Unit { offset: u64::from_le_bytes(*offset), len: 0, stored, raw, blocks: words.collect() })
    }
}
