//! What was committed in order, and where it came to lie.

use crate::tiles::sink::TileRecord;

/// A unit that is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its offset in the file.
    pub offset: u64,
    /// Its bytes there.
    pub len: u64,
    /// Their CRC-32.
    pub stored: u32,
    /// That of its raw bytes.
    pub raw: u32,
    /// The bytes of each block; none of a raw payload.
    pub blocks: Box<[u32]>,
}

/// What was committed in order, by the number of its file.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// `None` for a file whose offsets were known before.
    pub files: Vec<Option<CommittedFile>>,
}

/// What was committed to a file in order.
#[derive(Clone, Debug)]
pub struct CommittedFile {
    /// The number of the first segment.
    pub first: usize,
    /// Offset and length of each segment from that on.
    pub places: Vec<(u64, u64)>,
    /// The units.
    pub units: Vec<Unit>,
    /// How many raw bytes a unit of each segment has, and the number of its first one.
    pub cuts: Vec<(u64, usize)>,
}

impl CommittedFile {
    /// The units of segment number `segment` of the file, and how many raw bytes each but the last has.
    pub fn of_segment(&self, segment: usize) -> Option<(&[Unit], u64)> {
        let at = segment.checked_sub(self.first)?;
        let (len, begin) = *self.cuts.get(at)?;
        let end = self.cuts.get(at + 1).map_or(self.units.len(), |(_, next)| *next);
        Some((self.units.get(begin..end)?, len))
    }

    /// Where it ends, without what `finish` appends.
    pub fn end(&self) -> u64 {
        self.places.last().map_or(0, |(offset, len)| offset + len)
    }
}

impl Unit {
    /// What it is to a later run: its offset, u64, the CRC-32 of its bytes and of its raw ones, and the bytes of each block,
    /// u32; little-endian.
    pub fn record(&self) -> TileRecord {
        let words = [self.stored, self.raw];
        let words = words.iter().chain(&self.blocks).flat_map(|word| word.to_le_bytes());
        self.offset.to_le_bytes().into_iter().chain(words).collect()
    }

    /// The same back, but for its length.
    pub fn of_record(record: &[u8]) -> Option<Unit> {
        let (offset, rest) = record.split_first_chunk()?;
        let (words, []) = rest.as_chunks::<4>() else { return None };
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let (stored, raw) = (words.next()?, words.next()?);
        Some(Unit { offset: u64::from_le_bytes(*offset), len: 0, stored, raw, blocks: words.collect() })
    }
}
