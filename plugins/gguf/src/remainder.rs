//! What reproducing a file needs beyond the typed form: padding that differs from what the writer produces.
//! This is the format's verbatim form, only used for files with unusual padding (above all, no zeros after
//! the last payload).

use crate::index::Data;
use apr_sdk::{Bytes, Cursor, Error, Limits, Result, Source};

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
}

/// What surrounds the payloads.
pub enum Found {
    /// The same as from the writer.
    Usual,
    /// Something different.
    Unusual(Remainder),
    /// Too many bytes after the last payload to keep.
    TooLong(u64),
}

impl Remainder {
    /// Examines the padding of file 0. Padding of the usual length after the last payload is assumed to be
    /// zeros, so that opening does not touch the end of the file; so is padding before the data that is too
    /// long to be held.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn find(source: &dyn Source, limits: &Limits, data: &Data, has_payload: bool) -> Result<Found> {
        let len = source.len(0)?;
        if len < data.header_end {
            let message = format!("the file was cut to {len} bytes while it was read");
            return Err(Error::io(message).in_file(source.name(0)));
        }
        let start = data.start.min(len);
        // Without payload, the file may end before the data would begin.
        let end = if has_payload { data.end.min(len) } else { start };
        let usual_end = if has_payload { data.padded_end } else { data.start };
        if len != usual_end && len - end > Bytes::INLINE_LIMIT {
            return Ok(Found::TooLong(len - end));
        }
        let read = |from, to| Cursor::with_end(source, 0, from, to, limits)?.bytes(to - from);
        let mut padding = None;
        if start - data.header_end <= Bytes::INLINE_LIMIT {
            let there = read(data.header_end, start)?;
            padding = Some(there).filter(|there| start < data.start || there.iter().any(|&b| b != 0));
        }
        let tail = if len == usual_end { None } else { Some(read(end, len)?) };
        if padding.is_none() && tail.is_none() {
            return Ok(Found::Usual);
        }
        Ok(Found::Unusual(Remainder { header_end: data.header_end, data_end: end, padding, tail }))
    }

    /// Serializes to two u64, then two byte strings, each after its u64 length, where `USUAL` stands for
    /// `None`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.header_end.to_le_bytes());
        out.extend_from_slice(&self.data_end.to_le_bytes());
        for bytes in [&self.padding, &self.tail] {
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
        rest.is_empty().then_some(Remainder { header_end, data_end, padding, tail })
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
        let remainder = Remainder { header_end: 40, data_end: 96, padding: Some(vec![1, 0]), tail: None };
        let bytes = remainder.to_bytes();
        assert_eq!(Remainder::from_bytes(&bytes), Some(remainder));
        for n in 0..bytes.len() {
            assert_eq!(Remainder::from_bytes(&bytes[..n]), None);
        }
        assert_eq!(Remainder::from_bytes(&[0x7f; 40]), None);
    }
}
