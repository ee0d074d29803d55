//! Reads protobuf fields at given offsets, without their contents: the basis of the bounded walk.

use crate::layout::wire;
use apr_sdk::{Error, FileId, Limits, Result, Source, escape};

/// The fewest bytes that are read at once. Behind a payload nobody knows how far the next one is.
const SHORTEST_READ: u64 = 2 * 1024;

/// The most bytes that are read at once while record follows record.
const LONGEST_READ: u64 = 64 * 1024;

/// The most bytes of a byte string that are read at once.
const LONGEST_PIECE: u64 = 16 << 20;

/// The longest varint: 64 bits, 7 in a byte.
const LONGEST_VARINT: usize = 10;

/// One record of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's number in its message.
    pub number: u32,
    /// How its value is encoded.
    pub wire: u8,
    /// Where its tag begins.
    pub at: u64,
    /// Where its length begins, if it has one.
    pub len_at: u64,
    /// Where its value begins, behind tag and length.
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// The value of a varint.
    pub value: u64,
}

impl Field {
    /// Bytes of the value.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Reads records of one file, wherever they are asked for.
pub struct Scan<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    file: FileId,
    file_len: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl<'a> Scan<'a> {
    /// A scan of `file`.
    ///
    /// # Errors
    /// Any error from [`Source::len`].
    pub fn new(source: &'a dyn Source, file: FileId, limits: &'a Limits) -> Result<Scan<'a>> {
        let file_len = source.len(file).map_err(|e| e.in_file(source.name(file)))?;
        Ok(Scan { source, limits, file, file_len, buffer: Vec::new(), buffer_at: 0 })
    }

    /// Length of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The name of the file, for messages.
    pub fn file_name(&self) -> String {
        self.source.name(self.file)
    }

    /// The limits it works under.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// A malformed-file error at `at`.
    #[cold]
    pub fn error(&self, at: u64, message: impl Into<String>) -> Error {
        self.place(Error::malformed(message), at)
    }

    /// Adds file and offset to an error that has none.
    #[cold]
    pub fn place(&self, error: Error, at: u64) -> Error {
        error.at(at).in_file(self.source.name(self.file))
    }

