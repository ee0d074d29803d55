//! Records what was read of the inputs, as runs with their CRC-32: so a checksum over any range, in file
//! order, is known without reading it again, however the conversion rearranged its payload.
//!
//! Each byte counts when it is first read. Adjacent runs are merged, long and short ones separately: the
//! boundaries of what checksums cover are mostly between headers and payload, and so stay boundaries of runs.

use apr_sdk::{FileId, Result};
use crc32fast::Hasher;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs of at least this length are long: shorter payload reads cost more to record than to repeat.
pub const LONG: u64 = 64 << 10;

/// Bytes read at once where something has not been read before.
const PIECE: u64 = 1 << 20;

/// The space that an offset refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ByteSpace {
    /// A file of the source.
    File(FileId),
    /// The payload of a tensor that is decoded or streamed.
    Decoded(usize),
}

/// A run of bytes that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRange {
    /// Length in bytes.
    pub len: u64,
    /// CRC-32 of the bytes.
    pub crc32: u32,
    /// True if it was read as payload. Readers look into headers by pieces that reach into the payload behind them: such a
    /// piece must not become one with all of that.
    pub is_payload: bool,
}

/// The runs, by where they begin.
type Runs = BTreeMap<(ByteSpace, u64), SeenRange>;

/// Everything read so far.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Runs>);

impl Seen {
    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the bytes read at `offset`, except those that were read before.
    pub fn see(&self, place: ByteSpace, offset: u64, bytes: &[u8], is_payload: bool) {
        let all = offset..offset.saturating_add(bytes.len() as u64);
        let gaps = gaps(&self.runs(), place, &all);
        for gap in gaps {
            let [begin, end] =
                [gap.start, gap.end].map(|n| usize::try_from(n - offset).unwrap_or(usize::MAX));
            let Some(bytes) = bytes.get(begin..end) else { continue };
            self.note(
                place,
                gap.start,
                SeenRange { len: gap.end - gap.start, crc32: crc32fast::hash(bytes), is_payload },
            );
        }
    }

    /// Records a run read at `offset`, unless part of it was read before; returns whether it was recorded.
    pub fn note(&self, place: ByteSpace, mut offset: u64, mut run: SeenRange) -> bool {
        let mut runs = self.runs();
        let all = offset..offset.saturating_add(run.len);
        if gaps(&runs, place, &all) != [all.clone()] {
            return false;
        }
        let before = runs.range((place, 0)..(place, offset)).next_back().map(|((_, at), run)| (*at, *run));
        if let Some((at, left)) = before.filter(|(at, left)| at + left.len == offset && alike(left, &run)) {
            (offset, run) = (at, joined(left, run));
        }
        if let Some(right) = runs.get(&(place, all.end)).copied().filter(|right| alike(&run, right)) {
            runs.remove(&(place, all.end));
            run = joined(run, right);
        }
        runs.insert((place, offset), run);
        true
    }

    /// The CRC-32 of a range. Bytes that were never read, or only in a run that extends beyond the range, are
    /// read now.
    ///
    /// # Errors
    /// Any error from `read`.
    pub fn sum(
        &self,
        place: ByteSpace,
        range: Range<u64>,
        read: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<u32> {
        let mut known = self.within(place, range.clone());
        known.retain(|(at, run)| *at >= range.start && at + run.len <= range.end);
        let mut all = Hasher::new();
        let mut at = range.start;
        for (offset, run) in known {
            read_over(at..offset, &mut all, read)?;
            all.combine(&Hasher::new_with_initial_len(run.crc32, run.len));
            at = offset + run.len;
        }
        read_over(at..range.end, &mut all, read)?;
        Ok(all.finalize())
    }

    /// Returns whether any byte of a range was read.
    pub fn any(&self, place: ByteSpace, range: Range<u64>) -> bool {
        gaps(&self.runs(), place, &range) != [range]
    }

    /// Returns whether every byte of a range was read.
    pub fn has(&self, place: ByteSpace, range: Range<u64>) -> bool {
        gaps(&self.runs(), place, &range).is_empty()
    }

    /// The runs that begin in a range, in order.
    pub fn within(&self, place: ByteSpace, range: Range<u64>) -> Vec<(u64, SeenRange)> {
        let runs = self.runs();
        runs.range((place, range.start)..(place, range.end)).map(|((_, at), run)| (*at, *run)).collect()
    }
}

/// Returns whether adjacent runs are merged: both are long, or the sum of both is short; and both were read as the same.
fn alike(left: &SeenRange, right: &SeenRange) -> bool {
    let fit = (left.len >= LONG && right.len >= LONG) || left.len + right.len < LONG;
    fit && left.is_payload == right.is_payload
}

fn joined(left: SeenRange, right: SeenRange) -> SeenRange {
    let mut both = Hasher::new_with_initial_len(left.crc32, left.len);
    both.combine(&Hasher::new_with_initial_len(right.crc32, right.len));
    SeenRange { len: left.len + right.len, crc32: both.finalize(), is_payload: left.is_payload }
}

/// The parts of a range that are in no run.
fn gaps(runs: &Runs, place: ByteSpace, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let before = runs.range((place, 0)..(place, range.start)).next_back();
    let mut at = before.map_or(range.start, |((_, at), run)| (at + run.len).max(range.start));
    for ((_, offset), run) in runs.range((place, range.start)..(place, range.end)) {
        if *offset > at {
            gaps.push(at..*offset);
        }
        at = at.max(offset + run.len);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps
}

fn read_over(
    range: Range<u64>,
    all: &mut Hasher,
    read: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = Vec::new();
    let mut at = range.start;
    while at < range.end {
        buffer.resize(usize::try_from((range.end - at).min(PIECE)).unwrap_or(0), 0);
        read(at, &mut buffer)?;
        all.update(&buffer);
        at += buffer.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ByteSpace = ByteSpace::File(3);

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * 31 % 251).to_le_bytes()[0]).collect()
    }

