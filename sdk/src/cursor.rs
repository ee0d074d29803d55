//! Reads numbers and strings while tracking the absolute offset, checking every length and charging the
//! budget.

use crate::{Error, FileId, Limits, Result, Source};

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// Walks forward through one file of a [`Source`], with a buffer of at most 64 KiB. Errors carry the file and
/// the offset *before* the field.
pub struct Cursor<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    file: FileId,
    end: u64,
    position: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    /// The byte order of the numbers to come; may be changed at any time.
    pub endian: Endian,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// Malformed at the end of the range; any error from the source.
        pub fn $name(&mut self) -> Result<$type> {
            let mut raw = [0; size_of::<$type>()];
            self.fill(&mut raw)?;
            Ok(match self.endian {
                Endian::Little => <$type>::from_le_bytes(raw),
                Endian::Big => <$type>::from_be_bytes(raw),
            })
        })*
    };
}

impl<'a> Cursor<'a> {
    const BUFFER: u64 = 64 * 1024;

    /// A cursor from `start` to the end of `file`.
    ///
    /// # Errors
    /// Any error from [`Source::len`]; Malformed if `start` is past the end.
    pub fn new(source: &'a dyn Source, file: FileId, start: u64, limits: &'a Limits) -> Result<Cursor<'a>> {
        let end = source.len(file).map_err(|e| e.in_file(source.name(file)))?;
        Cursor::with_end(source, file, start, end, limits)
    }

    /// A cursor over the bytes `start..end` of `file`.
    ///
    /// # Errors
    /// Malformed if `start` is past `end`.
    pub fn with_end(
        source: &'a dyn Source,
        file: FileId,
        start: u64,
        end: u64,
        limits: &'a Limits,
    ) -> Result<Cursor<'a>> {
        if start > end {
            let message = format!("the data starts past the end at {end}");
            return Err(Error::malformed(message).at(start).in_file(source.name(file)));
        }
        Ok(Cursor {
            source,
            limits,
            file,
            end,
            position: start,
            buffer: Vec::new(),
            buffer_at: 0,
            endian: Endian::Little,
        })
    }

    /// The absolute offset of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes left before the end of the range.
    pub fn left(&self) -> u64 {
        self.end - self.position
    }

    /// The limits this cursor enforces.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    numbers! {
        /// Reads one byte.
        u8: u8;
        /// Reads a 2-byte unsigned number in the current byte order.
        u16: u16;
        /// Reads a 4-byte unsigned number in the current byte order.
        u32: u32;
        /// Reads an 8-byte unsigned number in the current byte order.
        u64: u64;
    }

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    /// Malformed if fewer are left; any error from the source.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        self.need(len)?;
        let mut done = 0;
        while done < out.len() {
            let inside = self.buffered(out.len() - done)?;
            let take = inside.len();
            out[done..done + take].copy_from_slice(inside);
            done += take;
            self.position += take as u64;
        }
        Ok(())
    }

    /// Reads the next `len` bytes, charged to the budget.
    ///
    /// # Errors
    /// Malformed if fewer are left; LimitExceeded if the budget is too small; any error from the source.
    pub fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        let start = self.position;
        self.need(len)?;
        self.limits.budget.charge(len).map_err(|e| self.place(e, start))?;
        let size = usize::try_from(len)
            .map_err(|_| self.error_at(start, format!("{len} bytes do not fit in memory")))?;
        let mut out = vec![0; size];
        if len > Cursor::BUFFER {
            self.source.read_at(self.file, start, &mut out).map_err(|e| self.place(e, start))?;
            self.limits.budget.earn(len);
            self.position += len;
        } else {
            self.fill(&mut out)?;
        }
        Ok(out)
    }

    /// Reads the next `len` bytes as UTF-8; `what` names the field in errors.
    ///
    /// # Errors
    /// As [`Cursor::bytes`]; Malformed if they are not UTF-8.
    pub fn text(&mut self, what: &str, len: u64) -> Result<String> {
        let start = self.position;
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes).map_err(|e| {
            let bad = e.utf8_error().valid_up_to() as u64;
            self.error_at(start + bad, format!("the {what} is not valid UTF-8"))
        })
    }

    /// Skips `len` bytes without reading them.
    ///
    /// # Errors
    /// Malformed if fewer are left.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        self.need(len)?;
        self.position += len;
        Ok(())
    }

    /// Checks a count that was just read at offset `at`: against `cap`, and against the bytes left at
    /// `min_item` bytes per item.
    ///
    /// # Errors
    /// LimitExceeded or Malformed, at offset `at`.
    pub fn count(&self, what: &str, at: u64, count: u64, cap: u64, min_item: u64) -> Result<usize> {
        self.limits.count(what, count, cap, min_item, self.left()).map_err(|e| self.place(e, at))
    }

    /// A Malformed error at offset `at` of this file.
    #[cold]
    pub fn error_at(&self, at: u64, message: impl Into<String>) -> Error {
        self.place(Error::malformed(message), at)
    }

    /// Adds this file and the offset `at` to an error that has no place yet.
    #[cold]
    pub fn place(&self, error: Error, at: u64) -> Error {
        error.at(at).in_file(self.source.name(self.file))
    }

    fn need(&self, len: u64) -> Result<()> {
        if len <= self.left() {
            return Ok(());
        }
        Err(self
            .error_at(self.position, format!("expected {len} bytes, only {} are left", self.left()))
            .hint("get the file again: it is truncated or corrupt"))
    }

    /// Between one and `want` buffered bytes at the current position.
    fn buffered(&mut self, want: usize) -> Result<&[u8]> {
        let inside = self.position.checked_sub(self.buffer_at).filter(|&n| n < self.buffer.len() as u64);
        let start = match inside {
            Some(n) => usize::try_from(n).unwrap_or(0),
            None => {
                let len = Cursor::BUFFER.min(self.left());
                self.buffer.resize(usize::try_from(len).unwrap_or(0), 0);
                self.buffer_at = self.position;
                let read = self.source.read_at(self.file, self.position, &mut self.buffer);
                if let Err(error) = read {
                    self.buffer.clear();
                    return Err(self.place(error, self.position));
                }
                self.limits.budget.earn(len);
                0
            }
        };
        let end = self.buffer.len().min(start + want);
        Ok(&self.buffer[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    #[test]
    fn reads_across_buffers_and_knows_its_place() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let source = MemorySource::new("a.bin", bytes.clone());
        let limits = Limits::default();
        let mut cursor = Cursor::new(&source, 0, 0, &limits).unwrap();
        cursor.skip(65_530).unwrap();
        assert_eq!(cursor.bytes(100).unwrap(), &bytes[65_530..65_630]);
        assert_eq!(cursor.bytes(100_000).unwrap(), &bytes[65_630..165_630]);
        cursor.endian = Endian::Big;
        assert_eq!(cursor.u16().unwrap(), u16::from_be_bytes([bytes[165_630], bytes[165_631]]));
        let error = cursor.skip(1 << 40).unwrap_err();
        assert_eq!((error.offset(), error.file()), (Some(165_632), Some("a.bin")));
    }

    #[test]
    fn lengths_are_refused_before_they_cost_memory() {
        let source = MemorySource::new("a", vec![0; 10]);
        let limits = Limits::default();
        let mut cursor = Cursor::new(&source, 0, 0, &limits).unwrap();
        assert!(cursor.bytes(1 << 62).is_err());
        assert!(cursor.count("keys", 0, 1 << 63, u64::MAX, 1).is_err());
        assert!(cursor.text("name", 4).is_ok());
    }
}