    /// The record that begins at `at`, in a message that ends at `end`; nothing of a value with a length is read.
    ///
    /// # Errors
    /// Malformed for a tag that is none, a group, or a value that passes `end`; any error from reading.
    pub fn field(&mut self, at: u64, end: u64) -> Result<Field> {
        let (tag, start) = self.varint(at, end)?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| (1..1 << 29).contains(n));
        let number = number.ok_or_else(|| self.error(at, format!("{tag} is not a valid tag of a record")))?;
        let wire = tag.to_le_bytes()[0] & 7;
        let mut field = Field { number, wire, at, len_at: start, start, end: start, value: 0 };
        match wire {
            wire::VARINT => (field.value, field.end) = self.varint(start, end)?,
            wire::I64 => field.end = start.saturating_add(8),
            wire::I32 => field.end = start.saturating_add(4),
            wire::LEN => {
                let (len, body) = self.varint(start, end)?;
                let left = end.saturating_sub(body);
                if len > left {
                    let message =
                        format!("field {number} has {len} bytes, but only {left} are left of its message");
                    return Err(self
                        .error(at, message)
                        .hint("get the file again: it is truncated or corrupt"));
                }
                (field.start, field.end) = (body, body + len);
            }
            3 | 4 => {
                return Err(self.error(at, format!("field {number} is a group, which ONNX does not use")));
            }
            _ => return Err(self.error(at, format!("field {number} has the unknown wire type {wire}"))),
        }
        if field.end > end {
            return Err(
                self.error(at, format!("field {number} extends past the end of its message at {end}"))
            );
        }
        Ok(field)
    }

    /// The varint at `at` and where it ends.
    ///
    /// # Errors
    /// Malformed if it passes `end` or 64 bits; any error from reading.
    pub fn varint(&mut self, at: u64, end: u64) -> Result<(u64, u64)> {
        let end = end.min(self.file_len);
        let mut value = 0u64;
        let mut far = at;
        let bytes = self.peek(at, end)?;
        for (n, &byte) in bytes.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            if n == LONGEST_VARINT - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * n);
            far += 1;
            if byte & 0x80 == 0 {
                return Ok((value, far));
            }
        }
        if bytes.len() < LONGEST_VARINT {
            let message = "a number extends past the end of its message";
            return Err(self.error(at, message).hint("get the file again: it is truncated or corrupt"));
        }
        Err(self.error(at, "a number of more than 64 bits"))
    }

    /// The next bytes from `at`: as many as a varint has, fewer before `end`.
    fn peek(&mut self, at: u64, end: u64) -> Result<&[u8]> {
        let want = end.saturating_sub(at).min(LONGEST_VARINT as u64);
        let buffered = self.buffer_at + self.buffer.len() as u64;
        if at < self.buffer_at || at + want > buffered {
            let follows = (self.buffer_at..=buffered).contains(&at) && !self.buffer.is_empty();
            let len = if follows { (self.buffer.len() as u64 * 2).min(LONGEST_READ) } else { SHORTEST_READ };
            self.refill(at, len.min(self.file_len.saturating_sub(at)))?;
        }
        let start = usize::try_from(at - self.buffer_at).unwrap_or(usize::MAX);
        let want = usize::try_from(want).unwrap_or(0);
        Ok(self.buffer.get(start..start + want).unwrap_or_default())
    }

    fn refill(&mut self, at: u64, len: u64) -> Result<()> {
        if self.source.cancelled() {
            return Err(Error::cancelled("stopped while the graph was being read"));
        }
        self.buffer.clear();
        self.buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        self.buffer_at = at;
        if let Err(error) = self.source.read_at(self.file, at, &mut self.buffer) {
            self.buffer.clear();
            return Err(self.place(error, at));
        }
        self.limits.budget.earn(len);
        Ok(())
    }

    /// The bytes from `start` to `end`, charged to the budget, appended to `out`.
    ///
    /// # Errors
    /// LimitExceeded if the budget does not allow them; any error from reading.
    pub fn append(&mut self, start: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut at = start;
        while at < end {
            let len = (end - at).min(LONGEST_PIECE);
            self.limits.budget.charge(len).map_err(|e| self.place(e, at))?;
            let inside = usize::try_from(len).unwrap_or(usize::MAX);
            let buffered = at
                .checked_sub(self.buffer_at)
                .and_then(|n| usize::try_from(n).ok())
                .and_then(|from| self.buffer.get(from..from.checked_add(inside)?));
            match buffered {
                Some(bytes) => out.extend_from_slice(bytes),
                None => {
                    let from = out.len();
                    out.resize(from + inside, 0);
                    let read = self.source.read_at(self.file, at, &mut out[from..]);
                    read.map_err(|e| self.place(e, at))?;
                    self.limits.budget.earn(len);
                }
            }
            at += len;
        }
        Ok(())
    }

    /// Whether the bytes from `at` are `wanted`.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn holds(&mut self, at: u64, wanted: &[u8]) -> Result<bool> {
        let size = usize::try_from(LONGEST_READ).unwrap_or(usize::MAX);
        let mut there = vec![0; wanted.len().min(size)];
        let mut from = at;
        for piece in wanted.chunks(size) {
            let there = &mut there[..piece.len()];
            self.source.read_at(self.file, from, there).map_err(|e| self.place(e, from))?;
            self.limits.budget.earn(piece.len() as u64);
            if there != piece {
                return Ok(false);
            }
            from += piece.len() as u64;
        }
        Ok(true)
    }

    /// The bytes of a field's value.
    ///
    /// # Errors
    /// As [`Scan::append`].
    pub fn bytes(&mut self, field: &Field) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.append(field.start, field.end, &mut out)?;
        Ok(out)
    }

    /// A name. Protobuf's text is UTF-8, though not every program minds: what is not has no name here.
    ///
    /// # Errors
    /// Unsupported for bytes that are not UTF-8; LimitExceeded for a name that is longer than one may be; as
    /// [`Scan::append`].
    pub fn name(&mut self, field: &Field) -> Result<String> {
        let limit = self.limits.name_bytes;
        if field.len() > limit {
            let message = format!("a name of {} bytes, more than the limit of {limit}", field.len());
            return Err(self.place(Error::limit(message), field.at));
        }
        let bytes = self.bytes(field)?;
        String::from_utf8(bytes).map_err(|error| {
            let shown = escape(&String::from_utf8_lossy(error.as_bytes()), 80);
            let message = format!("the name `{shown}` is not valid UTF-8");
            let hint = "write the model again with a program that checks this, such as the package onnx";
            self.place(Error::unsupported(message).hint(hint), field.start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::MemorySource;

    fn first(bytes: &[u8]) -> Result<Field> {
        let (source, limits) = (MemorySource::new("a", bytes), Limits::default());
        Scan::new(&source, 0, &limits)?.field(0, bytes.len() as u64)
    }

    #[test]
    fn records_know_their_places() {
        let field = first(&[0x4a, 3, 1, 2, 3]).unwrap();
        assert_eq!((field.number, field.len_at, field.start, field.end), (9, 1, 2, 5));
        assert_eq!(first(&[0x08, 0x96, 0x01]).unwrap().value, 150);
        assert_eq!(first(&[0x08, 0x80, 0x00]).unwrap().end, 3);
        let most = [&[0x08][..], &[0xff; 9], &[1]].concat();
        assert_eq!(first(&most).unwrap().value, u64::MAX);
    }

    #[test]
    fn rejects_what_is_no_record() {
        for (bytes, message) in [
            (&[0x4a, 4, 1, 2, 3][..], "field 9 has 4 bytes, but only 3 are left"),
            (&[0x0b][..], "field 1 is a group"),
            (&[0x0e, 0][..], "unknown wire type 6"),
            (&[0x00, 0][..], "0 is not a valid tag"),
            (&[0x09, 0, 0][..], "extends past the end of its message"),
            (&[0x80][..], "a number extends past the end"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..], "more than 64 bits"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80, 0][..], "more than 64 bits"),
        ] {
            let error = first(bytes).unwrap_err();
            assert!(error.message().contains(message), "{error}");
            assert!(error.offset().is_some() && error.file() == Some("a"));
        }
    }
}
