//! What reproducing a file needs beyond the typed form: padding that differs from what the writer produces.
//! This is the format's verbatim form, only used for files with unusual padding: no zeros after the last payload, or
//! other bytes than zeros.

use crate::index::Data;
use apr_sdk::{Bytes, Cursor, Error, Limits, Result, Source};
use std::ops::Range;
use std::slice::from_ref;

/// Bytes around the payloads that differ from the writer's. `None` stands for zeros as the writer would
/// produce them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Remainder {
    /// Where the header ends; a header of another length would have other padding.
    pub header_end: u64,
    /// Where the last payload ends.
    pub data_end: u64,
    /// Bytes between header and data.
    pub padding: Option<Vec<u8>>,
    /// Bytes after the last payload.
    pub tail: Option<Vec<u8>>,
    /// Bytes between payloads, one gap after the other.
    pub between: Option<Vec<u8>>,
}

/// What surrounds the payloads.
#[derive(Default)]
pub struct Found {
    /// What differs from the writer's, if anything does.
    pub remainder: Option<Remainder>,
    /// What differs and is too long to keep.
    pub notes: Vec<String>,
}

/// The most padding that is read when a file is opened. Payloads are seldom padded at all: their sizes are multiples of
/// the alignment.
const MOST_READ: u64 = 16 << 20;

impl Remainder {
    /// Examines the padding of file 0.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn find(source: &dyn Source, limits: &Limits, data: &Data, has_payload: bool) -> Result<Found> {
        let len = source.len(0)?;
        if len < data.header_end {
            let message = format!("the file was truncated to {len} bytes while it was being read");
            return Err(Error::io(message).in_file(source.name(0)));
        }
        let start = data.start.min(len);
        // Without payload, the file may end before the data would begin.
        let end = if has_payload { data.end.min(len) } else { start };
        let usual_end = if has_payload { data.padded_end } else { data.start };
        let mut found = Found::default();
        if len != usual_end && len - end > Bytes::INLINE_LIMIT {
            found.notes.push(format!("{} bytes after the last tensor are not part of the model", len - end));
            return Ok(found);
        }
        let mut padding = Padding { source, limits, file_len: len, notes: &mut found.notes };
        let before = padding.read(from_ref(&(data.header_end..start)), start < data.start)?;
        let between = if data.is_in_order { padding.read(&data.gaps, false)? } else { None };
        let tail = padding.read(from_ref(&(end..len)), len != usual_end)?;
        if before.is_some() || between.is_some() || tail.is_some() {
            let header_end = data.header_end;
            found.remainder = Some(Remainder { header_end, data_end: end, padding: before, tail, between });
        }
        Ok(found)
    }

    /// Serializes to two u64, then two or three byte strings, each after its u64 length, where `USUAL` stands for
    /// `None`; the third one is there if it is not `None`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.header_end.to_le_bytes());
        out.extend_from_slice(&self.data_end.to_le_bytes());
        let between = self.between.is_some().then_some(&self.between);
        for bytes in [&self.padding, &self.tail].into_iter().chain(between) {
            let len = bytes.as_ref().map_or(USUAL, |bytes| bytes.len() as u64);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(bytes.as_deref().unwrap_or_default());
        }
        out
    }

    /// Parses [`Remainder::to_bytes`]; `None` for anything else, which a writer then ignores.
    pub fn from_bytes(bytes: &[u8]) -> Option<Remainder> {
        let mut rest = bytes;
        let header_end = number(&mut rest)?;
        let data_end = number(&mut rest)?;
        let padding = string(&mut rest)?;
        let tail = string(&mut rest)?;
        let between = if rest.is_empty() { None } else { string(&mut rest)? };
        rest.is_empty().then_some(Remainder { header_end, data_end, padding, tail, between })
    }
}

/// Reads padding of one file.
struct Padding<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    file_len: u64,
    notes: &'a mut Vec<String>,
}

impl Padding<'_> {
    /// The bytes of `gaps`, if they are not all zeros or their length is unusual; a note if those are too many to keep.
    fn read(&mut self, gaps: &[Range<u64>], is_unusual: bool) -> Result<Option<Vec<u8>>> {
        let total = gaps.iter().fold(0u64, |sum, gap| sum.saturating_add(gap.end - gap.start));
        if total > MOST_READ {
            let note = "bytes of padding were not read: rewriting the file sets them to zero";
            self.notes.push(format!("{total} {note}"));
            return Ok(None);
        }
        let (mut bytes, mut any) = (Vec::new(), is_unusual);
        for gap in gaps {
            // A payload past the end is refused later, by name.
            let end = gap.end.min(self.file_len);
            let mut at = gap.start.min(end);
            while at < end {
                let next = end.min(at + Bytes::INLINE_LIMIT);
                let piece = Cursor::with_end(self.source, 0, at, next, self.limits)?.bytes(next - at)?;
                any |= piece.iter().any(|&byte| byte != 0);
                if total <= Bytes::INLINE_LIMIT {
                    bytes.extend(piece);
                }
                at = next;
            }
        }
        if any && total > Bytes::INLINE_LIMIT {
            self.notes.push(format!(
                "{total} bytes of padding are not all zeros: rewriting the file sets them to zero"
            ));
            any = false;
        }
        Ok(Some(bytes).filter(|_| any))
    }
}

/// The length that stands for the writer's own padding.
const USUAL: u64 = u64::MAX;

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (head, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*head))
}

fn string(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let len = number(rest)?;
    if len == USUAL {
        return Some(None);
    }
    let (head, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(Some(head.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_both_ways_and_damaged_ones_are_nothing() {
        let padding = Some(vec![1, 0]);
        let without = Remainder { header_end: 40, data_end: 96, padding, tail: None, between: None };
        let with = Remainder { between: Some(vec![7]), ..without.clone() };
        // What has no third string is whole without it.
        let shorter = without.to_bytes().len();
        for remainder in [without, with] {
            let bytes = remainder.to_bytes();
            for n in (0..bytes.len()).filter(|&n| n != shorter) {
                assert_eq!(Remainder::from_bytes(&bytes[..n]), None);
            }
            assert_eq!(Remainder::from_bytes(&bytes), Some(remainder));
        }
        assert_eq!(Remainder::from_bytes(&[0x7f; 40]), None);
    }
}