    /// The checksum of a range, and how many bytes had to be read for it.
    fn sum(seen: &Seen, all: &[u8], range: Range<usize>) -> (u32, usize) {
        let mut n_read = 0;
        let asked = range.start as u64..range.end as u64;
        let sum = seen.sum(FILE, asked, &mut |at, out| {
            let at = usize::try_from(at).unwrap();
            out.copy_from_slice(&all[at..at + out.len()]);
            n_read += out.len();
            Ok(())
        });
        (sum.unwrap(), n_read)
    }

    #[test]
    fn pieces_in_any_order_sum_up_without_reading_again() {
        let all = bytes(400_000);
        let seen = Seen::default();
        for (from, to) in [(300_000, 400_000), (0, 100), (100, 100_100), (200_100, 300_000)] {
            seen.see(FILE, from as u64, &all[from..to], true);
        }
        let whole = crc32fast::hash(&all);
        assert_eq!(sum(&seen, &all, 0..all.len()), (whole, 100_000));
        seen.see(FILE, 100_100, &all[100_100..200_100], true);
        assert_eq!(sum(&seen, &all, 0..all.len()), (whole, 0));
        assert_eq!(seen.within(FILE, 0..u64::MAX).len(), 2, "the long ones are one, the short one stays");
        // Runs that extend across the edge of a range do not help.
        assert_eq!(sum(&seen, &all, 50..200), (crc32fast::hash(&all[50..200]), 150));
        assert_eq!(sum(&seen, &all, 5..5), (0, 0));
    }

    #[test]
    fn only_the_first_read_of_a_byte_counts() {
        let all = bytes(300_000);
        let mut other = all.clone();
        other[150_000] ^= 1;
        let seen = Seen::default();
        seen.see(FILE, 100_000, &all[100_000..200_000], true);
        seen.see(FILE, 0, &other, true);
        assert_eq!(sum(&seen, &all, 0..all.len()), (crc32fast::hash(&all), 0));
        let overlaps = SeenRange { len: 10, crc32: 0, is_payload: true };
        assert!(!seen.note(FILE, 299_995, overlaps));
        assert!(seen.note(FILE, 300_000, overlaps));
        assert!(seen.note(ByteSpace::File(4), 0, overlaps));
    }

    #[test]
    fn what_was_read_of_a_header_does_not_swallow_the_payload_behind_it() {
        let all = bytes(600_000);
        let seen = Seen::default();
        seen.see(FILE, 0, &all[..150_000], false);
        seen.see(FILE, 100_000, &all[100_000..], true);
        assert_eq!(sum(&seen, &all, 100_000..600_000), (crc32fast::hash(&all[100_000..]), 50_000));
    }

    #[test]
    fn short_runs_join_up_to_the_length_of_a_long_one() {
        let all = bytes(200_000);
        let seen = Seen::default();
        all.chunks(1000).enumerate().for_each(|(n, piece)| seen.see(FILE, n as u64 * 1000, piece, true));
        let runs = seen.within(FILE, 0..u64::MAX);
        assert!(runs.len() < 8 && runs.iter().all(|(_, run)| run.len < LONG), "{runs:?}");
        assert_eq!(sum(&seen, &all, 0..all.len()), (crc32fast::hash(&all), 0));
    }
}
